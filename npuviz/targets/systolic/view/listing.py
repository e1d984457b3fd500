"""The instructions of a systolic program, decoded from its tables on request.

Instruction indices run over the tiles in table order, then one per Host layer.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from npuviz.program.instruction import Instruction, Operand
from npuviz.targets.systolic.isa import MNEMONICS, UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables, assign_cores, moved_range

_HOST = UNIT_KINDS.index("Host")


class SystolicListing:
    """`npuviz.program.instruction.Listing` over the tables; vectorised where many indices come at once.

    units     (core, kind) -> unit id for the kinds of `opcodes.UNIT_KINDS`; Host under (-1, "Host")
    memories  (core, "SPAD") and (core, "ACC") -> memory id; DRAM under (-1, "DRAM")
    tensor_names  names for the text of the listing, by tensor id
    """

    def __init__(
        self,
        tables: SystolicTables,
        num_cores: int,
        units: Mapping[tuple[int, str], int],
        memories: Mapping[tuple[int, str], int],
        tensor_names: Sequence[str] = (),
    ) -> None:
        self._tables = tables
        self._memories = dict(memories)
        self._tensor_names = tensor_names
        self._core_of_tile = assign_cores(tables, num_cores)
        self._first = np.ascontiguousarray(tables.tiles[:, tk.TILE.first])
        self._num_tiled = int(tables.tiles[:, tk.TILE.count].sum())
        self._host_layers = np.flatnonzero(tables.layers[:, tk.LAYER.host_cycles] > 0)
        self._unit_table = np.full((num_cores, len(UNIT_KINDS)), -1, dtype=np.int32)
        for (core, kind), unit in units.items():
            self._unit_table[slice(None) if core < 0 else core, UNIT_KINDS.index(kind)] = unit
        self._ranges: dict[int, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return self._num_tiled + len(self._host_layers)

    def _locate(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (tile, code row, is host) of indices; tile and row are 0 where is host or out of range."""
        index = np.asarray(indices, dtype=np.int64)
        outside = (index < 0) | (index >= self._num_tiled)
        if not len(self._first):
            zeros = np.zeros(index.shape, dtype=np.int64)
            return zeros, zeros, outside
        tile = np.searchsorted(self._first, np.where(outside, np.int64(0), index), side="right") - 1
        tiles = self._tables.tiles
        row = tiles[tile, tk.TILE.code] + np.where(outside, 0, index) - self._first[tile]
        return tile, row, outside

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the graph node ids (int32, -1 none) of instruction indices, same shape."""
        return self._per_layer(indices, self._tables.layers[:, tk.LAYER.node]).astype(np.int32)

    def tiles_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the tile numbers (int64, -1 for Host instructions) of instruction indices, same shape."""
        tile, _, outside = self._locate(indices)
        return np.where(outside, -1, tile)

    def _per_layer(self, indices: np.ndarray, values: np.ndarray) -> np.ndarray:
        index = np.asarray(indices, dtype=np.int64)
        tile, _, outside = self._locate(index)
        found = np.full(index.shape, -1, dtype=np.int64)
        inside = ~outside
        found[inside] = values[self._tables.tiles[tile[inside], tk.TILE.layer]]
        host = (index >= self._num_tiled) & (index < len(self))
        found[host] = values[self._host_layers[index[host] - self._num_tiled]]
        return found

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the unit ids (int32, -1 none) of instruction indices, same shape."""
        index = np.asarray(indices, dtype=np.int64)
        tile, row, outside = self._locate(index)
        found = np.full(index.shape, -1, dtype=np.int32)
        inside = ~outside
        kind = UNIT_KIND_OF[self._tables.code[row[inside], tk.CODE.op]]
        found[inside] = self._unit_table[self._core_of_tile[tile[inside]], kind]
        found[(index >= self._num_tiled) & (index < len(self))] = self._unit_table[0, _HOST]
        return found

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first written operands: (address int64, size_bytes int64, tensor int32), same shape
        each.

        A store writes DRAM: its first byte address and the bytes from there to its last one. Anything
        else writes an entry: its address inside the half and its size. Host: (0, 0, -1).
        """
        tile, row, outside = self._locate(indices)
        address, size = np.zeros(row.shape, dtype=np.int64), np.zeros(row.shape, dtype=np.int64)
        tensor = np.full(row.shape, -1, dtype=np.int32)
        inside = ~outside
        code, tiles = self._tables.code[row[inside]], self._tables.tiles[tile[inside]]
        is_store = UNIT_KIND_OF[code[:, tk.CODE.op]] == UNIT_KINDS.index("ST")
        entry_row = self._entry_rows(tiles[:, tk.TILE.layer], code[:, tk.CODE.dst])
        base = np.take_along_axis(tiles, tk.TILE.base + code[:, tk.CODE.base][:, None], axis=1)[:, 0]
        stored = base + code[:, tk.CODE.offset]
        entries = self._tables.entries
        placed = entries[entry_row, tk.ENTRY_ROOM.address] if len(entries) else np.zeros_like(stored)
        address[inside] = np.where(is_store, stored, placed)
        reach = (code[:, tk.CODE.n0] - 1) * code[:, tk.CODE.s0] + (code[:, tk.CODE.n1] - 1) * code[
            :, tk.CODE.s1
        ]
        size[inside] = np.where(is_store, reach + code[:, tk.CODE.len], code[:, tk.CODE.size])
        for each in np.flatnonzero(is_store & (code[:, tk.CODE.src0] != 0)).tolist():
            place = np.flatnonzero(inside)[each]
            address.flat[place], size.flat[place] = moved_range(
                self._tables, int(tile[inside][each]), code[each].tolist()
            )
        tensor[inside] = code[:, tk.CODE.tensor]
        return address, size, tensor

    def _entry_rows(self, layers: np.ndarray, operands: np.ndarray) -> np.ndarray:
        """Return the ENTRIES rows of operand words; 0 where the operand is none."""
        table = self._tables.layers[layers]
        number = np.where(operands < 0, table[:, tk.LAYER.spad_entries] - operands - 1, operands - 1)
        return np.where(operands == 0, 0, table[:, tk.LAYER.entry] + number)

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a graph node, rising."""
        layers, tiles = self._tables.layers, self._tables.tiles
        found: list[tuple[int, int]] = []
        for layer in np.flatnonzero(layers[:, tk.LAYER.node] == node):
            first, count = layers[layer, tk.LAYER.first_tile], layers[layer, tk.LAYER.num_tiles]
            if count == 0:
                start = int(layers[layer, tk.LAYER.instruction])
                found.append((start, start + 1))
                continue
            last = tiles[first + count - 1]
            start, end = int(tiles[first, tk.TILE.first]), int(last[tk.TILE.first] + last[tk.TILE.count])
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], end)
            elif end > start:
                found.append((start, end))
        return sorted(found)

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        """Return the half-open ranges of the instructions that a unit executes, rising."""
        if unit not in self._ranges:
            self._ranges[unit] = self._find_ranges(unit)
        return self._ranges[unit]

    def _find_ranges(self, unit: int) -> list[tuple[int, int]]:
        if self._unit_table[0, _HOST] == unit:
            return [(self._num_tiled, len(self))] if len(self._host_layers) else []
        place = np.argwhere(self._unit_table == unit)
        if not len(place):
            return []
        core, kind = place[0]
        tiles = self._tables.tiles[(self._core_of_tile == core) & (self._tables.tiles[:, tk.TILE.count] > 0)]
        starts: list[np.ndarray] = []
        ends: list[np.ndarray] = []
        for first, count in np.unique(tiles[:, [tk.TILE.code, tk.TILE.count]], axis=0):
            kinds = UNIT_KIND_OF[self._tables.code[first : first + count, tk.CODE.op]] == kind
            edge = np.flatnonzero(np.diff(np.concatenate(([0], kinds.astype(np.int8), [0]))))
            at = tiles[(tiles[:, tk.TILE.code] == first) & (tiles[:, tk.TILE.count] == count), tk.TILE.first]
            starts.append((at[:, None] + edge[0::2]).reshape(-1))
            ends.append((at[:, None] + edge[1::2]).reshape(-1))
        if not starts:
            return []
        lows, highs = np.sort(np.concatenate(starts)), np.sort(np.concatenate(ends))
        return list(zip(lows.tolist(), highs.tolist(), strict=True))

    def describe(self, index: int) -> Instruction:
        """Decode one instruction. Raises IndexError outside 0..len-1."""
        if not 0 <= index < len(self):
            raise IndexError(f"instruction {index} of {len(self)}")
        if index >= self._num_tiled:
            return self._describe_host(index)
        tile_ids, rows, _ = self._locate(np.array([index]))
        tile = int(tile_ids[0])
        code = [int(word) for word in self._tables.code[rows[0]]]
        layer = int(self._tables.tiles[tile, tk.TILE.layer])
        core = int(self._core_of_tile[tile])
        kind = int(UNIT_KIND_OF[code[tk.CODE.op]])
        destination = self._entry(core, layer, code[tk.CODE.dst], code[tk.CODE.size], code[tk.CODE.tensor])
        if UNIT_KINDS[kind] in ("LD", "ST"):
            outside = (self._dram(tile, code),)
            picked = self._entry(core, layer, code[tk.CODE.src0], 0, -1)
            if UNIT_KINDS[kind] == "LD":
                reads, writes = (*outside, *picked), destination
            else:
                reads, writes = (*destination, *picked), outside
        else:
            sources = (code[tk.CODE.src0], code[tk.CODE.src1])
            reads = tuple(operand for s in sources for operand in self._entry(core, layer, s, 0, -1))
            writes = destination
        return Instruction(
            index=index,
            unit=int(self._unit_table[core, kind]),
            opcode=MNEMONICS[code[tk.CODE.op]],
            text=self._text(tile, code),
            node=int(self._tables.layers[layer, tk.LAYER.node]),
            tile=tile,
            reads=reads,
            writes=writes,
        )

    def _describe_host(self, index: int) -> Instruction:
        layer = int(self._host_layers[index - self._num_tiled])
        row = self._tables.layers[layer]
        text = f"HOST {self._tables.layer_names[layer]}, {int(row[tk.LAYER.host_cycles])} cycles (assumed)"
        return Instruction(index, int(self._unit_table[0, _HOST]), "HOST", text, int(row[tk.LAYER.node]))

    def _entry(self, core: int, layer: int, operand: int, size: int, tensor: int) -> tuple[Operand, ...]:
        if operand == 0:
            return ()
        row = self._entry_rows(np.array([layer]), np.array([operand]))[0]
        address, largest = (int(word) for word in self._tables.entries[row])
        memory = self._memories.get((core, "ACC" if operand < 0 else "SPAD"), -1)
        return (Operand(memory, address, size or largest, tensor),)

    def _dram(self, tile: int, code: list[int]) -> Operand:
        """Return the DRAM range that a move touches, from the first byte of its first row to the end of its
        last."""
        memory = self._memories.get((-1, "DRAM"), -1)
        return Operand(memory, *moved_range(self._tables, tile, code), code[tk.CODE.tensor])

    def _text(self, tile: int, code: list[int]) -> str:
        name = MNEMONICS[code[tk.CODE.op]]
        kind = UNIT_KINDS[UNIT_KIND_OF[code[tk.CODE.op]]]
        tensor = code[tk.CODE.tensor]
        suffix = f"  ; {self._tensor_names[tensor]}" if 0 <= tensor < len(self._tensor_names) else ""
        if kind in ("LD", "ST"):
            address = self._dram(tile, code).address
            rows = f"{code[tk.CODE.n0] * code[tk.CODE.n1]} x {code[tk.CODE.len]} B"
            place, outside = _operand_text(code[tk.CODE.dst]), f"DRAM:{address:#x}"
            if code[tk.CODE.src0]:
                outside += f" + {_operand_text(code[tk.CODE.src0])}[{code[tk.CODE.n]}]"
            ends = (place, outside) if kind == "LD" else (outside, place)
            return f"{name} {ends[0]}, {ends[1]}, {rows}{suffix}"
        sources = [_operand_text(code[word]) for word in (tk.CODE.src0, tk.CODE.src1) if code[word]]
        if kind == "EX":
            tail = f"rows {code[tk.CODE.n]}, {code[tk.CODE.tile_m]} x {code[tk.CODE.tile_k]}"
        else:
            tail = f"{code[tk.CODE.vbytes]} B"
        return f"{name} {', '.join([_operand_text(code[tk.CODE.dst]), *sources, tail])}{suffix}"


def _operand_text(operand: int) -> str:
    if operand == 0:
        return "-"
    return f"s{operand - 1}" if operand > 0 else f"a{-operand - 1}"
