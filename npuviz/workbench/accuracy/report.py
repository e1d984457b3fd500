"""`npuviz accuracy`: errors of every tensor, the first wrong one, and what narrower types would do."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.names import echo, printable
from npuviz.base.progress import Progress
from npuviz.onnx.check.rounding import RoundingResult, round_tensors
from npuviz.onnx.inputs import draw_inputs
from npuviz.program.graph import Graph
from npuviz.sim.check_result import NUM_BINS, CheckResult, Spread, bin_name
from npuviz.sim.stop import BROKEN, StopKind
from npuviz.workbench.accuracy.rows import Row, accuracy_rows, checked, coarsest_row, worst_element
from npuviz.workbench.headless.exit_codes import exit_of
from npuviz.workbench.headless.finite import finite
from npuviz.workbench.headless.run import check_values
from npuviz.workbench.opening import Opened, OpenOptions, open_file

if TYPE_CHECKING:
    from npuviz.debug.session import Session

BINS = tuple(bin_name(place) for place in range(NUM_BINS))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What-if request: narrower types, and the names of the tensors to try in them (none: all tensors)."""

    types: Sequence[str] = ()
    tensors: Collection[str] = ()


def measure_accuracy(
    path: Path,
    options: OpenOptions,
    wanted: Wanted,
    progress: Progress,
    on_session: Callable[["Session"], object] = lambda _: None,
) -> dict[str, Any]:
    """Run a model, check its values, and return all that `npuviz accuracy --json` prints.

    on_session  called with the session before it runs, so that it can be interrupted
    Raises NpuvizError for what cannot be opened, run to its end or checked.
    """
    opened = open_file(path, options, progress)
    try:
        session = opened.session
        if session is None:
            raise UsageError(f"{path}: a trace bundle holds no values; give the model")
        on_session(session)
        stop = session.run(None, progress)
        if stop.kind in BROKEN or stop.kind is StopKind.INTERRUPTED:
            raise TargetError(f"the run did not end: {stop.detail or stop.kind} at cycle {stop.cycle}")
        check = checked(opened, session, progress)
        found = accuracy_values(opened, session, check)
        if wanted.types:
            found["what_if"] = what_if_values(opened, session, wanted, progress)
        code, reason = exit_of(stop, check, [], session.program.notes)
        found["exit"] = {"code": code, "reason": reason}
        return found
    finally:
        opened.close()


def accuracy_values(opened: Opened, session: "Session", check: CheckResult) -> dict[str, Any]:
    """Return the errors of a checked run as plain values. Raises TargetError where a target measures none."""
    graph, listing = session.program.graph, session.program.listing
    rows = accuracy_rows(graph, check)
    coarsest = coarsest_row(rows)
    first = check.first_instruction
    return {
        "file": printable(opened.path),
        "target": session.description.target,
        "cycles": session.machine.cycle,
        "check": check_values(check),
        "first_instruction": {"index": first, "text": listing.describe(first).text} if first >= 0 else None,
        "largest_own_error": {"operator": coarsest.label, "tensor": coarsest.name} if coarsest else None,
        "bins": list(BINS),
        "tensors": [_row_values(row, graph) for row in rows],
    }


def _row_values(row: Row, graph: Graph) -> dict[str, Any]:
    shape = graph.tensors[row.errors.tensor].shape
    return {
        "tensor": row.name,
        "operator": row.operator,
        "op_type": row.op_type,
        "depth": row.depth,
        "is_output": row.is_output,
        "shape": list(shape),
        "allowed": finite(row.errors.allowed),
        "end_to_end": _spread_values(row.errors.whole, row.errors.whole_class, shape),
        "per_operator": _spread_values(row.errors.own, row.errors.own_class, shape),
    }


def _spread_values(spread: Spread | None, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    if spread is None:
        return {"class": name}
    return {
        "class": name,
        "largest": finite(spread.largest),
        "sqnr_db": finite(spread.sqnr),
        "cosine": spread.cosine,
        "bias": spread.bias,
        "counts": list(spread.counts),
        "worst": {
            "index": list(worst_element(spread, shape)),
            "found": finite(spread.found),
            "expected": finite(spread.expected),
        }
        if spread.worst >= 0
        else None,
    }


def what_if_values(opened: Opened, session: "Session", wanted: Wanted, progress: Progress) -> dict[str, Any]:
    """Return the errors that narrower types would cause, as plain values. Raises UsageError for names that
    the model does not have."""
    graph = session.program.graph
    found = round_of(opened, graph, wanted, progress)
    return {
        "types": list(wanted.types),
        "together": {name: finite(error) for name, error in found.together.items()},
        "left_out": list(found.left_out),
        "rows": [
            {
                "tensor": graph.tensors[row.tensor].name,
                "kind": row.kind,
                "type": row.dtype,
                "largest": finite(row.own.largest),
                "sqnr_db": finite(row.own.sqnr),
                "outputs_error": finite(row.outputs),
            }
            for row in found.rows
        ],
    }


def round_of(opened: Opened, graph: Graph, wanted: Wanted, progress: Progress) -> RoundingResult:
    """Measure an opened model with its tensors rounded to the wanted types, on the inputs it was opened with.

    Raises TargetError for a program without an ONNX model, UsageError for an unknown tensor.
    """
    if not graph.source:
        raise TargetError("types can be tried in ONNX models only: there is none behind this program")
    numbers = {tensor.name: tensor.id for tensor in graph.tensors}
    unknown = [name for name in wanted.tensors if name not in numbers]
    if unknown:
        raise UsageError(f"no tensor {echo(unknown[0])}; `npuviz info` lists those of a model")
    options = opened.options
    return round_tensors(
        graph,
        draw_inputs(graph, options.inputs, options.seed),
        (tuple(wanted.types), {numbers[name] for name in wanted.tensors}),
        lambda share: progress.report(share, "rounding tensors"),
    )
