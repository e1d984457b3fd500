"""The DRAM ranges of loads, stores and Host calls, to compare the order of accesses of two runs.

Entries are instructions. A load reads from its start on, a store has written at its end.
"""

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.access_order import ACCESS_COLUMNS, READS, WRITES, AccessTable
from npuviz.targets.systolic.isa import UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.entry_links import entry_links
from npuviz.targets.systolic.tables import SystolicTables, moved_range
from npuviz.trace.reader import TraceReader

_LOADS, _STORES = UNIT_KINDS.index("LD"), UNIT_KINDS.index("ST")
MOST_PIECES = 1 << 22
"""Most runs of bytes in all moves of a program; with more, each move is one range with its gaps."""
_ON_CHIP = "scratchpad and accumulator: the machine itself makes instructions wait for their operands"


def access_table(tables: SystolicTables, program: Program, memory: int) -> AccessTable:
    """Return the DRAM ranges of all instructions. memory  id of DRAM"""
    count = len(program.listing)
    index, rows = _moves(tables, memory)
    hosts = [
        (int(row[tk.LAYER.instruction]), each)
        for row in tables.layers[tables.layers[:, tk.LAYER.host_cycles] > 0]
        for each in _host_rows(program, int(row[tk.LAYER.node]), memory)
    ]
    index = np.concatenate([index, np.array([number for number, _ in hosts], np.int64)])
    rows = np.concatenate([rows, np.array([row for _, row in hosts], np.int64).reshape(-1, ACCESS_COLUMNS)])
    order = np.argsort(index, kind="stable")
    first = np.searchsorted(index[order], np.arange(count + 1))
    return AccessTable(
        first.astype(np.int64), np.ascontiguousarray(rows[order]), np.arange(count), (_ON_CHIP,),
        needs_trace=True, has_values=tables.values is not None, links=entry_links(tables),
    )  # fmt: skip


def _moves(tables: SystolicTables, memory: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the instruction numbers of loads and stores, and an access row for each run of bytes."""
    tiles, code = tables.tiles, tables.code
    counts = tiles[:, tk.TILE.count]
    tile = np.repeat(np.arange(len(tiles)), counts)
    within = np.arange(len(tile)) - np.repeat(np.cumsum(counts) - counts, counts)
    row = code[tiles[tile, tk.TILE.code] + within]
    kind = UNIT_KIND_OF[row[:, tk.CODE.op]]
    chosen = (kind == _LOADS) | (kind == _STORES)
    tile, within, row, kind = tile[chosen], within[chosen], row[chosen], kind[chosen]
    bases = tiles[tile, tk.TILE.base : tk.TILE.base + 8]
    low = np.take_along_axis(bases, row[:, tk.CODE.base][:, None], axis=1)[:, 0] + row[:, tk.CODE.offset]
    row = row.copy()
    for each in np.flatnonzero(row[:, tk.CODE.src0] != 0).tolist():
        low[each], row[each, tk.CODE.len] = moved_range(tables, int(tile[each]), row[each].tolist())
        row[each, [tk.CODE.n0, tk.CODE.n1]] = 1
    move, low, length = _pieces(row, low)
    made = np.zeros((len(move), ACCESS_COLUMNS), np.int64)
    made[:, 0], made[:, 1], made[:, 3] = memory, kind[move] == _STORES, 1
    made[:, 4], made[:, 5] = low, low + length
    return (tiles[tile, tk.TILE.first] + within)[move], made


def _pieces(row: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the runs of bytes of moves, since stores fill each other's gaps: number of the move, address,
    length.

    row  code of each move; low  its address
    """
    n0, s0, n1, s1, length = (
        row[:, c] for c in (tk.CODE.n0, tk.CODE.s0, tk.CODE.n1, tk.CODE.s1, tk.CODE.len)
    )
    is_run = (n1 == 1) | (s1 == length)
    length, n1 = np.where(is_run, n1 * length, length), np.where(is_run, 1, n1)
    is_run &= (n0 == 1) | (s0 == length)
    length, n0 = np.where(is_run, n0 * length, length), np.where(is_run, 1, n0)
    if int((n0 * n1).sum()) > MOST_PIECES:
        length = length + (n0 - 1) * s0 + (n1 - 1) * s1
        n0 = n1 = np.ones_like(length)
    count = n0 * n1
    move = np.repeat(np.arange(len(row)), count)
    piece = np.arange(len(move)) - np.repeat(np.cumsum(count) - count, count)
    outer, inner = np.divmod(piece, n1[move])
    return move, low[move] + outer * s0[move] + inner * s1[move], length[move]


def _host_rows(program: Program, node: int, memory: int) -> list[tuple[int, ...]]:
    """Return the access rows of a Host call: all bytes of its inputs and outputs in DRAM."""
    if node < 0:
        return []
    homes = {each.tensor: each for each in program.memory_map.allocations}
    called = program.graph.nodes[node]
    return [
        (memory, write, 0, 1, homes[tensor].address, homes[tensor].address + homes[tensor].size_bytes, 0)
        for write, tensors in ((0, called.inputs), (1, called.outputs))
        for tensor in tensors
        if tensor in homes
    ]


def access_order(table: AccessTable, trace: TraceReader) -> np.ndarray:
    """Return recorded accesses by cycle: reads at their starts, writes at their ends; within a cycle, ends
    come first.

    A store may still be drawn when its layer has ended: DRAM takes requests in their order, so that it has
    written before any layer that waited for it reads. Instructions that neither load nor store have phase 0,
    at their ends.
    """
    count = len(table.first) - 1
    begin, end = np.full(count, 1 << 62, np.int64), np.full(count, -1, np.int64)
    first_of_layer, end_of_layer = list[np.ndarray](), list[np.ndarray]()
    waits = [kind.id for kind in trace.schema.kinds if kind.role.startswith("wait-")]
    for track in trace.schema.tracks:
        if track.kind != "interval":
            continue
        columns = trace.interval_columns(track.id)
        kept = (columns.instruction >= 0) & (columns.instruction < count) & ~np.isin(columns.kind, waits)
        number = columns.instruction[kept]
        if track.unit < 0:  # layers as a whole, by their first instruction
            first_of_layer.append(number)
            end_of_layer.append(columns.end[kept])
            continue
        np.minimum.at(begin, number, columns.start[kept])
        np.maximum.at(end, number, columns.end[kept])
    _clamp(end, np.concatenate(first_of_layer or [begin[:0]]), np.concatenate(end_of_layer or [end[:0]]))
    entry_of = np.repeat(np.arange(count), np.diff(table.first))
    parts: list[np.ndarray] = []
    for phase, is_write, cycles in ((WRITES, 1, end), (READS, 0, begin)):
        mine = np.unique(entry_of[table.rows[:, 1] == is_write])
        mine = mine[end[mine] >= 0]
        parts.append(np.stack([mine, np.full(len(mine), phase), cycles[mine]], axis=1))
    inner = np.setdiff1d(np.flatnonzero(end >= 0), entry_of)
    parts.insert(1, np.stack([inner, np.zeros(len(inner), np.int64), end[inner]], axis=1))
    found = np.concatenate(parts).astype(np.int64)
    return found[np.argsort(found[:, 2], kind="stable")]


def _clamp(end: np.ndarray, first: np.ndarray, done: np.ndarray) -> None:
    """Limit the end of each instruction to that of its layer. first, done  first instruction and end of ended
    layers"""
    order = np.argsort(first, kind="stable")
    first, done = first[order], done[order]
    layer = np.searchsorted(first, np.arange(len(end)), side="right") - 1
    is_ended = (layer >= 0) & (end >= 0)
    end[is_ended] = np.minimum(end[is_ended], done[layer[is_ended]])
