"""Read the bytes of DDR and CBUF at the state's cycle, and the ranges that hold something."""

from dataclasses import dataclass

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.program import Program
from npuviz.sim.checks.memory import memory_hazards
from npuviz.sim.machine import Findings, Hazard, Region
from npuviz.sim.parts.spans import overlay, shared
from npuviz.sim.replay.contents import Edit, EditImage
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.payload import Payload
from npuviz.targets.rk3588.machine.program_accesses import ProgramAccesses
from npuviz.targets.rk3588.machine.trail import TrailMaker
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import PRECISION_BYTES, PRECISION_NAMES
from npuviz.targets.rk3588.values.engine import ValueEngine
from npuviz.targets.rk3588.view.description import ADDRESS_BYTES, UNITS


@dataclass(frozen=True, slots=True)
class Filling:
    """The contents of a core's CBUF: the task they belong to, since when, and how many bytes have arrived."""

    task: int
    since: int
    features: int
    weights: int


@dataclass(frozen=True, slots=True)
class Moment:
    """The parts of a state that contents follow from: log entries, their times, completions left per node,
    CBUFs."""

    log: np.ndarray
    times: np.ndarray
    left: np.ndarray
    fillings: tuple[Filling | None, ...]


def moment_of(engine: Engine) -> Moment:
    """Return a copy of the parts of the present state that contents need."""
    shape, state = engine.shape, engine.state
    left = sk.NODE.column_of(
        state, shape.nodes, (shape.records - shape.nodes) // sk.NODE.num_words, "left"
    ).copy()
    fillings: list[Filling | None] = []
    for core in range(engine.spec.cores):
        k = sk.CORE(state, shape.cores, core)
        task = int(k.task)
        conv = engine.tables.tasks[task].work.convolution if task >= 0 else None
        if conv is None or int(k.phase) != sk.PHASE_RUN:
            fillings.append(None)
            continue
        done = [int(k.streams[stream].done) for stream in (sk.STREAM_FEATURE, sk.STREAM_WEIGHT)]
        fillings.append(Filling(task, int(k.until), *done))
    log = engine.log()
    return Moment(log[:, 0].copy(), log[:, 1].copy(), left, tuple(fillings))


class Contents:
    """Read and write memories of one machine. Values are computed only when they are asked for."""

    def __init__(
        self, engine: Engine, program: Program, values: ValueEngine, moment: Moment | None = None
    ) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        self._engine = engine
        self._tables = payload.tables
        self._program = program
        self._values = values
        self._moment = moment
        self._ddr = engine.spec.cores
        self._trails = TrailMaker(engine.spec, self._tables, program, self._unit_name)

    @property
    def accesses(self) -> ProgramAccesses:
        """What the program's tasks and host calls touch."""
        return self._trails.accesses

    def still(self) -> "Contents":
        """Return contents for a copy of the present state."""
        made = Contents(self._engine, self._program, self._values, moment_of(self._engine))
        made._trails = self._trails
        return made

    def _now(self) -> Moment:
        return self._moment or moment_of(self._engine)

    def _log(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log entries up to now, and their times."""
        if self._moment is not None:
            return self._moment.log, self._moment.times
        log = self._engine.log()
        return log[:, 0].copy(), log[:, 1].copy()

    # --- regions ---------------------------------------------------------------------------------------

    def regions(self, memory: int, image: EditImage) -> list[Region]:
        """Return the ranges of a memory that hold something now, sorted by address."""
        if memory == self._ddr:
            left = self._now().left
            return [self._buffer_region(buffer, left) for buffer in self._tables.buffers]
        filling = self._now().fillings[memory]
        return self._cbuf_regions(filling) if filling is not None else []

    def _buffer_region(self, buffer: Buffer, left: np.ndarray) -> Region:
        graph, valid = self._program.graph, True
        if buffer.tensor >= 0 and buffer.data is None:
            producer = graph.tensors[buffer.tensor].producer
            valid = producer < 0 or int(left[producer]) == 0
        item = numpy_dtype(buffer.dtype).itemsize
        return Region(
            address=buffer.address, size_bytes=buffer.size_bytes, tensor=buffer.tensor, label=buffer.name,
            shape=(buffer.size_bytes // item,), dtype=buffer.dtype, is_valid=valid, since=0,
        )  # fmt: skip

    def _cbuf_regions(self, filling: Filling) -> list[Region]:
        """Return features from bank 0 on, and weights after the feature banks, as far as the banks reach."""
        task = self._tables.tasks[filling.task]
        conv = task.work.convolution
        assert conv is not None
        item, size = PRECISION_BYTES[conv.precision], self._engine.spec.cbuf_bank_bytes
        dtype = "int8" if item == 1 else PRECISION_NAMES[conv.precision]
        dtype = dtype if dtype in ("int8", "int16", "float16", "bfloat16") else "uint8"
        features = min(conv.width * conv.height * conv.stored_channels * item, conv.data_banks * size)
        weights = min(conv.weight_bytes, conv.weight_banks * size)
        rows = (
            (0, features, "features", filling.features >= features or conv.keeps_data, conv.keeps_data),
            (
                conv.data_banks * size,
                weights,
                "weights",
                filling.weights >= weights or conv.keeps_weights,
                conv.keeps_weights,
            ),
        )
        found: list[Region] = []
        for address, length, label, is_valid, is_kept in rows:
            if length > 0:
                text = f"{label} of task {task.index}" + (" (kept from the task before)" if is_kept else "")
                found.append(
                    Region(
                        address=address, size_bytes=length, tensor=-1, label=text,
                        shape=(length // numpy_dtype(dtype).itemsize,), dtype=dtype, is_valid=is_valid,
                        since=filling.since, instruction=task.index,
                    )
                )  # fmt: skip
        return found

    # --- bytes -----------------------------------------------------------------------------------------

    def _checked(self, memory: int, address: int, size_bytes: int) -> None:
        size = ADDRESS_BYTES if memory == self._ddr else self._engine.spec.cbuf_bytes
        if not 0 <= memory <= self._ddr:
            raise ValueError(f"there is no memory {memory}")
        if address < 0 or size_bytes < 0 or address + size_bytes > size:
            raise ValueError(
                f"bytes {address}..{address + size_bytes} are outside of a memory of {size} bytes"
            )

    def read(self, memory: int, address: int, size_bytes: int, image: EditImage) -> bytes:
        """Return bytes of a memory now. Raises ValueError outside it."""
        self._checked(memory, address, size_bytes)
        now = self._now()
        if memory == self._ddr:
            return self._values.read_at(now.log, image.edits, address, size_bytes)
        data = np.zeros(size_bytes, np.uint8)
        filling = now.fillings[memory]
        if filling is not None:
            for region in self._cbuf_regions(filling):
                here, there = shared(address, size_bytes, region.address, region.size_bytes)
                if len(data[here]):
                    data[here] = self._cbuf_bytes(region, filling, now, image)[there]
        for edit in image.edits:
            if edit.memory == memory:
                overlay(data, address, edit.address, np.frombuffer(edit.data, np.uint8))
        return data.tobytes()

    def _cbuf_bytes(self, region: Region, filling: Filling, now: Moment, image: EditImage) -> np.ndarray:
        """Return the bytes of a CBUF range as far as they have arrived; the others are 0."""
        task = self._tables.tasks[filling.task]
        is_feature = region.address == 0 and region.label.startswith("features")
        whole = self._values.operand_at(
            now.log, image.edits, task.index, "features" if is_feature else "weights"
        )
        found = np.zeros(region.size_bytes, np.uint8)
        count = region.size_bytes
        if not region.is_valid:
            count = min(count, filling.features if is_feature else filling.weights)
        count = min(count, len(whole))
        found[:count] = whole[:count]
        return found

    def read_at(self, log: np.ndarray, edits: tuple[Edit, ...], address: int, size_bytes: int) -> bytes:
        """Return bytes of DDR after these log entries."""
        return self._values.read_at(log, edits, address, size_bytes)

    def write(self, memory: int, address: int, data: bytes, image: EditImage) -> EditImage:
        """Return an image in which these bytes are changed from now on. Raises ValueError outside the
        memory."""
        self._checked(memory, address, len(data))
        return EditImage((*image.edits, Edit(len(self._log()[0]), memory, address, data)))

    def values(self, image: EditImage) -> ValueEngine:
        """Return the values engine, brought to the present contents."""
        self._values.advance_to(self._log()[0], image.edits)
        return self._values

    def tensor(self, tensor: int, image: EditImage) -> np.ndarray | None:
        """Return the values of a tensor as DDR holds them."""
        return self.values(image).tensor(tensor)

    def hazards(self, image: EditImage) -> list[Hazard]:
        """Return the tasks up to now that could not be executed, by cycle."""
        (log, times), found = self._log(), list[Hazard]()
        with self._values.at(log, image.edits) as values:
            for hazard in values.hazards:
                index = hazard.entry if hazard.entry >= 0 else len(self._tables.tasks) - 1 - hazard.entry
                unit = self._program.listing.describe(index).unit if index >= 0 else -1
                name = self._unit_name(unit)
                cycle = int(times[hazard.position])
                found.append(Hazard(cycle, name, index, hazard.kind, hazard.text))
        return found

    def memory_hazards(self, _image: EditImage) -> Findings:
        """Return what is wrong in the order of reads and writes up to now."""
        log, times = self._log()
        return memory_hazards(self._trails.trail(log, times, self._is_finished(log)))

    def _is_finished(self, log: np.ndarray) -> bool:
        """Return whether a log is that of the whole program."""
        return len(log) == len(self._tables.tasks) + len(self._tables.hosts)

    def _unit_name(self, unit: int) -> str:
        core, block = divmod(unit, len(UNITS))
        return f"Core[{core}].{UNITS[block]}" if 0 <= core < self._ddr else "Host"
