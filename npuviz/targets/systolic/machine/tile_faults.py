"""Finds faults in the tiles of a systolic program that do not depend on the order of execution."""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.machine import Hazard
from npuviz.targets.systolic.isa import MNEMONICS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.templates import LOAD, STORE, Templates
from npuviz.targets.systolic.tables import SystolicTables
from npuviz.targets.systolic.values.plan import ValuePlan

_SIZES = [tk.CODE.n0, tk.CODE.n1, tk.CODE.len]
_BASES = slice(tk.TILE.base, tk.TILE.base + 8)
_SCRATCHPAD, _ACCUMULATOR = 0, 1
_PRODUCTS = (tk.OP_GEMM, tk.OP_GEMM_PRELOAD)


def faults_of_layers(
    tables: SystolicTables,
    program: Program,
    unit_name: Callable[[int], str],
    halves: tuple[int, int],
    templates: Templates,
) -> list[list[Hazard]]:
    """Find the faults of each layer: moves out of bounds, entries too large, read before they are filled, or
    never read.

    halves  bytes of half a scratchpad, of half an accumulator
    Cycles are 0.
    """
    return _Faults(tables, program, unit_name, halves, templates).by_layer()


class _Faults:
    def __init__(
        self,
        tables: SystolicTables,
        program: Program,
        unit_name: Callable[[int], str],
        halves: tuple[int, int],
        templates: Templates,
    ) -> None:
        self._tables, self._program, self._unit_name, self._halves = tables, program, unit_name, halves
        self._templates = templates
        self._products = tables.values.products if isinstance(tables.values, ValuePlan) else ()
        count = len(program.graph.tensors)
        self._low = np.zeros(count + 1, np.int64)
        """First address per tensor; `_high` has the end, -1 without a place. The last item: no tensor."""
        self._high = np.full(count + 1, -1, np.int64)
        for each in program.memory_map.allocations:
            if 0 <= each.tensor < count:
                self._low[each.tensor], self._high[each.tensor] = each.address, each.address + each.size_bytes

    def by_layer(self) -> list[list[Hazard]]:
        found: list[list[Hazard]] = [[] for _ in self._tables.layers]
        templates = self._templates
        if not len(templates.code):
            return found
        outside, crowded = set(self._outside()), set(self._crowded())
        columns = templates.code[
            :, [tk.CODE.op, tk.CODE.src0, tk.CODE.src1, tk.CODE.dst, tk.CODE.aux]
        ].tolist()
        kinds, start = templates.kind.tolist(), 0
        for template, end in enumerate(templates.ends.tolist()):
            mine = found[int(templates.layer[template])]
            mine += [self._moved_outside(row) for row in range(start, end) if row in outside]
            mine += self._entries(template, start, columns[start:end], kinds[start:end], crowded)
            start = end
        for row in self._too_short():
            found[int(templates.layer[templates.of[row]])].append(self._partly_filled(row))
        for layer, index in self._never_begun():
            place = "accumulator"
            text = f"the tile of instruction {index} goes on with a sum that no tile of its layer has begun"
            found[layer].append(self._hazard("unwritten", index, text, place))
        for layer, hazard in self._incomplete():
            found[layer].append(hazard)
        return found

    def _first(self, row: int) -> int:
        """Return the instruction in a row of code, in the first tile of its template."""
        template = int(self._templates.of[row])
        start = int(self._templates.ends[template - 1]) if template else 0
        return int(self._templates.tiles[template][0, tk.TILE.first]) + row - start

    def _hazard(self, kind: str, index: int, text: str, place: str) -> Hazard:
        unit = self._unit_name(self._program.listing.describe(index).unit)
        return hazard_of(kind, 0, unit, index, text, place)

    # --- moves -----------------------------------------------------------------------------------------

    def _reach(self, code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the offsets from its base at which each move begins, and before which it ends."""
        low = code[:, tk.CODE.offset].copy()
        high = low + code[:, tk.CODE.len]
        for count, pitch in ((tk.CODE.n0, tk.CODE.s0), (tk.CODE.n1, tk.CODE.s1)):
            reach = (code[:, count] - 1) * code[:, pitch]
            low += np.minimum(reach, 0)
            high += np.maximum(reach, 0)
        return low, high

    def _outside(self) -> list[int]:
        """Find rows of moves that leave their tensor in any tile."""
        templates = self._templates
        rows = np.flatnonzero((templates.kind == LOAD) | (templates.kind == STORE))
        code = templates.code[rows]
        place, tensor = (templates.of[rows], code[:, tk.CODE.base]), code[:, tk.CODE.tensor]
        bases = [tiles[:, _BASES] for tiles in templates.tiles]
        low, high = self._reach(code)
        low += np.array([each.min(axis=0) for each in bases])[place]
        high += np.array([each.max(axis=0) for each in bases])[place]
        is_placed = self._high[tensor] >= 0
        return rows[is_placed & ((low < self._low[tensor]) | (high > self._high[tensor]))].tolist()

    def _moved_outside(self, row: int) -> Hazard:
        code = self._templates.code[row : row + 1]
        tiles = self._templates.tiles[int(self._templates.of[row])]
        base = tiles[:, tk.TILE.base + int(code[0, tk.CODE.base])]
        low, high = (base + each for each in self._reach(code))
        tensor = int(code[0, tk.CODE.tensor])
        first, end = int(self._low[tensor]), int(self._high[tensor])
        tile = int(np.flatnonzero((low < first) | (high > end))[0])
        index = self._first(row) - int(tiles[0, tk.TILE.first]) + int(tiles[tile, tk.TILE.first])
        place = f"DRAM {int(low[tile]):#x}..{int(high[tile]) - 1:#x}"
        name = self._program.graph.tensors[tensor].name
        text = f"instruction {index} moves {place}; tensor {name} has {first:#x}..{end - 1:#x}"
        return self._hazard("out-of-bounds", index, text, place)

    def _incomplete(self) -> Iterator[tuple[int, Hazard]]:
        """Find tensors of which all stores together move too few bytes; yields the last layer that stores
        each, and the hazard."""
        templates = self._templates
        rows = np.flatnonzero(templates.kind == STORE)
        code, number = templates.code[rows], np.array([len(tiles) for tiles in templates.tiles])
        sizes = number[templates.of[rows]] * code[:, _SIZES].prod(axis=1)
        moved, last = Counter[int](), dict[int, int]()
        for tensor, row, size in zip(
            code[:, tk.CODE.tensor].tolist(), rows.tolist(), sizes.tolist(), strict=True
        ):
            moved[tensor] += size
            last[tensor] = row
        for tensor, row in last.items():
            size = int(self._high[tensor] - self._low[tensor])
            if moved[tensor] < size:
                template = int(templates.of[row])
                tiles = templates.tiles[template]
                index = self._first(row) + int(tiles[-1, tk.TILE.first] - tiles[0, tk.TILE.first])
                name = self._program.graph.tensors[tensor].name
                text = f"{name} has {size} B, and its stores move {moved[tensor]}"
                yield (
                    int(templates.layer[template]),
                    self._hazard("incomplete", index, text, f"tensor {name}"),
                )

    # --- entries ---------------------------------------------------------------------------------------

    def _entries(
        self, template: int, start: int, code: list[list[int]], kinds: list[int], crowded: set[int]
    ) -> Iterator[Hazard]:
        """Check the use of entries by a template, in program order.

        start  its first row; code  opcode, sources, destination and product of each instruction
        """
        tiles = self._templates.tiles[template]
        # What a tile goes on with was filled by the tile before.
        continues = bool(tiles[:, tk.TILE.accumulate].any())
        filled: dict[int, int] = {}
        read = set[int]()
        for row, ((op, first, second, target, product), kind) in enumerate(zip(code, kinds, strict=True)):
            sources = (target,) if kind == STORE else () if kind == LOAD else (first, second)
            if op in _PRODUCTS and 0 <= product < len(self._products):
                sources += self._products[product].zero_words
            for entry in sources:
                if entry and entry not in filled and not (entry < 0 and continues):
                    index = self._first(start + row)
                    text = (
                        f"{MNEMONICS[op]} {index} reads {_entry(entry)}, which nothing of its tile has filled"
                    )
                    yield self._hazard("unwritten", index, text, _entry(entry))
                read.add(entry)
            if kind != STORE and target:
                filled[target] = row
                if start + row in crowded:
                    yield self._too_large(start + row)
        for entry, row in filled.items():
            if entry > 0 and entry not in read:
                index = self._first(start + row)
                name = f"{MNEMONICS[code[row][0]]} {index}"
                text = f"{name} fills {_entry(entry)}, and nothing of its tile reads it"
                kind = "dead-transfer" if kinds[row] == LOAD else "dead-store"
                yield self._hazard(kind, index, text, _entry(entry))

    def _too_short(self) -> list[int]:
        """Find rows of loads that bring fewer bytes than the size of the entry that they fill."""
        rows = np.flatnonzero(self._templates.kind == LOAD)
        code = self._templates.code[rows]
        return rows[code[:, _SIZES].prod(axis=1) < code[:, tk.CODE.size]].tolist()

    def _partly_filled(self, row: int) -> Hazard:
        code, index = self._templates.code[row], self._first(row)
        entry, size, moved = int(code[tk.CODE.dst]), int(code[tk.CODE.size]), int(code[_SIZES].prod())
        text = (
            f"instruction {index} brings {moved} B of the {size} B of {_entry(entry)}; nobody writes the rest"
        )
        return self._hazard("unwritten", index, text, _entry(entry))

    def _never_begun(self) -> Iterator[tuple[int, int]]:
        """Yield layer and first instruction of tiles that continue a sum although they are the first of their
        layer."""
        tiles = self._tables.tiles
        goes_on = (tiles[:, tk.TILE.accumulate] > 0) & (tiles[:, tk.TILE.count] > 0)
        layer = tiles[:, tk.TILE.layer]
        is_first = np.ones(len(tiles), np.bool_)
        is_first[1:] = layer[1:] != layer[:-1]
        for tile in np.flatnonzero(goes_on & is_first).tolist():
            yield int(layer[tile]), int(tiles[tile, tk.TILE.first])

    def _room(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return address, size and the bytes of the half for the entries that rows fill."""
        templates, entries = self._templates, self._tables.entries
        code = templates.code[rows]
        target = code[:, tk.CODE.dst]
        head = self._tables.layers[templates.layer[templates.of[rows]]]
        number = np.where(target > 0, target - 1, head[:, tk.LAYER.spad_entries] - target - 1)
        address = entries[head[:, tk.LAYER.entry] + number, tk.ENTRY_ROOM.address]
        half = np.where(target > 0, self._halves[_SCRATCHPAD], self._halves[_ACCUMULATOR])
        return address, code[:, tk.CODE.size], half

    def _crowded(self) -> list[int]:
        """Find rows that fill an entry beyond the end of its half."""
        templates = self._templates
        rows = np.flatnonzero((templates.kind != STORE) & (templates.code[:, tk.CODE.dst] != 0))
        if not len(rows):
            return []
        address, size, half = self._room(rows)
        return rows[address + size > half].tolist()

    def _too_large(self, row: int) -> Hazard:
        address, size, half = (int(each[0]) for each in self._room(np.array([row])))
        index, entry = self._first(row), int(self._templates.code[row, tk.CODE.dst])
        text = f"instruction {index} fills {_entry(entry)} with {size} B at {address:#x}, of {half} B"
        return self._hazard("capacity", index, text, _entry(entry))


def _entry(operand: int) -> str:
    return f"scratchpad entry s{operand - 1}" if operand > 0 else f"accumulator entry a{-operand - 1}"
