"""Collect buffers, streams, tasks and host calls of one program and put them into tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from npuviz.base.errors import DoesNotFit
from npuviz.formats.rk3588.regcmd.stream import Stream, Tail
from npuviz.formats.rk3588.registers import Word
from npuviz.formats.rk3588.tensor_layout import aligned
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import HostReason, Note
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.compiler.lines import Line
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.compiler.row_layout import tensors_of_rows
from npuviz.targets.rk3588.compiler.strides import rows_bytes
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables, Task
from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.task.cube import WRITTEN_CHANNELS, cube_bytes, held_bytes
from npuviz.targets.rk3588.task.work import Work, decode_work

FIRST_ADDRESS = 0x1000_0000
ADDRESS_END = 1 << 32
ALIGNMENT = 64
"""Streams start at multiples of 64 bytes. Ref: MESA, ALLB; used for all buffers."""

MAX_CUBE = 4
"""Dimensions of a feature cube: images, channels, rows, columns."""
MAX_LAYER_TASKS = 4096
"""Most tasks of one layer: each takes memory for its words, and driver time. Larger layers are the Host's."""

_INTERRUPTS = {0x60: 0xC00}
_DPU_INTERRUPT = 0x300


@dataclass(frozen=True)
class _Draft:
    """A task before it has an index."""

    core: int
    job: int
    node: int
    stream: int
    words: np.ndarray
    registers: dict[int, int]
    enables: int

    @cached_property
    def work(self) -> Work:
        """The work that the registers ask for."""
        return decode_work(self.registers, self.enables)


@dataclass(frozen=True, slots=True)
class Mark:
    """A state of the builder that `roll_back` can return to."""

    buffers: int
    drafts: int
    job: int
    is_open: bool
    homes: dict[int, int]
    next_address: int


class Builder:
    """One program under construction. Layers are added in order; each may become several tasks."""

    def __init__(
        self,
        graph: Graph,
        spec: RknnSpec,
        stored: Mapping[int, Quantisation] | None = None,
        only_on_host: frozenset[int] = frozenset(),
        lines: Mapping[int, Line] | None = None,
    ) -> None:
        """Begin a program for a graph.

        stored        8-bit tensor -> how it is scaled
        only_on_host  tensors that keep their own type
        lines         tensors that lie as rows of samples
        """
        self.graph = graph
        self.spec = spec
        self._rows_of_products = tensors_of_rows(graph)
        self._stored = stored or {}
        self._only_on_host = only_on_host
        self._lines = lines or {}
        self._tables: dict[int, object] = {}
        self.notes: list[Note] = []
        self.placement: dict[int, str] = {}
        self._buffers: list[Buffer] = []
        self._homes: dict[int, int] = {}
        self._shared: dict[str, int] = {}
        self.rows: dict[int, int] = {}
        self._drafts: list[_Draft] = []
        self._most_drafts: int | None = None
        self._hosts: list[HostCall] = []
        self._job = 0
        self._is_open = False
        self._address = FIRST_ADDRESS

    # --- roll-back -------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return the present state, for `roll_back`; from here to `end_layer`, tasks are counted."""
        self._most_drafts = len(self._drafts) + MAX_LAYER_TASKS
        return Mark(
            len(self._buffers), len(self._drafts), self._job, self._is_open, dict(self._homes), self._address
        )

    def roll_back(self, mark: Mark) -> None:
        """Forget everything added since a mark."""
        del self._buffers[mark.buffers :]
        del self._drafts[mark.drafts :]
        self._shared = {name: at for name, at in self._shared.items() if at < mark.buffers}
        self._job, self._is_open, self._address = mark.job, mark.is_open, mark.next_address
        self._homes = dict(mark.homes)
        self.rows = {tensor: at for tensor, at in self.rows.items() if at < mark.buffers}
        self._tables.clear()
        self.end_layer()

    def end_layer(self) -> None:
        """End the count of a layer's tasks: copies for the Host follow, of which there may be any number."""
        self._most_drafts = None

    def cycles_since(self, mark: Mark) -> int:
        """Estimate the cycles of the tasks added since a mark, in one chain: those of one core add up."""
        spec = self.spec
        by_core = dict.fromkeys(range(spec.cores), 0)
        for draft in self._drafts[mark.drafts :]:
            cost = cost_of(self._task(0, draft), spec)
            made = cost.groups * cost.atoms * cost.out_elements / cost.out_rate
            by_core[draft.core] += int(max(cost.mac_cycles, made, cost.bus_bytes / spec.bytes_per_cycle))
            by_core[draft.core] += spec.to_cycles(spec.task_ns + spec.task_driver_ns)
        return max(by_core.values())

    # --- memory ----------------------------------------------------------------------------------------

    def _add(self, buffer: Buffer) -> int:
        size = aligned(max(1, buffer.size_bytes), ALIGNMENT)
        if self._address + size > ADDRESS_END:
            raise DoesNotFit(f"{buffer.name}: the program needs more than the 4 GiB that addresses reach")
        self._buffers.append(replace(buffer, address=self._address))
        self._address += size
        return len(self._buffers) - 1

    def buffer(self, number: int) -> Buffer:
        """Return a buffer by its number."""
        return self._buffers[number]

    def home(self, tensor: int, dtype: str = "", quantisation: Quantisation | None = None) -> Buffer:
        """Return the buffer of a graph tensor; the first call decides its type.

        Floating-point and quantised tensors lie as feature cubes, others row-major. Of three dimensions the
        last is the channels, as products need it, unless the tensor is convolved (`tensors_of_rows`); so it
        is of more than four. A single number is a cube of one channel.
        """
        if tensor not in self._homes:
            self._homes[tensor] = self._add(self._make_home(tensor, dtype, quantisation))
            line = self._lines.get(tensor)
            room = line.room if line is not None else 0
            if room:
                name = f"behind {self.graph.tensors[tensor].name}"
                self._add(Buffer(name, 0, room, data=np.zeros(room, np.uint8)))
        return self._buffers[self._homes[tensor]]

    def _make_home(self, tensor: int, dtype: str, quantisation: Quantisation | None) -> Buffer:
        found = self.graph.tensors[tensor]
        constant = self.graph.constants.get(tensor)
        if tensor in self._lines:
            lines = self._lines[tensor].count, self._lines[tensor].length
            size = aligned(rows_bytes(lines, "float16"), ALIGNMENT)
            # Windows end with whole atoms, beyond the last sample.
            return Buffer(found.name, 0, size, "rows", tensor, lines, "float16", is_cleared=True)
        quantisation = quantisation or self._stored.get(tensor)
        if not dtype and quantisation is not None and found.dtype in ("int8", "uint8"):
            dtype = "int8"
        if not dtype and found.dtype == "bool":
            dtype = "int8"
        dtype = dtype or ("float16" if found.dtype in ("float32", "float16") else found.dtype)
        is_cube = dtype in ("float16", "int8") and constant is None
        if tensor in self._only_on_host:
            is_cube = False
        if not is_cube:
            dtype = found.dtype
        shape = found.shape
        if is_cube and (tensor in self._rows_of_products or len(shape) > MAX_CUBE):
            shape = (math.prod(shape[:-1]), shape[-1])
        if is_cube and not shape:
            shape = (1,)
        item = numpy_dtype(dtype).itemsize
        size = cube_bytes(shape, dtype) if is_cube else item * found.num_elements
        data = None
        if constant is not None:
            # Text has no bytes for the NPU, but gets a place all the same.
            values = np.zeros(max(1, size), np.uint8) if constant.dtype.hasobject else constant
            data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        scale, zero = (quantisation.scale, quantisation.zero_point) if quantisation else (1.0, 0)
        return Buffer(
            found.name, 0, max(1, size), "feature" if is_cube else "row-major", tensor, shape, dtype,
            scale, zero, data,
        )  # fmt: skip

    def clear_home(self, tensor: int) -> None:
        """Mark a tensor's cube as one whose zeros are relied on where nothing is written."""
        number = self.number_of(tensor)
        self._buffers[number] = replace(self._buffers[number], is_cleared=True)

    def number_of(self, tensor: int) -> int:
        """Return the number of a tensor's buffer, made if it has none."""
        self.home(tensor)
        return self._homes[tensor]

    def constant(self, name: str, data: np.ndarray, layout: str = "weight") -> Buffer:
        """Make a buffer with packed constants."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        dtype = data.dtype.name
        return self._buffers[self._add(Buffer(name, 0, len(raw), layout, dtype=dtype, data=raw))]

    def shared(self, name: str, make: Callable[[], np.ndarray]) -> Buffer:
        """Return a buffer with packed constants that several layers use, made once."""
        if name not in self._shared:
            self.constant(name, make())
            self._shared[name] = len(self._buffers) - 1
        return self._buffers[self._shared[name]]

    def place_rows(self, tensor: int, rows: Buffer) -> tuple[int, Buffer]:
        """Give a tensor's rows a place; return its number and the buffer there, which `rows` then holds."""
        number = self.rows[tensor] = self._add(rows)
        return number, self._buffers[number]

    def scratch(self, name: str, shape: tuple[int, ...], dtype: str) -> Buffer:
        """Make a feature cube for values that are no graph tensor."""
        size = cube_bytes(shape, dtype)
        return self._buffers[self._add(Buffer(name, 0, size, "feature", shape=shape, dtype=dtype))]

    def cleared(self, name: str, shape: tuple[int, ...], dtype: str, room: int = 0) -> Buffer:
        """Make a feature cube whose zeros are read where nothing is written. room  bytes of zeros after it"""
        size = cube_bytes(shape, dtype) + room
        made = Buffer(name, 0, size, "feature", shape=shape, dtype=dtype, is_cleared=True)
        return self._buffers[self._add(made)]

    # --- work ------------------------------------------------------------------------------------------

    def begin_layer(self) -> None:
        """Let tasks that follow start only after those added so far are done.

        On one core, tasks run in order anyway, so that a chain needs no new start by the driver.
        """
        if self._is_open and (self.spec.cores > 1 or self.spec.submit == "layer"):
            self._close_job()

    def _close_job(self) -> None:
        if self._is_open:
            self._job += 1
            self._is_open = False

    def needs_table(self, core: int, table: object) -> bool:
        """Return whether the next task of a core must fill its tables with this one; it then counts as
        filled."""
        needed = self._tables.get(core) is not table
        self._tables[core] = table
        return needed

    def task(self, node: int, core: int, words: Sequence[Word], enables: int) -> None:
        """Add a task that writes these registers and enables these blocks.

        Raises CannotLower if the layer has too many tasks.
        """
        if self._most_drafts is not None and len(self._drafts) >= self._most_drafts:
            raise CannotLower(
                f"more than {MAX_LAYER_TASKS} tasks in one layer, one for each image or part of it"
            )
        stream = Stream(tuple(words), Tail(enables))
        packed = stream.packed()
        place = self._add(
            Buffer(f"stream {len(self._drafts)}", 0, packed.nbytes, "stream", data=packed.view(np.uint8))
        )
        registers = {word.offset: word.value for word in words}
        address = self._buffers[place].address
        self._drafts.append(_Draft(core, self._job, node, address, packed, registers, enables))
        self._is_open = True

    def host(
        self, node: int, reason: HostReason | None, ends: tuple[tuple[int, ...], tuple[int, ...]]
    ) -> None:
        """Run a graph node on the CPU. ends  numbers of the buffers that it reads and writes"""
        found = self.graph.nodes[node]
        reads, writes = ends
        self._call(node, f"{found.op_type} {found.name}".strip(), reads, writes)
        self.placement[node] = "Host"
        if reason:
            text = f"{found.op_type} {found.name} runs on the Host: {reason}"
            self.notes.append(Note("warning", "host-operator", text, node, reason))

    def convert(self, name: str, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        """Convert layouts on the CPU: graph inputs (no reads) or outputs."""
        self._call(-1, name, reads, writes)

    def _call(self, node: int, name: str, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        self._close_job()
        moved = sum(held_bytes(self._buffers[number]) for number in (*reads, *writes))
        if node < 0 and not reads:
            moved += sum(self._given_bytes(self._buffers[number]) for number in writes)
        self._hosts.append(HostCall(self._job, node, moved, name, reads, writes))

    def _given_bytes(self, buffer: Buffer) -> int:
        """Return the bytes of an input that are read to fill rows; 0 for a cube, whose conversion counts
        instead."""
        found = self.graph.tensors[buffer.tensor]
        return found.num_elements * numpy_dtype(found.dtype).itemsize if buffer.layout == "rows" else 0

    # --- the end ---------------------------------------------------------------------------------------

    def place_output(self, tensor: int) -> int:
        """Make a buffer for a graph output as the graph has it."""
        found = self.graph.tensors[tensor]
        size = max(1, found.num_elements * numpy_dtype(found.dtype).itemsize)
        name = f"{found.name} (output)"
        return self._add(Buffer(name, 0, size, "row-major", tensor, found.shape, found.dtype))

    def finish(self, outputs: Mapping[int, int]) -> Compiled:
        """Return the program, with buffers in the order of their addresses. outputs  graph output ->
        buffer"""
        self._close_job()
        order = sorted(range(len(self._drafts)), key=lambda n: (self._drafts[n].job, self._drafts[n].core, n))
        tasks = [self._task(index, self._drafts[n]) for index, n in enumerate(order)]
        tables = Tables(
            self.spec.cores, tuple(tasks), tuple(self._buffers), self._job, tuple(self._hosts), dict(outputs),
            str(self.spec.cores),
        )  # fmt: skip
        ddr = self.spec.cores
        rows = [Allocation(b.tensor, ddr, b.address, b.size_bytes) for b in self._buffers if b.tensor >= 0]
        return Compiled(self.graph, tables, MemoryMap(tuple(rows)), tuple(self.notes), self.placement)

    def _task(self, index: int, draft: _Draft) -> Task:
        return Task(
            index=index, core=draft.core, job=draft.job, stream=draft.stream, words=draft.words,
            registers=draft.registers, changed=frozenset(draft.registers),
            work=draft.work, enable_mask=draft.enables,
            interrupt_mask=_INTERRUPTS.get(draft.enables, _DPU_INTERRUPT), node=draft.node,
        )  # fmt: skip


def filled_up(values: np.ndarray) -> np.ndarray:
    """Return one value per channel, with zeros for the channels that fill up the last group."""
    full = np.zeros(aligned(len(values), WRITTEN_CHANNELS), values.dtype)
    full[: len(values)] = values
    return full
