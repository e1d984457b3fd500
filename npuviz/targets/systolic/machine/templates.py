"""Templates of a systolic program: the code that tiles share, of all layers in one table."""

from functools import cached_property

import numpy as np

from npuviz.targets.systolic.isa import UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables

LOAD, STORE = UNIT_KINDS.index("LD"), UNIT_KINDS.index("ST")
_COUNT_BITS = 32


class Templates:
    """Each template of each layer once.

    tiles  by template: rows of the tiles that run it
    """

    def __init__(self, tables: SystolicTables) -> None:
        self._tables = tables
        self.tiles: list[np.ndarray] = []
        starts: list[int] = []
        lengths: list[int] = []
        owners: list[int] = []
        rows = tables.tiles
        keys = (rows[:, tk.TILE.code] << _COUNT_BITS) + rows[:, tk.TILE.count]
        used = rows[:, tk.TILE.count] > 0
        heads = tables.layers[:, [tk.LAYER.first_tile, tk.LAYER.num_tiles]].tolist()
        for layer, (first, count) in enumerate(heads):
            mine = np.flatnonzero(used[first : first + count]) + first
            key = keys[mine]
            for each in sorted(set(key.tolist())):
                self.tiles.append(rows[mine[key == each]])
                starts.append(each >> _COUNT_BITS)
                lengths.append(each & (1 << _COUNT_BITS) - 1)
                owners.append(layer)
        self._starts, self._lengths = np.array(starts, np.int64), np.array(lengths, np.int64)
        self.layer = np.array(owners, np.int64)

    @cached_property
    def ends(self) -> np.ndarray:
        """By template: the end of its instructions in `code`; int64."""
        return np.cumsum(self._lengths)

    @cached_property
    def of(self) -> np.ndarray:
        """By row of `code`: its template; int64."""
        return np.repeat(np.arange(len(self._lengths)), self._lengths)

    @cached_property
    def code(self) -> np.ndarray:
        """(n, CODE_WORDS) int64: the instructions of one template after those of another."""
        shift = np.repeat(self._starts - self.ends + self._lengths, self._lengths)
        return self._tables.code[np.arange(len(shift)) + shift]

    @cached_property
    def kind(self) -> np.ndarray:
        """By row of `code`: the kind of unit that runs it."""
        return UNIT_KIND_OF[self.code[:, tk.CODE.op]]

    @cached_property
    def _moved(self) -> dict[int, tuple[set[int], set[int]]]:
        found: dict[int, tuple[set[int], set[int]]] = {}
        moves = np.flatnonzero((self.kind == LOAD) | (self.kind == STORE))
        layers, tensors = self.layer[self.of[moves]].tolist(), self.code[moves, tk.CODE.tensor].tolist()
        for layer, tensor, kind in zip(layers, tensors, self.kind[moves].tolist(), strict=True):
            if tensor >= 0:
                found.setdefault(layer, (set(), set()))[kind == STORE].add(tensor)
        return found

    def tensors_of(self, layer: int) -> tuple[set[int], set[int]]:
        """Return the tensors in DRAM that the tiles of a layer read, and those that they write."""
        return self._moved.get(layer, (set(), set()))
