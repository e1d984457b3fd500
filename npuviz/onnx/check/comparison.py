"""The comparison of a machine's tensors with the reference, tensor by tensor, and its verdict.

A tensor has two errors: against the model run from its inputs, and, where that is beyond the tolerance,
against its operators run on what the machine had. Where rounding before a tensor is amplified, only the
second tells whether its operators are right.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.check.errors import Errors, Rule
from npuviz.onnx.check.references import References
from npuviz.onnx.semantics.operators import RANDOM
from npuviz.program.graph import Graph
from npuviz.sim.target import CheckResult

_NAMED = 3


@dataclass(frozen=True, slots=True)
class TensorErrors:
    """The errors of one tensor: from the model's inputs, and on the machine's own inputs where known."""

    end_to_end: Errors
    on_own_inputs: Errors | None = None

    @property
    def counted(self) -> Errors:
        """Those that decide: the second where it finds nothing wrong."""
        own = self.on_own_inputs
        return self.end_to_end if own is None or own.bad.any() else own


class Comparison:
    """Counts what is compared and what is outside of the tolerance.

    on_own_inputs  tensor -> what ONNX Runtime makes of the machine's own inputs, None where it cannot
    """

    def __init__(
        self, graph: Graph, references: References, on_own_inputs: Callable[[int], np.ndarray | None]
    ) -> None:
        self._graph = graph
        self._references = references
        self._on_own_inputs = on_own_inputs
        self._max_abs = 0.0
        self._max_rel = 0.0
        self._rules: set[str] = set()
        self._left_out: dict[str, dict[str, None]] = {}
        self.compared: set[int] = set()
        self.failed: dict[int, np.ndarray] = {}
        """Tensor -> its wrong elements (flat bool) when it failed first."""

    def is_random(self, tensor: int) -> bool:
        """Whether a tensor is drawn, and so left out."""
        if self._graph.nodes[self._graph.tensors[tensor].producer].op_type not in RANDOM:
            return False
        self.leave_out(tensor, "random")
        return True

    def leave_out(self, tensor: int, reason: str) -> None:
        """Note why a tensor is not compared."""
        self._left_out.setdefault(reason, {})[self._graph.tensors[tensor].name] = None

    def compare(
        self, tensor: int, found: np.ndarray, rule: Rule, written: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Wrong elements (flat bool) of what the machine holds of a tensor, None if all are right.

        found  in any shape; written  flat bool: elements that nobody wrote are wrong
        """
        reference = self._references.get(tensor)
        if reference.size != found.size:
            held = self._graph.tensors[tensor]
            if reference.size == held.num_elements:
                raise AssertionError(f"tensor {held.name} has {found.size} elements")
            # The machine has the declared shape.
            self.leave_out(tensor, "of a shape that depends on values")
            return None
        self.compared.add(tensor)
        if not reference.size:
            return None
        errors = self._errors(tensor, found.reshape(-1), reference.reshape(-1), rule).counted
        self._rules.add(errors.rule)
        self._max_abs = max(self._max_abs, errors.absolute)
        self._max_rel = max(self._max_rel, errors.relative)
        bad = errors.bad if written is None else errors.bad | ~written
        if not bad.any():
            return None
        self.failed.setdefault(tensor, bad)
        return bad

    def _errors(self, tensor: int, found: np.ndarray, reference: np.ndarray, rule: Rule) -> TensorErrors:
        end_to_end = rule(found, reference)
        if not end_to_end.bad.any():
            return TensorErrors(end_to_end)
        own = self._on_own_inputs(tensor)
        if own is None or own.size != found.size:
            return TensorErrors(end_to_end)
        return TensorErrors(end_to_end, rule(found, own.reshape(-1)))

    def result(self, first_divergence: str, remarks: str = "") -> CheckResult:
        """The verdict. remarks  what a target adds to the text, each after a semicolon."""
        text = (
            f"{', '.join(sorted(self._rules)) or 'nothing to compare'}; against ONNX Runtime, or, where "
            "rounding before it is amplified, against its operators on the machine's own inputs"
        )
        for reason, names in self._left_out.items():
            some = ", ".join(list(names)[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            text += f"; {len(names)} tensors were not compared, {reason} ({some})"
        return CheckResult(
            len(self.compared),
            len(self.failed),
            self._max_abs,
            self._max_rel,
            first_divergence,
            text + remarks,
        )
