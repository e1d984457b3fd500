"""The errors of a checked run along the depth of its model."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuviz.base.errors import TargetError
from npuviz.base.progress import Progress
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult, Spread, TensorErrors
from npuviz.workbench.opening import Opened

if TYPE_CHECKING:
    from npuviz.debug.session import Session


@dataclass(frozen=True, slots=True)
class Row:
    """One compared tensor.

    depth     operators on the longest path to it from an input or constant of the model
    operator  name of the operator that computes it; op_type  its type
    """

    name: str
    operator: str
    op_type: str
    depth: int
    is_output: bool
    errors: TensorErrors

    @property
    def label(self) -> str:
        """The operator for people: type and name."""
        return f"{self.op_type} {self.operator}".strip()


def accuracy_rows(graph: Graph, check: CheckResult) -> tuple[Row, ...]:
    """Return one row for each compared tensor, in the order of the check."""
    depths = _depths(graph)
    found: list[Row] = []
    for errors in check.tensors:
        tensor = graph.tensors[errors.tensor]
        node = graph.nodes[errors.node] if errors.node >= 0 else None
        found.append(
            Row(
                tensor.name,
                node.name if node is not None else "",
                node.op_type if node is not None else "",
                depths[errors.tensor],
                errors.tensor in graph.outputs,
                errors,
            )
        )
    return tuple(found)


def _depths(graph: Graph) -> list[int]:
    found = [0] * len(graph.tensors)
    for node in graph.nodes:
        depth = 1 + max((found[index] for index in node.inputs if index >= 0), default=0)
        for index in node.outputs:
            if index >= 0:
                found[index] = depth
    return found


def coarsest_row(rows: Collection[Row]) -> Row | None:
    """Return the row whose operator adds the most error, by its SQNR; None if no operator adds any."""
    measured = [row for row in rows if row.errors.own is not None and row.errors.own.worst >= 0]
    return min(measured, key=_own_sqnr, default=None)


def _own_sqnr(row: Row) -> float:
    own = row.errors.own
    assert own is not None
    return own.sqnr if not own.counts[-1] else float("-inf")


def worst_element(spread: Spread, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Index of the element with the largest error, () where all are equal."""
    found: list[int] = []
    rest = spread.worst
    if rest < 0:
        return ()
    for size in reversed(shape):
        rest, index = divmod(rest, max(size, 1))
        found.append(index)
    return tuple(reversed(found))


def checked(opened: Opened, session: "Session", progress: Progress) -> CheckResult:
    """Compare all tensors of a finished run. Raises TargetError where that is not possible."""
    if opened.target is None or not session.is_finished:
        raise TargetError(
            f"values can be checked when the whole program has run; it is at cycle {session.cycle}"
        )
    return opened.target.check(session.machine, progress)
