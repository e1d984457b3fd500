"""A toy machine with a fabric: words walk over a mesh, first along the row, then along the column.

Where every word is follows from the cycle alone, so that a test can say where it must be. Everything
else (units, tracks, program, snapshots) is the toy pipeline's.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.fabric import (
    EAST,
    FULL,
    INJECT,
    NORTH,
    NUM_PORTS,
    PORT_STEPS,
    RAMP,
    ROUTE_DTYPE,
    SOUTH,
    WEST,
    WORD_DTYPE,
    Area,
    ElementState,
    FabricColor,
    FabricShape,
    Glance,
    Hop,
    Level,
    WordPath,
)
from npuviz.sim.machine import Machine
from tests.toy.machine import ToyMachine
from tests.toy.program import ToySpec
from tests.toy.target import ToyTarget

STATES = (
    ElementState("idle", "idle"),
    ElementState("running", "compute"),
    ElementState("waiting for data", "wait-empty"),
    ElementState("held back", "wait-queue"),
    ElementState("halted", "finished"),
    ElementState("fault", "hazard"),
)
IDLE, RUNNING, WAITING, HELD, HALTED, FAULT = range(6)
COLORS = (FabricColor(2, "rows"), FabricColor(5, "columns"), FabricColor(9), FabricColor(17, "results"))
HOP_CYCLES = 2
WATCHED = ((2, 2), (3, 2), (4, 2))
"""Elements that own the units of the toy pipeline."""
_CYCLE_OF_STATES = np.array([RUNNING, WAITING] * 9 + [RUNNING, HELD] * 3 + [RUNNING, IDLE] * 4, np.uint8)


def _hash(values: np.ndarray | int, salt: int) -> np.ndarray:
    """Well mixed non-negative numbers."""
    # Scalars would warn of the overflow that is wanted here.
    x = np.array(values, np.uint64, ndmin=1) + np.uint64(salt * 0x9E3779B97F4A7C15 & (1 << 63) - 1)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(33)).astype(np.int64).reshape(np.shape(values))


class Walk:
    """The ways of words, by number: arrays of equal length.

    sent at `start`, INJECT takes HOP_CYCLES, each hop as long, at the corner it waits `held` cycles, and
    the way down to the processor takes HOP_CYCLES again
    """

    def __init__(self, numbers: np.ndarray, columns: int, rows: int, per_cycle: int) -> None:
        self.numbers = numbers
        self.start = numbers // per_cycle
        self.from_column, self.from_row = _hash(numbers, 1) % columns, _hash(numbers, 2) % rows
        self.to_column, self.to_row = _hash(numbers, 3) % columns, _hash(numbers, 4) % rows
        self.across = np.abs(self.to_column - self.from_column)
        self.down = np.abs(self.to_row - self.from_row)
        self.held = np.where(self.down > 0, _hash(numbers, 5) % 9 * (_hash(numbers, 6) % 2), 0)
        self.corner = self.start + HOP_CYCLES * (1 + self.across)
        self.taken = self.corner + self.held + HOP_CYCLES * self.down
        self.end = self.taken + HOP_CYCLES


class ToyFabric(ToyMachine):
    """The toy pipeline on a mesh of `columns` x `rows`."""

    def __init__(
        self, spec: ToySpec, program: Program, columns: int = 40, rows: int = 30, per_cycle: int = 3
    ) -> None:
        super().__init__(spec, program)
        self._per_cycle = per_cycle
        inner = Area(2, 2, columns - 4, rows - 4) if min(columns, rows) > 8 else Area(0, 0, columns, rows)
        self._fabric = FabricShape(
            columns, rows, inner, STATES, COLORS, load_cycles=256, word="wavelet", hop_cycles=HOP_CYCLES
        )
        places = np.arange(columns * rows).reshape(rows, columns)
        self._phase = (_hash(places, 7) % len(_CYCLE_OF_STATES)).astype(np.int64)
        self._swing = (_hash(places, 8) % 256).astype(np.uint8)
        self._table = np.concatenate([_CYCLE_OF_STATES, _CYCLE_OF_STATES])
        self._phase = self._phase.astype(np.uint8)

    # -- HasFabric --------------------------------------------------------------------------------

    @property
    def fabric(self) -> FabricShape:
        return self._fabric

    def _of(self, area: Area) -> tuple[slice, slice]:
        return (
            slice(area.row, area.row + area.rows),
            slice(area.column, area.column + area.columns),
        )

    def element_states(self, area: Area) -> np.ndarray:
        return np.take(self._table[self.cycle % len(_CYCLE_OF_STATES) :], self._phase[self._of(area)])

    def link_loads(self, area: Area) -> np.ndarray:
        swing = self._swing[self._of(area)]
        found = np.empty((*swing.shape, NUM_PORTS), np.uint8)
        for port in range(NUM_PORTS):
            found[..., port] = (swing >> np.uint8(port % 3)) + np.uint8(self.cycle * (port + 1) % 64)
        if area.column == 0:
            found[:, 0, WEST] = 0
        if area.row == 0:
            found[0, :, NORTH] = 0
        return found

    def queue_fill(self, area: Area) -> np.ndarray:
        return self._swing[self._of(area)] // 2 + np.uint8(self.cycle % 128)

    # -- HasElements ------------------------------------------------------------------------------

    def glances(self, area: Area) -> dict[tuple[int, int], Glance]:
        return {
            (column, row): self._glance(column, row)
            for row in range(area.row, area.row + area.rows)
            for column in range(area.column, area.column + area.columns)
        }

    def _glance(self, column: int, row: int) -> Glance:
        state = int(self._table[self.cycle % len(_CYCLE_OF_STATES) + int(self._phase[row, column])])
        fill = (int(self._swing[row, column]) // 2 + self.cycle % 128) & 0xFF
        task = "recv_task" if state == RUNNING else ""
        detail = {WAITING: "color 5 is empty", HELD: "color 2 is full"}.get(state, "")
        levels = (Level("in 2", fill * 6 // FULL, 6, 2), Level("out 3", fill * 4 // FULL, 4, 17))
        return Glance(state, task, detail, levels)

    def element_details(self, column: int, row: int) -> Sequence[DetailTable]:
        value = f"{column + row + self.cycle}"
        return (
            DetailTable("Microthreads", ("Name", "Value", "Type"), (("ut2", "fmovs out, in", "64 left"),)),
            DetailTable("Variables", ("Name", "Value", "Type"), (("sum", value, "f32"), ("i", "3", "u16"))),
        )

    def units_of_element(self, column: int, row: int) -> tuple[int, ...]:
        return (WATCHED.index((column, row)),) if (column, row) in WATCHED else ()

    def element_of_unit(self, unit: int) -> tuple[int, int] | None:
        return WATCHED[unit] if 0 <= unit < len(WATCHED) else None

    # -- HasRoutes --------------------------------------------------------------------------------

    def routes(self, color: int, area: Area) -> np.ndarray:
        """Color 2 runs along every row to all of its elements, color 5 down every column; no others."""
        if color not in (2, 5):
            return np.zeros(0, ROUTE_DTYPE)
        row, column = np.mgrid[area.row : area.row + area.rows, area.column : area.column + area.columns]
        found = np.zeros(row.size, ROUTE_DTYPE)
        found["column"], found["row"] = column.ravel(), row.ravel()
        along, last = (
            (found["column"], self._fabric.columns) if color == 2 else (found["row"], self._fabric.rows)
        )
        back, ahead = (WEST, EAST) if color == 2 else (NORTH, SOUTH)
        found["inputs"] = np.where(along == 0, 1 << RAMP, 1 << back)
        found["outputs"] = np.where(along == 0, 0, 1 << RAMP) | np.where(along == last - 1, 0, 1 << ahead)
        found["position"] = np.where(along % 8 == 4, 1, -1)
        found["positions"] = np.where(along % 8 == 4, 2, 0)
        return found

    # -- HasWords ---------------------------------------------------------------------------------

    def walk(self, numbers: np.ndarray) -> Walk:
        return Walk(numbers, self._fabric.columns, self._fabric.rows, self._per_cycle)

    def words(self, area: Area) -> np.ndarray:
        now = self.cycle
        longest = HOP_CYCLES * (self._fabric.columns + self._fabric.rows + 2) + 9
        walk = self.walk(
            np.arange(max(now - longest, 0) * self._per_cycle, (now + 1) * self._per_cycle, dtype=np.int64)
        )
        walk = self.walk(walk.numbers[(walk.start <= now) & (now < walk.end)])
        found = np.zeros(len(walk.numbers), WORD_DTYPE)
        found["id"] = walk.numbers
        found["color"] = np.array([color.id for color in COLORS])[walk.numbers % len(COLORS)]
        found["control"] = _hash(walk.numbers, 9) % 16 == 0
        found["data"] = (_hash(walk.numbers, 10) & 0xFFFF).astype(np.uint32) | 0x3F800000
        found["source_column"], found["source_row"] = walk.from_column, walk.from_row
        step_x = np.sign(walk.to_column - walk.from_column)
        step_y = np.sign(walk.to_row - walk.from_row)
        hops_x = np.clip((now - walk.start) // HOP_CYCLES - 1, 0, walk.across)
        hops_y = np.clip((now - walk.corner - walk.held) // HOP_CYCLES, 0, walk.down)
        found["column"] = walk.from_column + step_x * hops_x
        found["row"] = walk.from_row + step_y * hops_y
        is_across = now < walk.corner
        is_down = (now >= walk.corner) & (now < walk.taken)
        found["port"] = np.where(
            is_across,
            np.where(step_x > 0, EAST, WEST),
            np.where(is_down, np.where(step_y > 0, SOUTH, NORTH), RAMP),
        )
        found["port"][now < walk.start + HOP_CYCLES] = INJECT
        waits = (now >= walk.corner) & (now < walk.corner + walk.held)
        began = np.where(
            is_across,
            walk.start + (now - walk.start) // HOP_CYCLES * HOP_CYCLES,
            np.where(
                is_down,
                walk.corner + walk.held + (now - walk.corner - walk.held) // HOP_CYCLES * HOP_CYCLES,
                walk.taken,
            ),
        )
        found["waits"] = waits
        found["start"] = np.where(waits, walk.corner, began)
        found["arrival"] = np.where(waits, -1, began + HOP_CYCLES)
        inside = (found["column"] >= area.column) & (found["column"] < area.column + area.columns)
        inside &= (found["row"] >= area.row) & (found["row"] < area.row + area.rows)
        return found[inside]

    def is_sent(self, word: int) -> bool:
        return 0 <= word < (self.cycle + 1) * self._per_cycle

    def words_of_element(self, column: int, row: int) -> Sequence[int]:
        words = self.words(Area(column, row, 1, 1))
        return words["id"].tolist()

    def word_path(self, word: int) -> WordPath | None:
        if not self.is_sent(word):
            return None
        walk = self.walk(np.array([word], np.int64))
        column, row, cycle = int(walk.from_column[0]), int(walk.from_row[0]), int(walk.start[0])
        hops = [Hop(cycle, column, row, RAMP, "sent", source="toy.csl:12 send_row")]
        cycle += HOP_CYCLES
        legs = (
            (EAST if walk.to_column[0] > column else WEST, int(walk.across[0]), 0),
            (SOUTH if walk.to_row[0] > row else NORTH, int(walk.down[0]), int(walk.held[0])),
        )
        for port, count, held in legs:
            cycle += held
            for number in range(count):
                hops.append(Hop(cycle, column, row, port, "hop", held if number == 0 else 0))
                column, row = column + PORT_STEPS[port][0], row + PORT_STEPS[port][1]
                cycle += HOP_CYCLES
        hops.append(Hop(cycle, column, row, RAMP, "taken", source="toy.csl:40 recv_task"))
        past = tuple(hop for hop in hops if hop.cycle <= self.cycle)
        color = COLORS[word % len(COLORS)].id
        control = bool(_hash(word, 9) % 16 == 0)
        data = int(_hash(word, 10)) & 0xFFFF | 0x3F800000
        return WordPath(word, color, control, data, past, len(past) < len(hops))


class ToyFabricTarget(ToyTarget):
    """Takes `.toy` files with `columns` and `rows` beside the sizes of a toy program."""

    title = "Toy fabric"
    presets: Mapping[str, str] = {"small": "40 x 30"}

    def __init__(self, columns: int = 40, rows: int = 30, per_cycle: int = 3) -> None:
        self._sizes = columns, rows, per_cycle

    def accepts(self, path: Path, head: bytes) -> bool:
        return path.suffix == ".toy"

    def build(self, spec: Any, program: Program) -> Machine:
        return ToyFabric(spec, program, *self._sizes)


def make_fabric(columns: int = 40, rows: int = 30, per_cycle: int = 3, blocks: int = 16) -> ToyFabric:
    """A toy fabric at cycle 0, without a file."""
    from tests.toy.program import make_program

    spec = ToySpec(blocks=blocks)
    return ToyFabric(spec, make_program(spec, {}, ToyTarget.id), columns, rows, per_cycle)
