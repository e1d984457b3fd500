"""Load an .rknn container as a program: one of its plans, its weights, its graph."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588 import tensor_layout as packed_layout
from npuviz.formats.rk3588.regcmd.area import Area
from npuviz.formats.rk3588.rknn.blobs import Plan, blob_of, plans, regcmd_area, relocate, task_table
from npuviz.formats.rk3588.rknn.model import REGCMD_KIND, TASK_KIND, Rknn, RknnGraph, RknnTensor
from npuviz.formats.rk3588.rknn.reader import read_rknn
from npuviz.formats.rk3588.task_descriptors import Task as Record
from npuviz.formats.rk3588.task_descriptors import task_streams
from npuviz.formats.rk3588.tensor_layout import aligned
from npuviz.program.dtypes import DTYPES, numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note
from npuviz.program.tensor import Tensor, TensorKind
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.load.areas import MOST_BYTES, stream_buffer
from npuviz.targets.rk3588.load.placed_tasks import FIRST_PLACE, TASK_LIMIT, PlacedTask, make_tasks
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables

ALIGNMENT = 4096
SMALL_BYTES = 16 << 20
"""A shape is damaged if it needs more bytes than this and more than the tensor has."""
_ENDS = ("InputOperator", "OutputOperator")
_IN_MEMORY = ("input", "output", "intermediate")
_WORKSPACE = "exSecondary"
"""End of the names of second outputs of some operators, which have no values (measured)."""


def load_rknn(path: Path, spec: RknnSpec) -> Compiled:
    """Load the container's plan for `spec.cores` cores, or for the next smaller number. Raises
    FormatError."""
    model = read_rknn(path)
    if len(model.graphs) != 1:
        raise FormatError(path, field="graphs", expected="one graph", found=str(len(model.graphs)))
    source = model.graphs[0]
    known = plans(model, source)
    fitting = [plan for plan in known if plan.cores <= spec.cores] or list(known[:1])
    if not fitting:
        raise FormatError(path, field="task table", expected="at least one task", found="none")
    plan = fitting[-1]
    if plan.cores > spec.cores:
        raise FormatError(path, field="plans", expected=f"one for {spec.cores} cores", found=str(plan.cores))
    places = _Places(model, source)
    area = relocate(model, source, places.addresses, FIRST_PLACE)
    notes = list(_notes(path, spec, plan, known))
    placed, hosts = _jobs(source, plan, _streams(model, source, plan, area))
    graph = _graph(model, source, path.name.split(".")[0])
    buffers = places.buffers(graph)
    buffers.append(stream_buffer("register commands", FIRST_PLACE, area.words))
    buffers.sort(key=lambda buffer: buffer.address)
    homes = {buffer.tensor: number for number, buffer in enumerate(buffers) if buffer.tensor >= 0}
    calls = _host_calls(graph, hosts, homes, buffers)
    tables = Tables(
        spec.cores,
        make_tasks(placed),
        tuple(buffers),
        max(each.job for each in placed) + 1,
        calls,
        {tensor: homes[tensor] for tensor in graph.outputs if tensor in homes},
        str(plan.cores),
    )
    placement = {node.id: "Core" for node in graph.nodes if node.id not in hosts}
    placement |= dict.fromkeys(hosts, "Host")
    unknown = [graph.tensors[t].name for t in (*graph.inputs, *graph.outputs) if t not in homes]
    if unknown:
        text = f"memory holds {', '.join(unknown[:4])} in an order that is not shown: surfaces are filled up"
        notes.append(Note("warning", "layout", text))
    if hosts:
        text = f"{len(hosts)} operators have no tasks and run on the Host; of these only Reshape has values"
        notes.append(Note("warning", "host-operator", text))
    return Compiled(graph, tables, _memory_map(buffers, spec), tuple(notes), placement)


def _notes(path: Path, spec: RknnSpec, plan: Plan, known: Sequence[Plan]) -> list[Note]:
    cores = ", ".join(str(each.cores) for each in known)
    notes = [Note("info", "plan", f"{path.name} has plans for {cores} cores; that for {plan.cores} runs")]
    if plan.cores != spec.cores:
        text = f"there is no plan for {spec.cores} cores: that for {plan.cores} runs"
        notes.append(Note("warning", "plan", text))
    if plan.cores > 1:
        text = (
            "cores wait for each other after every operator, which the driver starts: how the vendor's "
            "tasks between them do it is not known"
        )
        notes.append(Note("info", "assumed", text))
    return notes


def _streams(model: Rknn, source: RknnGraph, plan: Plan, area: Area) -> dict[int, PlacedTask]:
    """Return the tasks of the plan by their number in the table, without jobs yet."""
    table = task_table(model, source)
    count = sum(len(each) for each in plan.tasks)
    if count > TASK_LIMIT:
        raise FormatError(
            model.file, field="task table", expected=f"at most {TASK_LIMIT} tasks in a plan", found=str(count)
        )
    # Words are checked at their place in the file; addresses are those of the area.
    original = regcmd_area(model, source)
    found: dict[int, PlacedTask] = {}
    for core, numbers in enumerate(plan.tasks):
        records: list[Record] = [table[number] for number in numbers]
        task_streams(records, original)
        for number, record in zip(numbers, records, strict=True):
            stream = area.stream(area.address + record.start, record.amount)
            found[number] = PlacedTask(stream, core, 0, interrupt_mask=record.interrupt_mask)
    return found


def _jobs(
    source: RknnGraph, plan: Plan, tasks: dict[int, PlacedTask]
) -> tuple[list[PlacedTask], dict[int, int]]:
    """Return tasks with jobs and nodes, and node -> job before which it runs, for nodes on the Host.

    On one core a job lasts until a node of the Host; on several cores each node is a job.
    """
    by_node: dict[int, list[int]] = {}
    for entries in plan.nodes:
        for node, first, count in entries:
            by_node.setdefault(node, []).extend(range(first, first + count))
    if not by_node:
        return list(tasks.values()), {}
    placed: list[PlacedTask] = []
    hosts: dict[int, int] = {}
    job, is_open = 0, False
    for number, node in enumerate(source.nodes):
        mine = by_node.get(number, [])
        if not mine and node.type in _ENDS:
            continue
        if is_open and (plan.cores > 1 or not mine):
            job, is_open = job + 1, False
        if not mine:
            hosts[number] = job
        for task in mine:
            each = tasks[task]
            placed.append(PlacedTask(each.stream, each.core, job, number, each.interrupt_mask))
            is_open = True
    return placed, hosts


# --- memory ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    tensor: int
    address: int
    size: int
    data: np.ndarray | None


class _Places:
    """Places of tensors: weights one after the other, then the memory that all others share."""

    def __init__(self, model: Rknn, source: RknnGraph) -> None:
        self._source = source
        self.places: list[_Place] = []
        area = regcmd_area(model, source)
        start = place = FIRST_PLACE + aligned(8 * len(area.words), ALIGNMENT)
        shared: list[int] = []
        for number, tensor in enumerate(source.tensors):
            if tensor.kind_code in (REGCMD_KIND, TASK_KIND) or not (tensor.name or tensor.size):
                continue
            if tensor.kind in _IN_MEMORY:
                shared.append(number)
                continue
            data = np.frombuffer(blob_of(model, tensor), np.uint8) if tensor.blob else None
            # Readers fetch whole groups of channels, even beyond the end of a tensor.
            size = aligned(max(1, tensor.size, 0 if data is None else len(data)), 64)
            self._check(model, tensor, size + place - start)
            self.places.append(_Place(number, place, size, data))
            place += size
        memory = aligned(place + ALIGNMENT, ALIGNMENT)
        self.places.append(_Place(-1, place, memory - place, None))
        for number in shared:
            tensor = source.tensors[number]
            self._check(model, tensor, memory - start + tensor.place + tensor.size)
            self.places.append(_Place(number, memory + tensor.place, max(1, tensor.size), None))

    @staticmethod
    def _check(model: Rknn, tensor: RknnTensor, end: int) -> None:
        if end > MOST_BYTES:
            raise FormatError(
                model.file,
                field=f"tensor {tensor.name!r}, size",
                expected=f"at most {MOST_BYTES} bytes for all tensors",
                found=f"{end} bytes",
            )

    @property
    def addresses(self) -> dict[str, int]:
        """Byte address by tensor name."""
        return {
            self._source.tensors[each.tensor].name: each.address for each in self.places if each.tensor >= 0
        }

    def buffers(self, graph: Graph) -> list[Buffer]:
        """Return a buffer for every tensor."""
        found: list[Buffer] = []
        for each in self.places:
            if each.tensor < 0:
                found.append(Buffer("behind the weights", each.address, each.size))
                continue
            tensor = self._source.tensors[each.tensor]
            layout = _layout(tensor)
            held = graph.tensors[each.tensor]
            fits = layout == "weight" or each.size >= _least_bytes(held, layout)
            size = max(each.size, 1)
            found.append(
                Buffer(
                    tensor.name or f"tensor {each.tensor}",
                    each.address,
                    size,
                    layout if fits else "raw",
                    each.tensor if fits else -1,
                    held.shape,
                    held.dtype,
                    data=each.data,
                )
            )
        return found


def _least_bytes(tensor: Tensor, layout: str) -> int:
    item = numpy_dtype(tensor.dtype).itemsize
    if layout == "feature":
        if len(tensor.shape) != 4:
            return MOST_BYTES
        count, channels, height, width = tensor.shape
        return count * aligned(channels, 16 // item) * height * width * item
    return tensor.num_elements * item


def _layout(tensor: RknnTensor) -> str:
    if tensor.kind == "weight" and len(tensor.packed_shape) == 6:
        return "weight"
    shape, packed = tensor.shape, tensor.packed_shape
    item = DTYPES[tensor.dtype].itemsize if tensor.dtype in DTYPES else 1
    is_cube = len(shape) == 4 and len(packed) == 5 and packed[4] * item == 16 and min(shape) > 0
    if is_cube and tensor.dtype in packed_layout.PACKINGS:
        return "feature" if packed[1] == -(-shape[1] // packed[4]) else "row-major"
    return "row-major"


def _memory_map(buffers: Sequence[Buffer], spec: RknnSpec) -> MemoryMap:
    """Return the tensors that share their memory with no other; the rest come and go in the regions of
    DDR."""
    rows: list[Allocation] = []
    end = 0
    for number, buffer in enumerate(buffers):
        following = buffers[number + 1].address if number + 1 < len(buffers) else 1 << 32
        if buffer.tensor >= 0 and end <= buffer.address and buffer.address + buffer.size_bytes <= following:
            rows.append(Allocation(buffer.tensor, spec.cores, buffer.address, buffer.size_bytes))
        end = max(end, buffer.address + buffer.size_bytes)
    return MemoryMap(tuple(rows))


# --- graph -----------------------------------------------------------------------------------------


def _graph(model: Rknn, source: RknnGraph, name: str) -> Graph:
    producers = {tensor: number for number, node in enumerate(source.nodes) for tensor in node.outputs}
    ends = {number for number, node in enumerate(source.nodes) if node.type in _ENDS}
    constants: dict[int, np.ndarray] = {}
    tensors: list[Tensor] = []
    names: set[str] = set()
    for number, tensor in enumerate(source.tensors):
        text = tensor.name if tensor.name and tensor.name not in names else f"tensor {number}"
        names.add(text)
        shape = _shape(tensor)
        dtype = tensor.dtype if tensor.dtype in DTYPES else "uint8"
        values = _constant(model, tensor, shape, dtype)
        if values is not None:
            constants[number] = values
        kind: TensorKind = "weight" if values is not None else "activation"
        if tensor.kind in ("input", "output"):
            kind = "input" if tensor.kind == "input" else "output"
        producer = producers.get(number, -1)
        if values is None and math.prod(shape) * numpy_dtype(dtype).itemsize > max(tensor.size, SMALL_BYTES):
            shape = ()
        tensors.append(Tensor(number, text, shape, dtype, kind, -1 if producer in ends else producer))
    nodes = [
        Node(number, node.name, node.type, "" if node.type == "Reshape" else "rknn",
             _operands(source, node.inputs, node.type), tuple(each for each in node.outputs if each >= 0))
        for number, node in enumerate(source.nodes)
    ]  # fmt: skip
    inputs = tuple(each for each in source.inputs if each >= 0 and each not in constants)
    outputs = tuple(each for each in source.outputs if each >= 0)
    return Graph(name, tuple(nodes), tuple(tensors), inputs, outputs, constants, {"": 17, "rknn": 1})


def _operands(source: RknnGraph, inputs: tuple[int, ...], op_type: str) -> tuple[int, ...]:
    """Return the inputs without the memory that operators work in; those of Reshape as ONNX has them."""
    kept = tuple(each for each in inputs if each < 0 or not source.tensors[each].name.endswith(_WORKSPACE))
    return kept[:2] if op_type == "Reshape" else kept


def _shape(tensor: RknnTensor) -> tuple[int, ...]:
    """Return the shape that the graph has; if memory has the same rank in another order (NHWC), that
    order."""
    shape, packed = tensor.shape, tensor.packed_shape
    if len(packed) == len(shape) and sorted(packed) == sorted(shape):
        shape = packed
    return shape if all(dim >= 0 for dim in shape) else ()


def _constant(model: Rknn, tensor: RknnTensor, shape: tuple[int, ...], dtype: str) -> np.ndarray | None:
    """Return the values of a weight or constant in the graph's shape, None if their order is not known."""
    if not tensor.blob or tensor.kind_code in (REGCMD_KIND, TASK_KIND) or tensor.kind in _IN_MEMORY:
        return None
    kind = numpy_dtype(dtype)
    data = blob_of(model, tensor)
    elements = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    if _layout(tensor) == "weight":
        if len(shape) != 4 or min(shape) < 1:
            return None
        group, block = tensor.packed_shape[4], tensor.packed_shape[5]
        weights = packed_layout.WeightShape(*shape)
        try:
            found = packed_layout.unpack_weights(elements, weights, max(1, group), max(1, block))
        except FormatError:
            return None
    elif min(shape, default=1) < 1:
        return None
    elif math.prod(shape) <= len(elements) and len(tensor.packed_shape) <= len(shape):
        found = elements[: math.prod(shape)].reshape(shape)
    else:
        return None
    found.flags.writeable = False
    return found


def _host_calls(
    graph: Graph, hosts: dict[int, int], homes: dict[int, int], buffers: Sequence[Buffer]
) -> tuple[HostCall, ...]:
    """Return the host calls: inputs are converted before everything else; operators of the Host in their
    jobs."""
    found = [
        HostCall(0, -1, 2 * buffers[homes[tensor]].size_bytes, f"input {graph.tensors[tensor].name}", (),
                 (homes[tensor],))
        for tensor in graph.inputs if tensor in homes
    ]  # fmt: skip
    for number, job in sorted(hosts.items()):
        node = graph.nodes[number]
        reads = tuple(homes[each] for each in dict.fromkeys(node.inputs) if each in homes)
        writes = tuple(homes[each] for each in node.outputs if each in homes)
        moved = sum(buffers[each].size_bytes for each in (*reads, *writes))
        found.append(HostCall(job, number, moved, f"{node.op_type} {node.name}".strip(), reads, writes))
    found.sort(key=lambda call: call.job)
    return tuple(found)
