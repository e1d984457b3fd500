"""Compare every computed tensor with ONNX Runtime, and find the first task that went wrong."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from npuviz.base.progress import NoProgress, Progress
from npuviz.formats.rk3588.tensor_layout import packing
from npuviz.onnx.check.comparison import Comparison
from npuviz.onnx.check.errors import INTEGERS, Errors, Tolerance, float_errors, integer_errors
from npuviz.onnx.check.growth import Precision, table_floors
from npuviz.onnx.check.own_inputs import OwnInputs
from npuviz.onnx.check.references import References
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.operators import computed_tensors
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.sim.check_result import CheckResult
from npuviz.targets.rk3588.compiler.activation_functions import activation_function
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES, PRECISION_BYTES, Work
from npuviz.targets.rk3588.values.buffers import cubes_of, is_quantized
from npuviz.targets.rk3588.values.engine import ValueEngine

STEPS = 2
"""Most steps of its scale by which a quantised tensor may be off."""

TOLERANCES = {
    "float16": Tolerance(1e-2, 2e-2, smallest=2.0**-24),
    "float32": Tolerance(1e-3, 1e-4),
    "bfloat16": Tolerance(5e-2, 1e-1),
}
"""Tolerances by the type in DDR. In a program with tensors in fp16, those in DDR as fp32 count as fp16."""

TABLE_ERROR = 2.0**-11
"""Error of an activation table, as a share of the function's range: entries of 16 bits, straight lines
between them, and the rounding of its input to fp16."""

_HALF_LIMITS = (-65504.0, 65504.0)


def check(
    engine: ValueEngine,
    graph: Graph,
    log: np.ndarray,
    spec: RknnSpec,
    progress: Progress | None = None,
) -> CheckResult:
    """Apply the log and compare every computed tensor that DDR holds with ONNX Runtime.

    Integers must be exact, quantised tensors within STEPS of their own scale.
    Raises FormatError when ONNX Runtime refuses the model.
    """
    watch = progress or NoProgress()
    tensors = computed_tensors(graph)
    watch.report(0.0, "computing values")
    with engine.at(log, engine.edits):
        tensor_check = _TensorCheck(engine, graph, spec, tensors)
        for number, index in enumerate(tensors):
            watch.report(0.3 + 0.7 * number / max(1, len(tensors)), f"checking {graph.tensors[index].name}")
            tensor_check.compare(index)
        return tensor_check.result(log)


@dataclass(frozen=True, slots=True)
class _Failure:
    """The buffer that held a wrong tensor, and its wrong elements (flat bool)."""

    buffer: int
    bad: np.ndarray


class _TensorCheck:
    """Compare the buffers that hold tensors."""

    def __init__(self, engine: ValueEngine, graph: Graph, spec: RknnSpec, tensors: list[int]) -> None:
        self._engine = engine
        self._graph = graph
        halves = any(buffer.dtype == "float16" for buffer in engine.tables.buffers)
        self._is_fp16 = halves or spec.dtype == "fp16"
        inputs = {graph.tensors[index].name: engine.input_of(index) for index in graph.inputs}
        errors = _table_errors(engine, graph)
        precision = Precision(self._type_of, errors, steps=STEPS)
        self._floors = table_floors(graph, errors)
        references = References(graph, inputs, tensors)
        self._comparison = Comparison(graph, references, OwnInputs(graph, engine.held), precision)
        self._failed: dict[int, _Failure] = {}

    def compare(self, index: int) -> None:
        """Compare a tensor as DDR holds it; a graph output also as the host converted it."""
        number = self._engine.home_of(index)
        if self._comparison.is_random(index):
            return
        if number < 0:
            if self._graph.tensors[index].num_elements:
                self._comparison.leave_out(index, "fused into the operators that read them")
            return
        given = self._engine.tables.outputs.get(index, number)
        for place in dict.fromkeys((number, given)):
            found, buffer = self._engine.held_in(place), self._engine.tables.buffers[place]
            if found is None:
                self._comparison.leave_out(index, "held in a shape that the reference does not have")
                return
            bad = self._comparison.compare(index, found, partial(self._errors, buffer, self._floors[index]))
            if bad is not None:
                self._failed.setdefault(index, _Failure(place, bad))

    def _type_of(self, index: int) -> str:
        """Return the type in which DDR holds a tensor; for a fused one, that in which its operators compute
        it."""
        if not self._graph.tensors[index].dtype.startswith(("float", "bfloat")):
            return ""
        number = self._engine.home_of(index)
        buffer = self._engine.tables.buffers[number] if number >= 0 else None
        if buffer is not None and is_quantized(buffer):
            return "int8"
        if buffer is not None and buffer.dtype in TOLERANCES:
            return buffer.dtype
        return "float16" if self._is_fp16 else "float32"

    def _errors(self, buffer: Buffer, least: float, found: np.ndarray, expected: np.ndarray) -> Errors:
        if numpy_dtype(buffer.dtype).kind in "iub" and found.dtype.kind in "iub":
            if found.dtype.itemsize > 1 or found.dtype.kind == "b":
                return integer_errors(found, expected, 0, INTEGERS)
            return integer_errors(found, expected, STEPS, f"8-bit integers within {STEPS} steps")
        if buffer.dtype == "float16" and found.dtype.kind not in "iub":
            # Values that fp16 cannot hold are infinite in it; near the limit rounding decides.
            found = np.clip(found.astype(np.float64), *_HALF_LIMITS)
            expected = np.clip(expected.astype(np.float64), *_HALF_LIMITS)
        if is_quantized(buffer):
            text = f"quantised numbers within {STEPS} steps of their scale"
            return float_errors(found, expected, STEPS * buffer.scale, text)
        name = buffer.dtype if buffer.dtype in TOLERANCES else "float32"
        name = "float16" if name == "float32" and self._is_fp16 else name
        tolerance = replace(TOLERANCES[name], least=least)
        return float_errors(found, expected, tolerance, tolerance.text(name))

    def result(self, log: np.ndarray) -> CheckResult:
        """Return the comparison so far; the contents must be at the end of the log."""
        hazards = self._engine.hazards
        faults = f"; {len(hazards)} tasks were not executed, first: {hazards[0].text}" if hazards else ""
        text, entry = self._first_divergence(log)
        return self._comparison.result(text, faults, self._instruction(entry))

    def _instruction(self, entry: int | None) -> int:
        """Return the listing index of a log entry, -1 for none: tasks come first, then the calls of the
        Host."""
        if entry is None:
            return -1
        return entry if entry >= 0 else len(self._engine.tables.tasks) - 1 - entry

    def _first_divergence(self, log: np.ndarray) -> tuple[str, int | None]:
        """Find the failed tensor that was written first, and what wrote its first wrong element.

        Returns both as text, and the log entry, None if unknown.
        """
        if not self._failed:
            return "", None
        found = [(self._writer(log, failure), index) for index, failure in self._failed.items()]
        position, index = min(found, key=lambda item: (item[0] < 0, item[0]))
        name = self._graph.tensors[index].name
        if position < 0:
            return f"{name} (no task wrote it)", None
        return f"{name} ({self._entry_name(int(log[position]))})", int(log[position])

    def _entry_name(self, entry: int) -> str:
        tables = self._engine.tables
        if entry < 0:
            return f"host call {tables.hosts[-1 - entry].name}"
        task = tables.tasks[entry]
        node = self._graph.nodes[task.node] if 0 <= task.node < len(self._graph.nodes) else None
        text = f"task {entry} on core {task.core}"
        if node is not None:
            text += f", {node.op_type} {node.name}".rstrip()
        fault = next((item.text for item in self._engine.hazards if item.entry == entry), "")
        return f"{text}: {fault}" if fault else text

    def _writer(self, log: np.ndarray, failure: _Failure) -> int:
        """Return the position of the first log entry that was the last to write a wrong element, -1 if none
        did."""
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


def _table_errors(engine: ValueEngine, graph: Graph) -> dict[int, float]:
    """Return node -> error of the activation table that computes it, for nodes that the host does not run."""
    on_host = {call.node for call in engine.tables.hosts}
    readers = graph.consumers()

    def looks_up(node: Node) -> bool:
        if activation_function(node.op_type, attributes_of(node)) is None:
            return False
        # A LeakyRelu of floats is a factor for negative values.
        is_rounded = any(graph.nodes[each].op_type == "QuantizeLinear" for each in readers[node.outputs[0]])
        return node.op_type != "LeakyRelu" or is_rounded

    return {node.id: TABLE_ERROR for node in graph.nodes if node.id not in on_host and looks_up(node)}


def _offsets(buffer: Buffer, elements: np.ndarray) -> np.ndarray:
    """Return the byte offsets in a buffer of elements given by their index in the graph's order."""
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
    """Return which addresses a task writes (bool)."""
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
