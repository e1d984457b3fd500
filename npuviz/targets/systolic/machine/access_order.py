"""What loads, stores and Host calls touch in DRAM, for comparing the order of accesses of two runs.

Entries are instructions. A load reads from its start on, a store has written at its end.
"""

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.access_order import ACCESS_COLUMNS, READS, WRITES, AccessTable
from npuviz.targets.systolic.isa import UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables
from npuviz.trace.reader import TraceReader

_LOADS, _STORES = UNIT_KINDS.index("LD"), UNIT_KINDS.index("ST")
_ON_CHIP = "scratchpad and accumulator: the machine itself makes instructions wait for their operands"


def access_table(tables: SystolicTables, program: Program, memory: int) -> AccessTable:
    """The DRAM ranges of all instructions. memory  id of DRAM"""
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
        needs_trace=True, has_values=tables.values is not None,
    )  # fmt: skip


def _moves(tables: SystolicTables, memory: int) -> tuple[np.ndarray, np.ndarray]:
    """Instruction numbers of loads and stores, and a row for each."""
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
    span = (row[:, tk.CODE.n0] - 1) * row[:, tk.CODE.s0] + (row[:, tk.CODE.n1] - 1) * row[:, tk.CODE.s1]
    made = np.zeros((len(tile), ACCESS_COLUMNS), np.int64)
    made[:, 0], made[:, 1], made[:, 3] = memory, kind == _STORES, 1
    made[:, 4], made[:, 5] = low, low + span + row[:, tk.CODE.len]
    return tiles[tile, tk.TILE.first] + within, made


def _host_rows(program: Program, node: int, memory: int) -> list[tuple[int, ...]]:
    """Rows of a Host call: all bytes of its inputs and outputs in DRAM."""
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
    """Reads at the start and writes at the end of what is recorded; ends come before starts of a cycle."""
    count = len(table.first) - 1
    begin, end = np.full(count, 1 << 62, np.int64), np.full(count, -1, np.int64)
    waits = [kind.id for kind in trace.schema.kinds if kind.role.startswith("wait-")]
    for track in trace.schema.tracks:
        if track.kind != "interval":
            continue
        columns = trace.interval_columns(track.id)
        kept = (columns.instruction >= 0) & (columns.instruction < count) & ~np.isin(columns.kind, waits)
        number = columns.instruction[kept]
        np.minimum.at(begin, number, columns.start[kept])
        np.maximum.at(end, number, columns.end[kept])
    entry_of = np.repeat(np.arange(count), np.diff(table.first))
    parts: list[np.ndarray] = []
    for phase, is_write, cycles in ((WRITES, 1, end), (READS, 0, begin)):
        mine = np.unique(entry_of[table.rows[:, 1] == is_write])
        mine = mine[end[mine] >= 0]
        parts.append(np.stack([mine, np.full(len(mine), phase), cycles[mine]], axis=1))
    found = np.concatenate(parts).astype(np.int64)
    return found[np.argsort(found[:, 2], kind="stable")]
