"""Compares every computed tensor with ONNX Runtime, and finds the first task that went wrong."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.progress import NoProgress, Progress
from npuviz.formats.rk3588.tensor_layout import packing
from npuviz.onnx.reference import as_declared, run_reference
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.target import CheckResult
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES, PRECISION_BYTES, Work
from npuviz.targets.rk3588.values.buffers import cubes_of, is_quantized
from npuviz.targets.rk3588.values.engine import ValueEngine
from npuviz.targets.rk3588.values.host import computed_from

STEPS = 2
"""Steps of its own scale that a quantised tensor may be off."""

FLOAT_TOLERANCES = {"float16": (1e-2, 2e-2), "float32": (1e-3, 1e-4), "bfloat16": (5e-2, 1e-1)}
"""Error allowed by the type that DDR holds: of the element, and of the tensor's largest magnitude. Of a
program with tensors in fp16, those that DDR holds as fp32 count as fp16."""

_HALF_LIMITS = (-65504.0, 65504.0)
_GROUP_BYTES = 256 << 20
_KEPT_GROUPS = 2
_RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
)


def check(
    engine: ValueEngine,
    graph: Graph,
    log: np.ndarray,
    spec: RknnSpec,
    progress: Progress | None = None,
) -> CheckResult:
    """Apply the log and compare every computed tensor that DDR holds with ONNX Runtime.

    Integers must be exact, quantised tensors within STEPS of their own scale. Where rounding before a
    tensor is amplified, its operators on the machine's own inputs count as well.
    Raises FormatError when ONNX Runtime refuses the model.
    """
    watch = progress or NoProgress()
    tensors = [
        index
        for node in graph.nodes
        for index in node.outputs
        if index >= 0 and graph.tensors[index].dtype not in ("string", "opaque")
    ]
    watch.report(0.0, "computing values")
    with engine.at(log, engine.edits):
        rule = _Rule(engine, graph, spec, _References(engine, graph, tensors))
        for number, index in enumerate(tensors):
            watch.report(0.3 + 0.7 * number / max(1, len(tensors)), f"checking {graph.tensors[index].name}")
            rule.compare(index)
        return rule.result(log)


class _References:
    """What ONNX Runtime computes, run in groups of tensors that fit in memory together."""

    def __init__(self, engine: ValueEngine, graph: Graph, tensors: Sequence[int]) -> None:
        self._engine = engine
        self._graph = graph
        wanted = [index for index in tensors if engine.home_of(index) >= 0]
        self._groups = list(_groups(graph, wanted))
        self._group_of = {index: number for number, group in enumerate(self._groups) for index in group}
        self._kept: OrderedDict[int, dict[int, np.ndarray]] = OrderedDict()

    def get(self, tensor: int) -> np.ndarray:
        """Values of a tensor in its declared type."""
        number = self._group_of[tensor]
        found = self._kept.get(number)
        if found is None:
            if len(self._kept) >= _KEPT_GROUPS:
                self._kept.popitem(last=False)
            inputs = {
                self._graph.tensors[index].name: self._engine.input_of(index) for index in self._graph.inputs
            }
            found = run_reference(self._graph, inputs, self._groups[number])
            self._kept[number] = found
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


@dataclass(frozen=True, slots=True)
class _Errors:
    """Wrong elements (flat bool), the largest error, and that relative to the largest magnitude."""

    bad: np.ndarray
    absolute: float
    relative: float


@dataclass(frozen=True, slots=True)
class _Failure:
    """The buffer that held a wrong tensor, and its wrong elements (flat bool)."""

    buffer: int
    bad: np.ndarray


class _Rule:
    """Counts what is compared and what is outside of the tolerance."""

    def __init__(self, engine: ValueEngine, graph: Graph, spec: RknnSpec, references: _References) -> None:
        self._engine = engine
        self._graph = graph
        self._references = references
        halves = any(buffer.dtype == "float16" for buffer in engine.tables.buffers)
        self._is_fp16 = halves or spec.dtype == "fp16"
        self._num_compared = 0
        self._failed: dict[int, _Failure] = {}
        self._absent: dict[str, list[str]] = {}
        self._used: set[str] = set()
        self._max_abs = 0.0
        self._max_rel = 0.0

    def compare(self, index: int) -> None:
        """Compare a tensor as DDR holds it; a graph output also as the host converted it."""
        tensor, number = self._graph.tensors[index], self._engine.home_of(index)
        if self._graph.nodes[tensor.producer].op_type in _RANDOM:
            self._absent.setdefault("random", []).append(tensor.name)
            return
        if number < 0:
            if tensor.num_elements:
                reason = "fused into the operators that read them"
                self._absent.setdefault(reason, []).append(tensor.name)
            return
        reference = self._references.get(index)
        given = self._engine.tables.outputs.get(index, number)
        for place in dict.fromkeys((number, given)):
            if not self._compare_buffer(index, place, reference):
                return
        self._num_compared += 1

    def _compare_buffer(self, index: int, number: int, reference: np.ndarray) -> bool:
        """Compare what one buffer holds; False where it cannot be compared."""
        buffer, found = self._engine.tables.buffers[number], self._engine.held_in(number)
        if found is None or reference.size != found.size:
            reason = "held in a shape that the reference does not have"
            self._absent.setdefault(reason, []).append(self._graph.tensors[index].name)
            return False
        if not found.size:
            return True
        errors = self._errors(buffer, found.reshape(-1), reference.reshape(-1))
        if errors.bad.any():
            near = computed_from(self._graph, [index], self._engine.held)
            if near is not None and near[index].size == found.size:
                other = self._errors(buffer, found.reshape(-1), near[index].reshape(-1))
                errors = errors if other.bad.any() else other
        self._max_abs = max(self._max_abs, errors.absolute)
        self._max_rel = max(self._max_rel, errors.relative)
        if errors.bad.any() and index not in self._failed:
            self._failed[index] = _Failure(number, errors.bad)
        return True

    def _errors(self, buffer: Buffer, found: np.ndarray, expected: np.ndarray) -> _Errors:
        a, b = found.astype(np.float64), expected.astype(np.float64)
        if found.dtype.kind not in "iub" and buffer.dtype == "float16":
            # What fp16 cannot hold is infinite there; near the limit rounding decides.
            a, b = np.clip(a, *_HALF_LIMITS), np.clip(b, *_HALF_LIMITS)
        finite = np.isfinite(b)
        scale = float(np.abs(b[finite]).max()) if finite.any() else 0.0
        with np.errstate(invalid="ignore"):
            distance = np.abs(a - b)
            bad = ~(distance <= self._allowed(buffer, found.dtype, b, scale))
        bad &= ~((a == b) | (np.isnan(a) & np.isnan(b)))
        usable = finite & np.isfinite(a)
        absolute = float(distance[usable].max()) if usable.any() else 0.0
        if (finite & ~usable).any():
            absolute = float("inf")
        return _Errors(bad, absolute, absolute / scale if scale else (float("inf") if absolute else 0.0))

    def _allowed(self, buffer: Buffer, dtype: np.dtype, b: np.ndarray, scale: float) -> np.ndarray | float:
        """The error that an element may have."""
        is_integer = numpy_dtype(buffer.dtype).kind in "iub"
        if is_integer and dtype.kind in "iub":
            if dtype.itemsize > 1 or dtype.kind == "b":
                self._used.add("integers exactly")
                return 0.0
            self._used.add(f"8-bit integers within {STEPS} steps")
            return float(STEPS)
        if is_quantized(buffer):
            self._used.add(f"quantised numbers within {STEPS} steps of their scale")
            return STEPS * buffer.scale
        name = buffer.dtype if buffer.dtype in FLOAT_TOLERANCES else "float32"
        name = "float16" if name == "float32" and self._is_fp16 else name
        of_element, of_tensor = FLOAT_TOLERANCES[name]
        self._used.add(f"{name} {of_element:g} of the element + {of_tensor:g} of the largest magnitude")
        return of_element * np.abs(b) + of_tensor * scale

    # Result -------------------------------------------------------------------------------------

    def result(self, log: np.ndarray) -> CheckResult:
        """The comparison so far; the contents must be at the end of the log."""
        return CheckResult(
            self._num_compared,
            len(self._failed),
            self._max_abs,
            self._max_rel,
            self._first_divergence(log),
            self._tolerance(),
        )

    def _tolerance(self) -> str:
        text = (
            f"{', '.join(sorted(self._used)) or 'nothing to compare'}; against ONNX Runtime, or, where "
            "rounding before it is amplified, against its operators on the machine's own inputs"
        )
        for reason, names in self._absent.items():
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            text += f"; {len(names)} tensors were not compared, {reason} ({some})"
        hazards = self._engine.hazards
        if hazards:
            text += f"; {len(hazards)} tasks were not executed, first: {hazards[0].text}"
        return text

    def _first_divergence(self, log: np.ndarray) -> str:
        """The failed tensor that was written first, and who wrote its first wrong element."""
        if not self._failed:
            return ""
        found = [(self._writer(log, failure), index) for index, failure in self._failed.items()]
        position, index = min(found, key=lambda item: (item[0] < 0, item[0]))
        name = self._graph.tensors[index].name
        if position < 0:
            return f"{name} (no task wrote it)"
        return f"{name} ({self._entry_name(int(log[position]))})"

    def _entry_name(self, entry: int) -> str:
        tables = self._engine.tables
        if entry < 0:
            return f"host call {tables.hosts[-1 - entry].name}"
        task = tables.tasks[entry]
        node = self._graph.nodes[task.node] if 0 <= task.node < len(self._graph.nodes) else None
        text = f"task {entry} on core {task.core}"
        if node is not None:
            text += f", {node.op_type} {node.name}".rstrip()
        fault = next((item.text for item in self._engine.hazards if item.task == entry), "")
        return f"{text}: {fault}" if fault else text

    def _writer(self, log: np.ndarray, failure: _Failure) -> int:
        """Position of the first log entry that wrote a wrong element last, -1 if none did."""
        number = failure.buffer
        buffer = self._engine.tables.buffers[number]
        elements = np.flatnonzero(failure.bad)
        places = buffer.address + _offsets(buffer, elements)
        last = np.full(len(elements), -1, np.int64)
        for position, entry in enumerate(log.tolist()):
            if entry < 0:
                if number in self._engine.tables.hosts[-1 - entry].writes:
                    last[:] = position
            else:
                last[_writes(self._engine.tables.tasks[entry].work, places)] = position
        known = last[last >= 0]
        return int(known.min()) if len(known) else -1


def _offsets(buffer: Buffer, elements: np.ndarray) -> np.ndarray:
    """Byte offsets in a buffer of elements by their index in the graph's order."""
    item = numpy_dtype(buffer.dtype).itemsize
    if buffer.layout != "feature":
        return elements * item
    batches, channels, height, width = cubes_of(buffer.shape)
    if len(buffer.shape) == 2:
        row, channel = np.divmod(elements, channels)
        batch, column = np.zeros_like(row), np.zeros_like(row)
    else:
        batch, channel, row, column = np.unravel_index(elements, (batches, channels, height, width))
    group = packing(buffer.dtype).channels
    surfaces = -(-channels // group)
    atom = ((batch * surfaces + channel // group) * height + row) * width + column
    return (atom * group + channel % group) * item


def _writes(work: Work, places: np.ndarray) -> np.ndarray:
    """Which addresses a task writes (bool)."""
    found = np.zeros(len(places), np.bool_)
    output, pool = work.output, work.pooling
    cubes: list[tuple[int, int, int, int]] = []
    if output is not None and output.to_memory:
        item = PRECISION_BYTES[output.precision_out]
        cubes.append(
            (output.address, output.surface_stride, output.height * output.width, output.channels * item)
        )
    if pool is not None:
        item = PRECISION_BYTES[pool.precision]
        cubes.append(
            (pool.address, pool.surface_stride, pool.out_height * pool.out_width, pool.out_channels * item)
        )
    for address, stride, pixels, depth in cubes:
        surfaces = -(-depth // ATOM_BYTES)
        offset = places - address
        surface, inside = np.divmod(offset, max(stride if surfaces > 1 else pixels, 1) * ATOM_BYTES)
        found |= (offset >= 0) & (surface < surfaces) & (inside < pixels * ATOM_BYTES)
    return found
