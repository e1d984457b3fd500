"""Compares every computed tensor with ONNX Runtime, and finds the first instruction that went wrong."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np

from npuviz.base.progress import NoProgress, Progress
from npuviz.onnx.reference import as_declared, run_reference
from npuviz.onnx.single_node import run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.target import CheckResult
from npuviz.targets.neuroncore.check.errors import TOLERANCES, Errors, float_errors, integer_errors
from npuviz.targets.neuroncore.check.origin import Bad, first_divergence
from npuviz.targets.neuroncore.check.pieces import Pieces, PieceValues
from npuviz.targets.neuroncore.values.engine import ValueEngine
from npuviz.targets.neuroncore.values.host import as_type

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_GROUP_BYTES = 256 << 20
_KEPT_GROUPS = 2
_FUSED_NODES = 64

_REQUANTIZING = frozenset(("QuantizeLinear", "QLinearMatMul", "QLinearConv", "DynamicQuantizeLinear"))
_RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
)


def check(
    engine: ValueEngine, graph: Graph, log: np.ndarray, progress: Progress | None = None
) -> CheckResult:
    """Replay the log and compare every computed tensor, in HBM or in pieces on chip, with ONNX Runtime.

    Where rounding before a tensor is amplified, its operator on the machine's own inputs counts as well.
    Elements that nobody wrote are wrong. Raises FormatError when ONNX Runtime refuses the model.
    """
    watch = progress or NoProgress()
    edits = engine.edits
    tensors = _computed(graph)
    rule = _Rule(engine, graph, References(engine, graph, tensors))
    pieces = Pieces(engine.tables, graph)
    if pieces.by_instruction:
        total = max(1, len(log))

        def visit(position: int, entry: int) -> None:
            if not position & 1023:
                watch.report(0.5 * position / total, "replaying")
            for done in pieces.visit(engine, position, entry):
                rule.compare_pieces(done)

        engine.replay(log, edits, visit)
        for left in pieces.unfinished():
            rule.compare_pieces(left)
    with engine.at(log, edits):
        for number, index in enumerate(tensors):
            watch.report(0.5 + 0.5 * number / max(1, len(tensors)), f"checking {graph.tensors[index].name}")
            rule.compare(index)
        return rule.result(log)


def _computed(graph: Graph) -> list[int]:
    """Tensors that nodes compute and that have numbers."""
    return [
        index
        for node in graph.nodes
        for index in node.outputs
        if index >= 0 and graph.tensors[index].dtype not in ("string", "opaque")
    ]


class References:
    """What ONNX Runtime computes, run in groups of tensors that fit in memory together."""

    def __init__(self, engine: ValueEngine, graph: Graph, tensors: Sequence[int]) -> None:
        self._engine = engine
        self._graph = graph
        self._groups = list(_groups(graph, tensors))
        self._group_of = {index: number for number, group in enumerate(self._groups) for index in group}
        self._kept: OrderedDict[int, dict[int, np.ndarray]] = OrderedDict()

    def get(self, tensor: int) -> np.ndarray:
        """Values of a tensor in its declared type."""
        number = self._group_of[tensor]
        found = self._kept.get(number)
        if found is None:
            if len(self._kept) >= _KEPT_GROUPS:
                self._kept.popitem(last=False)
            found = run_reference(self._graph, self._engine.inputs, self._groups[number])
            self._kept[number] = found
        self._kept.move_to_end(number)
        return as_declared(np.asarray(found[tensor]), self._graph.tensors[tensor].dtype)


def _groups(graph: Graph, tensors: Sequence[int]) -> Iterator[list[int]]:
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

    def __init__(self, engine: ValueEngine, graph: Graph, references: References) -> None:
        self._engine = engine
        self._graph = graph
        self._references = references
        self._types = _coarsest_types(graph, engine.spec.dtype)
        self._compared: set[int] = set()
        self._failed: dict[int, Bad] = {}
        self._absent: dict[str, list[str]] = {}
        self._max_abs = 0.0
        self._max_rel = 0.0
        self._used: set[str] = set()

    def compare_pieces(self, found: PieceValues) -> None:
        """Compare a tensor that was collected on chip."""
        index = found.tensor
        bad = self._compare(index, found.values.reshape(-1), found.covered)
        if bad is not None:
            position = found.first_position(bad)
            self._failed.setdefault(index, Bad(index, bad, position, found.instruction_at(position)))

    def compare(self, index: int) -> None:
        """Compare a tensor as HBM holds it at the end."""
        tensor, engine = self._graph.tensors[index], self._engine
        number = engine.variable_of(index)
        if self._graph.nodes[tensor.producer].op_type in _RANDOM:
            self._leave_out(index, "random")
            return
        if number < 0:
            if index not in self._compared and tensor.num_elements:
                self._leave_out(index, "fused into the operators that read them")
            return
        values = engine.variable(number)
        written = engine.written_elements(number)
        if index in self._compared and not written.any():
            return
        bad = self._compare(index, values.reshape(-1), written)
        if bad is not None and index not in self._failed:
            self._failed[index] = Bad(index, bad)

    def _leave_out(self, index: int, reason: str) -> None:
        self._absent.setdefault(reason, []).append(self._graph.tensors[index].name)

    def _compare(self, index: int, found: np.ndarray, written: np.ndarray) -> np.ndarray | None:
        """Flat bool array of wrong elements, or None if all are right. Keeps the largest errors."""
        reference = self._references.get(index)
        if reference.size != found.size:
            if self._graph.tensors[index].num_elements != reference.size:
                # Its shape depends on values; the machine has the declared one.
                self._leave_out(index, "of a shape that depends on values")
                return None
            raise AssertionError(f"tensor {self._graph.tensors[index].name} has {found.size} elements")
        self._compared.add(index)
        dtype = self._types[index]
        self._used.add(dtype or "integer")
        if not reference.size:
            return None
        bad, absolute, relative = self._errors(index, found, reference)
        if bad.any():
            local = self._local_reference(index)
            if local is not None and local.size == found.size:
                other, other_absolute, other_relative = self._errors(index, found, local)
                if not other.any():
                    bad, absolute, relative = other, other_absolute, other_relative
        bad |= ~written
        self._max_abs, self._max_rel = max(self._max_abs, absolute), max(self._max_rel, relative)
        return bad if bad.any() else None

    def _errors(self, index: int, found: np.ndarray, reference: np.ndarray) -> Errors:
        dtype = self._types[index]
        if not dtype:
            step = 1 if self._is_requantized(index) else 0
            return integer_errors(found, reference.reshape(-1), step)
        # What the type in HBM cannot hold is right when it is what the cast makes of it.
        expected = as_type(reference, found.dtype) if found.dtype.kind not in "iub" else reference
        return float_errors(found, expected.reshape(-1), reference.reshape(-1), dtype)

    def _local_reference(self, index: int) -> np.ndarray | None:
        """What ONNX Runtime makes of what the machine had: runs the tensor's operator, and before it those
        whose results were fused away. None where that leads too far."""
        graph = self._graph
        arrays: dict[int, np.ndarray] = {}
        nodes: list[int] = []
        wanted = [graph.tensors[index].producer]
        while wanted:
            number = wanted.pop()
            if number in nodes:
                continue
            if number < 0 or len(nodes) >= _FUSED_NODES:
                return None
            nodes.append(number)
            for tensor in graph.nodes[number].inputs:
                if tensor >= 0 and tensor not in arrays:
                    held = self._held(tensor)
                    if held is None:
                        wanted.append(graph.tensors[tensor].producer)
                    else:
                        arrays[tensor] = held
        for number in sorted(nodes):
            arrays.update(run_node(graph, graph.nodes[number], arrays))
            if any(tensor >= 0 and tensor not in arrays for tensor in graph.nodes[number].outputs):
                return None
        return arrays[index]

    def _held(self, tensor: int) -> np.ndarray | None:
        """A tensor as HBM holds it, in the graph's type; None if HBM does not."""
        graph, engine = self._graph, self._engine
        if tensor in graph.constants and numpy_dtype(graph.tensors[tensor].dtype).kind in "iub":
            return np.ascontiguousarray(graph.constants[tensor])
        number = engine.variable_of(tensor)
        if number >= 0 and engine.is_complete(number):
            return as_type(engine.variable(number), numpy_dtype(graph.tensors[tensor].dtype))
        known = graph.constants.get(tensor)
        return None if known is None else np.ascontiguousarray(known)

    def _is_requantized(self, index: int) -> bool:
        """Whether the tensor was rounded to 8 bits from something finer."""
        tensor = self._graph.tensors[index]
        return tensor.dtype in ("int8", "uint8") and (
            self._graph.nodes[tensor.producer].op_type in _REQUANTIZING
        )

    def result(self, log: np.ndarray) -> CheckResult:
        """The comparison so far; the contents must be at the end of the log."""
        text = first_divergence(self._engine, self._graph, log, list(self._failed.values()))
        return CheckResult(
            len(self._compared), len(self._failed), self._max_abs, self._max_rel, text, self._tolerance()
        )

    def _tolerance(self) -> str:
        words = [
            f"{name} {of_element:g} of the element + {of_tensor:g} of the largest magnitude"
            for name, (of_element, of_tensor) in TOLERANCES.items()
            if name in self._used
        ]
        words += ["integers exactly (requantised ones within one step)"] if "integer" in self._used else []
        text = (
            "by the coarsest type on the way: " + ", ".join(words) + "; against ONNX Runtime, or, where "
            "rounding before it is amplified, against its operator on the machine's own inputs"
        )
        for reason, names in self._absent.items():
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            text += f"; {len(names)} tensors were not compared, {reason} ({some})"
        return text


def _coarsest_types(graph: Graph, compute: str) -> list[str]:
    """Per tensor the float type with the largest error on the way to it, "" for exact integers."""
    order = list(TOLERANCES)

    def rank(dtype: str) -> int:
        if dtype.startswith(("float8", "float6", "float4")):
            return order.index("float8")
        if dtype in ("float32", "float64"):
            return order.index(compute)
        return order.index(dtype) if dtype in _FLOATS else -1

    found = [rank(tensor.dtype) for tensor in graph.tensors]
    for node in graph.nodes:
        before = [found[index] for index in node.inputs if index >= 0]
        for index in node.outputs:
            if index >= 0 and rank(graph.tensors[index].dtype) >= 0:
                found[index] = max(found[index], *before, 0)
    return ["" if number < 0 else order[number] for number in found]
