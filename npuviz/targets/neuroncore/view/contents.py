"""Read and write SBUF, PSUM and HBM at the state's cycle, and list the ranges that hold tensors."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.program import Program
from npuviz.sim.checks.memory import memory_hazards, with_faults
from npuviz.sim.machine import Findings, Hazard, Region
from npuviz.sim.parts.kernel_machine import STATUS_FINISHED
from npuviz.sim.parts.spans import shared
from npuviz.sim.replay.contents import Edit, EditImage
from npuviz.targets.neuroncore.ids import hbm_memory, memory_of_space, space_bytes
from npuviz.targets.neuroncore.isa import DST, DTYPE_NAMES, NUM_PARTITIONS, Space
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.machine.payload import Payload
from npuviz.targets.neuroncore.machine.program_accesses import ProgramAccesses
from npuviz.targets.neuroncore.machine.trail import TrailMaker
from npuviz.targets.neuroncore.tables import Tables, Variable
from npuviz.targets.neuroncore.view.variables import names_of_tile

if TYPE_CHECKING:
    from npuviz.targets.neuroncore.values.engine import ValueEngine

_WARNINGS = frozenset(("input-range", "overflow"))
"""Hazards that are warnings only: masks of minus infinity leave the range on purpose."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The parts of a state that decide the contents of memories.

    log     (n, 2) int64, as Engine.log; tiles  (k,) int64: first cycle of each allocation, -1 before and
            below -1 after its stay; left  (nodes,) int64: completions each node needs
    """

    log: np.ndarray
    tiles: np.ndarray
    left: np.ndarray


def moment_of(engine: Engine) -> Moment:
    """Copy the parts of the present state that decide the contents."""
    shape, state = engine.shape, engine.state
    nodes = state[shape.nodes : shape.tiles].reshape(-1, sk.NODE.num_words)
    return Moment(engine.log().copy(), state[shape.tiles : shape.log].copy(), nodes[:, sk.NODE.left].copy())


class Contents:
    """Reads and writes the memories of one machine; computes values only when they are asked for."""

    def __init__(
        self, engine: Engine, program: Program, values: "ValueEngine | None", moment: Moment | None = None
    ) -> None:
        payload = program.payload
        assert isinstance(payload, Payload)
        self._engine = engine
        self._spec = engine.spec
        self._tables: Tables = payload.tables
        self._program = program
        self._values = values
        self._moment = moment
        self._trails = TrailMaker(self._spec, self._tables, program, self._unit_name)
        self._sizes = {
            memory_of_space(core, space): (core, space, space_bytes(self._spec, space))
            for core in range(self._tables.num_cores)
            for space in (Space.SBUF, Space.PSUM)
        }
        end = max((v.address + v.size_bytes for v in self._tables.variables), default=0)
        self._hbm_bytes = max(self._spec.hbm_bytes, -(-end // 4096) * 4096)

    @property
    def accesses(self) -> ProgramAccesses:
        """Byte ranges that the program's instructions and transfers read and write."""
        return self._trails.accesses

    def still(self) -> "Contents":
        """Return contents that stay at the present state when the machine moves on."""
        made = Contents(self._engine, self._program, self._values, moment_of(self._engine))
        made._trails = self._trails
        return made

    def _now(self) -> Moment:
        return self._moment or moment_of(self._engine)

    # --- regions ---------------------------------------------------------------------------------------

    def regions(self, memory: int, image: EditImage) -> list[Region]:
        """Return the ranges of a memory that hold tensors now, by address. Raises ValueError if unknown."""
        if memory == hbm_memory(self._spec):
            return self._hbm_regions()
        if memory not in self._sizes:
            raise ValueError(f"there is no memory {memory}")
        core, space, _ = self._sizes[memory]
        tiles, log = self._now().tiles, self._now().log
        found = self._tables.allocations
        mine = np.flatnonzero((tiles >= 0) & (found["core"] == core) & (found["space"] == space))
        done = set(log[:, 0].tolist()) if len(mine) else set[int]()
        regions = [self._region(int(tile), int(tiles[tile]), done) for tile in mine]
        return sorted(regions, key=lambda region: region.address)

    def _region(self, tile: int, since: int, done: set[int]) -> Region:
        row = self._tables.allocations[tile]
        first, tensor = int(row["first"]), int(row["tensor"])
        held = self._tables.tile_bytes
        banks, size = max(1, int(row["partitions"])), held[tile] if held else int(row["size_bytes"])
        operand = self._tables.instructions[first]["operands"][DST]
        is_compute = int(operand["space"]) == int(row["space"])
        dtype = DTYPE_NAMES[int(operand["dtype"])] if is_compute else self._loaded_dtype(first, tensor)
        if dtype not in ("tfloat32", "float8_e4m3"):
            item = numpy_dtype(dtype).itemsize
        else:
            dtype, item = "uint8", 1
        label, *aliases = names_of_tile(self._tables, self._program.graph, tile) or (
            self._program.listing.describe(first).opcode,
        )
        count = size // item
        entry = -1 - first if int(self._tables.transfer_of[first]) >= 0 else first
        return Region(
            address=int(row["address"]), size_bytes=size, tensor=tensor, label=label,
            shape=(banks, count) if banks > 1 else (count,), dtype=dtype, is_valid=entry in done,
            since=since, instruction=first, banks=banks, aliases=tuple(aliases),
        )  # fmt: skip

    def _loaded_dtype(self, first: int, tensor: int) -> str:
        number = int(self._tables.transfer_of[first])
        if number >= 0:
            dtype = self._tables.transfers[number].descriptors[0].to.dtype
            if dtype != "uint8":
                return dtype
        if tensor >= 0:
            for variable in self._tables.variables:
                if variable.tensor == tensor:
                    return variable.dtype
        return "uint8"

    def _hbm_regions(self) -> list[Region]:
        left = self._now().left
        return [
            self._variable_region(v, left) for v in sorted(self._tables.variables, key=lambda v: v.address)
        ]

    def _variable_region(self, variable: Variable, left: np.ndarray) -> Region:
        graph, valid = self._program.graph, True
        if variable.kind in ("scratch", "output"):
            producer = graph.tensors[variable.tensor].producer if variable.tensor >= 0 else -1
            valid = producer < 0 or int(left[producer]) == 0
        return Region(
            address=variable.address, size_bytes=variable.size_bytes, tensor=variable.tensor,
            label=variable.name, shape=variable.shape, dtype=variable.dtype, is_valid=valid, since=0,
        )  # fmt: skip

    # --- races -----------------------------------------------------------------------------------------

    @property
    def has_values(self) -> bool:
        """Whether contents are computed."""
        return self._values is not None

    def written_at(self, position: int, image: EditImage) -> bytes | None:
        """Return the bytes that the log entry at a position wrote; None for programs without values."""
        if self._values is None:
            return None
        log = self._now().log[: position + 1, 0]
        with self._values.at(log, image.edits) as values:
            return values.written_by(int(log[-1]))

    # --- bytes -----------------------------------------------------------------------------------------

    @property
    def engine(self) -> "ValueEngine | None":
        """The values engine, not moved to the present state; None for programs without values."""
        return self._values

    def values(self, image: EditImage) -> "ValueEngine | None":
        """Return the values engine, moved to the present contents; None for programs without values."""
        if self._values is not None:
            self._values.advance_to(self._now().log[:, 0], image.edits)
        return self._values

    def _checked(self, memory: int, address: int, size_bytes: int) -> None:
        size = self._hbm_bytes if memory == hbm_memory(self._spec) else self._sizes.get(memory, (0, 0, 0))[2]
        if address < 0 or size_bytes < 0 or address + size_bytes > size:
            raise ValueError(
                f"bytes {address}..{address + size_bytes} are outside of a memory of {size} bytes"
            )

    def read(self, memory: int, address: int, size_bytes: int, image: EditImage) -> bytes:
        """Return bytes of a memory now (zeros for programs without values). Raises ValueError outside of
        it.
        """
        self._checked(memory, address, size_bytes)
        if self._values is None:
            return bytes(size_bytes)
        now = self._now()
        data = self._values.read_at(now.log[:, 0], image.edits, memory, address, size_bytes)
        if memory == hbm_memory(self._spec) and image.edits:
            return self._with_loose_bytes(data, address, image)
        return data

    def _with_loose_bytes(self, data: bytes, address: int, image: EditImage) -> bytes:
        """Return HBM bytes with the user's edits outside of variables, which the values engine does not
        keep.
        """
        found = np.frombuffer(data, np.uint8).copy()
        is_loose = np.ones(len(found), bool)
        for variable in self._tables.variables:
            is_loose[shared(address, len(found), variable.address, variable.size_bytes)[0]] = False
        for edit in image.edits:
            if edit.memory == hbm_memory(self._spec) and edit.position <= len(self._now().log):
                here, there = shared(address, len(found), edit.address, len(edit.data))
                given = np.frombuffer(edit.data, np.uint8)[there]
                found[here] = np.where(is_loose[here], given, found[here])
        return found.tobytes()

    def write(self, memory: int, address: int, data: bytes, image: EditImage) -> EditImage:
        """Return an image with these bytes changed from now on. Raises ValueError outside of the memory."""
        self._checked(memory, address, len(data))
        return EditImage((*image.edits, Edit(len(self._now().log), memory, address, data)))

    def tensor(self, tensor: int, image: EditImage) -> np.ndarray | None:
        """Return the values of a tensor as HBM holds them; None for programs without values."""
        if self._values is None:
            return None
        with self._values.at(self._now().log[:, 0], image.edits) as values:
            return values.tensor(tensor)

    def accumulators(self, core: int, image: EditImage) -> np.ndarray:
        """Return the accumulators of a core's Activation engine, (128,) float32."""
        values = self.values(image)
        return np.zeros(NUM_PARTITIONS, np.float32) if values is None else values.accumulators(core)

    def hazards(self, image: EditImage) -> list[Hazard]:
        """Return the hazards of the values computed up to now, by cycle."""
        if self._values is None:
            return []
        log = self._now().log
        # Another thread may move the engine as soon as the block ends.
        with self._values.at(log[:, 0], image.edits) as values:
            known = values.hazards
        found: list[Hazard] = []
        for hazard in known:
            entry, cycle = log[hazard.position].tolist()
            index = entry if entry >= 0 else -1 - entry
            unit = self._program.listing.describe(index).unit
            name = self._unit_name(unit)
            level = "warning" if hazard.kind in _WARNINGS else "error"
            found.append(Hazard(cycle, name, index, hazard.kind, hazard.text, level))
        return found

    def memory_hazards(self, _image: EditImage) -> Findings:
        """Find hazards in the order of the reads and writes up to now."""
        if self._values is None:
            return Findings((), ("reads and writes: a vendor's file does not tell them",))
        log = self._now().log
        found = memory_hazards(self._trails.trail(log, self._is_finished(log)))
        return with_faults([*self._trails.overlaps(log)], found)

    def _is_finished(self, log: np.ndarray) -> bool:
        """Return whether a log is complete: the program has finished, and the log holds all of its
        entries.
        """
        chip = sk.CHIP(self._engine.state)
        return int(chip.status) == STATUS_FINISHED and len(log) == int(chip.log_count)

    def _unit_name(self, unit: int) -> str:
        from npuviz.targets.neuroncore.view.description import sequencer_name

        return sequencer_name(self._tables, unit)
