"""Compares everything a program computes with ONNX Runtime."""

from collections.abc import Iterator, Sequence

import numpy as np

from npuviz.base.progress import NoProgress, Progress
from npuviz.onnx.reference import as_declared, run_reference
from npuviz.program.graph import Graph
from npuviz.sim.target import CheckResult
from npuviz.targets.systolic.values.engine import ValueEngine
from npuviz.targets.systolic.values.host import run_on_host
from npuviz.targets.systolic.values.storage import FLOATS

TOLERANCES = {
    "float32": 1e-4,
    "float16": 2e-2,
    "bfloat16": 1e-1,
    "float8_e4m3fn": 5e-1,
}
"""Largest error allowed, relative to the largest magnitude of the tensor, by element type in DRAM.

Rounding errors of a layer reach all later ones, so these are several times the error of one rounding
(2**-24, 2**-11, 2**-8, 2**-4).
"""

_REQUANTIZING = frozenset(("QuantizeLinear", "QLinearMatMul", "QLinearConv", "DynamicQuantizeLinear"))

_GROUP_BYTES = 256 << 20


def check(engine: ValueEngine, graph: Graph, progress: Progress | None = None) -> CheckResult:
    """Compare every computed tensor with ONNX Runtime (one thread, nothing optimised).

    Raises FormatError when ONNX Runtime refuses the model. Its uint8 x int8 products saturate on
    processors without VNNI, so models with 8-bit weights may differ there.
    """
    watch = progress or NoProgress()
    computed = [
        index
        for node in graph.nodes
        for index in node.outputs
        if index >= 0 and graph.tensors[index].dtype not in ("string", "opaque")
    ]
    rule = _Rule(_coarsest_types(engine, graph))
    for group in _groups(graph, computed):
        expected = run_reference(graph, engine.inputs, group)
        for index in group:
            watch.report(rule.num_tensors / max(1, len(computed)), f"checking {graph.tensors[index].name}")
            reference = as_declared(np.asarray(expected[index]), graph.tensors[index].dtype)
            rule.compare(engine, index, reference)
    return rule.result()


def _groups(graph: Graph, tensors: Sequence[int]) -> Iterator[list[int]]:
    """Tensors in groups whose reference values fit in memory together."""
    group: list[int] = []
    size = 0
    for index in tensors:
        group.append(index)
        size += graph.tensors[index].num_elements * 8
        if size > _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


class _Rule:
    """Counts what is compared and what is outside the tolerance."""

    def __init__(self, types: Sequence[str]) -> None:
        self._types = types
        self.num_tensors = 0
        self._failed = 0
        self._unknown = 0
        self._max_abs = 0.0
        self._max_rel = 0.0
        self._first = ""
        self._used: set[str] = set()

    def compare(self, engine: ValueEngine, index: int, expected: np.ndarray) -> None:
        """Compare with the reference run; where that fails, with the operator on the machine's own inputs."""
        found = engine.tensor(index)
        if expected.size != found.size:
            self._unknown += 1
            return
        self.num_tensors += 1
        dtype = self._types[index]
        is_float = dtype in FLOATS
        self._used.add(dtype if is_float else "integer")
        if expected.size == 0:
            return
        tolerance = _tolerance(dtype) if is_float else 0.0
        if dtype in ("int8", "uint8") and _is_requantized(engine.graph, index):
            # One step: where a quotient lies on a rounding boundary, either neighbour is right.
            tolerance = 1.0 / max(1.0, float(np.abs(expected.astype(np.float64)).max()))
        absolute, relative = _errors(found.reshape(expected.shape), expected)
        if relative > tolerance:
            local = _local_reference(engine, index)
            if local is not None:
                absolute, relative = _errors(found.reshape(local.shape), local)
        self._max_abs, self._max_rel = max(self._max_abs, absolute), max(self._max_rel, relative)
        if relative > tolerance:
            self._failed += 1
            self._first = self._first or engine.graph.tensors[index].name

    def result(self) -> CheckResult:
        """The comparison so far."""
        words = [f"{name} {TOLERANCES[name]:g}" for name in TOLERANCES if name in self._used]
        words += ["integers exactly (requantised ones within one step)"] if "integer" in self._used else []
        text = (
            "largest error relative to the largest magnitude of the tensor: " + ", ".join(words) + "; "
            "against ONNX Runtime, or, where rounding before it is amplified, against its operator on the "
            "machine's own inputs"
        )
        if self._unknown:
            text += f"; {self._unknown} tensors whose shape depends on values were not compared"
        return CheckResult(self.num_tensors, self._failed, self._max_abs, self._max_rel, self._first, text)


def _is_requantized(graph: Graph, index: int) -> bool:
    """Whether the tensor was rounded to 8 bits from something finer."""
    return graph.nodes[graph.tensors[index].producer].op_type in _REQUANTIZING


def _coarsest_types(engine: ValueEngine, graph: Graph) -> list[str]:
    """Per tensor the element type with the largest error on the way to it.

    The machine may store a tensor more coarsely than the graph declares it, and the reference computes
    in the declared types, which may be the coarser ones.
    """
    found = [
        max((storage.dtype, tensor.dtype), key=_tolerance)
        for storage, tensor in zip(engine.plan.storages, graph.tensors, strict=True)
    ]
    for node in graph.nodes:
        before = [found[index] for index in node.inputs if index >= 0]
        for index in node.outputs:
            if index >= 0 and graph.tensors[index].dtype in FLOATS:
                found[index] = max((found[index], *before), key=_tolerance)
    return found


def _tolerance(dtype: str) -> float:
    return TOLERANCES.get(dtype, 0.0)


def _local_reference(engine: ValueEngine, index: int) -> np.ndarray | None:
    """What ONNX Runtime makes of the inputs that the machine gave the tensor's operator."""
    graph = engine.graph
    node = graph.nodes[graph.tensors[index].producer]
    found = run_on_host(graph, node.id, engine.plan.storages, engine.stored)
    storage = engine.plan.storages[index]
    return None if storage.root not in found else storage.to_logical(found[storage.root])


def _errors(found: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Largest absolute error, and the same relative to the largest finite magnitude expected.

    Values that are not finite must be equal (both NaN, or the same infinity), else the error is infinite.
    """
    a, b = found.astype(np.float64), np.asarray(expected).astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf"), float("inf")
    if not finite.any():
        return 0.0, 0.0
    absolute = float(np.abs(a[finite] - b[finite]).max())
    scale = float(np.abs(b[finite]).max())
    return absolute, absolute / scale if scale else (float("inf") if absolute else 0.0)
