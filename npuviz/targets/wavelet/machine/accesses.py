"""Turn the rows that kernels record of reads and writes during part of a run into a table with names for
people."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.program.instruction import Instruction
from npuviz.sim.access_order import READS, WRITES, AccessTable, RecordedAccesses
from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import stop_table
from npuviz.targets.wavelet.kernels import isa, taps
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.view.observe import Observer
from npuviz.targets.wavelet.wafer import Symbol

MOST_ROWS = 1 << 24
"""Most rows that are kept of one part of a run: 512 MB."""
ROWS_OF_NODE = 64
"""Most rows that a PE may record in a cycle."""
LEFT_OUT = ("what addresses, branches and activations depend on",)

NODES, REGISTERS, WORDS, CELLS, HOST = 1 << 24, 1 << 25, (1 << 25) + 1, (1 << 25) + 2, (1 << 25) + 3
"""Numbers of memories that the machine description lacks: those of nodes that are not watched (NODES + node),
registers, words under way, cells of threads, and data of the host."""
HOST_WORD = 1 << 62
"""Bit in the identity of a word that the host sent; the rest is its place in the host's data."""
HOST_HALF = 1 << 60
"""The same bit in the address of a half of a word, which is twice the word's identity plus 0 or 1."""

# Registers that an instruction reads and writes for its value: columns of the code, by operation.
_READS_B = (*range(isa.OP_ADD, isa.OP_GE + 1), isa.OP_MOV, isa.OP_CVT, isa.OP_WRAP, isa.OP_MATH, isa.OP_FILL)
_READS_C = (*range(isa.OP_ADD, isa.OP_MAX + 1), *range(isa.OP_EQ, isa.OP_GE + 1), isa.OP_MATH)
_READS_A = (isa.OP_ST, isa.OP_STX, isa.OP_RET, isa.OP_MAP_WRITE)
_WRITES_A = (
    *range(isa.OP_LI, isa.OP_LD + 1),
    *range(isa.OP_ADD, isa.OP_DSD_MOVE + 1),
    *(isa.OP_LDX, isa.OP_SELECT, isa.OP_MAP_READ, isa.OP_SYS),
)


def _marks(operations: Sequence[int]) -> np.ndarray:
    found = np.zeros(256, np.bool_)
    found[list(operations)] = True
    return found


_REGISTER_COLUMNS = (
    (isa.C_A, _marks(_READS_A), 0),
    (isa.C_B, _marks((*_READS_B, isa.OP_DSD_SET, isa.OP_DSD_MOVE)), 0),
    (isa.C_C, _marks((*_READS_C, isa.OP_DSD_SET)), 0),
    (isa.C_A, _marks(_WRITES_A), 1),
)
"""(column of the code, whether it names a register by operation, 1 if the register is written)."""


def tapped_rows(engine: Engine, until: int) -> np.ndarray:
    """Run from now to a cycle and return its (n, 4) int64 tap rows. Raises TargetError for over MOST_ROWS
    rows."""
    margin = max(1 << 12, ROWS_OF_NODE * min(len(engine.program.nodes.x), 1 << 13))
    buffer = EventBuffer(max(1 << 18, 4 * margin))
    stops = stop_table([(taps.STOP_TAP, 0, 0, 0, 0, 0)])
    usual, engine.event_margin = engine.event_margin, margin
    parts: list[np.ndarray] = []
    count = 0
    try:
        while True:
            result, _ = engine.run(until, stops, buffer, -1)
            rows = buffer.take()
            parts.append(rows[(rows[:, 0] >> 56) == taps.TAP])
            count += len(parts[-1])
            if count > MOST_ROWS:
                raise TargetError(
                    f"the run touches more than {MOST_ROWS} things: it is too large to follow who made what"
                )
            if result != sk.RESULT_EVENTS:
                return np.concatenate(parts)
    finally:
        engine.event_margin = usual


class Source(NamedTuple):
    """The machine parts whose run is recorded."""

    engine: Engine
    observer: Observer
    listing: WaveletListing


class WaferNames:
    """Names of what part of a run touched; see AccessNames.

    memories  node -> number of its memory in the description
    works     (n, 4) rows of the pieces of work, by entry
    begin     cycle at which the recorded part of the run begins
    """

    def __init__(self, source: Source, memories: dict[int, int], works: np.ndarray, begin: int) -> None:
        self._engine, self._observer, self._listing = source
        self._works, self._begin = works, begin
        self._node_of = {memory: node for node, memory in memories.items()}
        self._data_places = self._engine.data_places()

    # ---- AccessNames

    def work(self, entry: int) -> tuple[Instruction, str]:
        """Return the instruction of an entry and the name of its PE; for a transfer of the host, its command
        and "host"."""
        first, _, place, line = self._works[entry].tolist()
        what, node = (first >> 48) & 0xFF, first & 0xFFFFFF
        if what in (taps.WORK_HOST_IN, taps.WORK_HOST_OUT):
            text = self._command_text(place)
            return Instruction(-1, -1, "host", text), "host"
        if not 0 <= line < len(self._listing):
            return Instruction(-1, -1, "task", "the begin of a task"), self._pe(node)
        found = self._listing.describe(line)
        if what == taps.WORK_TASK:
            found = replace(found, text=f"{self._listing.functions[found.node][1].name} begins")
        return found, self._pe(node)

    def place(self, memory: int, low: int, high: int) -> str:
        """Name the variable or the bytes of a PE at an address, or a word by its sender; "" for registers and
        cells."""
        if memory == WORDS:
            return self._word_text(low)
        if memory in (REGISTERS, CELLS, HOST):
            return ""
        node = self._node(memory)
        symbol = self._symbol(node, low)
        if symbol is None:
            return f"{self._pe(node)}.memory {low:#x}..{high - 1:#x}"
        return f"{self._pe(node)} {symbol.name}+{low - symbol.address}"

    def beginning(self, memory: int, address: int) -> str:
        """Say where a value that nothing in this part of the run wrote comes from: the host, or an earlier
        content."""
        if memory == HOST or (memory == WORDS and address & HOST_HALF):
            place = address if memory == HOST else (address & ~HOST_HALF) >> 1
            return self._command_text(bisect_right(self._data_places, place) - 1)
        if memory in (REGISTERS, CELLS):
            return "" if self._begin == 0 else f"a register, before cycle {self._begin}"
        if memory == WORDS:
            return f"{self._word_text(address)} before cycle {self._begin}"
        node = self._node(memory)
        symbol = self._symbol(node, address)
        name = f"variable {symbol.name}" if symbol is not None else f"{address:#x}, which no variable has"
        when = "as it was compiled" if self._begin == 0 else f"as it was at cycle {self._begin}"
        return f"{name} of {self._pe(node)}, {when}"

    def output(self, entry: int) -> str:
        """Return the name of what the host takes from the wafer with its command; "" if the entry is no such
        transfer."""
        first, _, place, _ = self._works[entry].tolist()
        if (first >> 48) & 0xFF != taps.WORK_HOST_OUT:
            return ""
        return f"{self._engine.commands[place].subject} (host command {place})"

    # ---- inside

    def _command_text(self, index: int) -> str:
        return f"host command {index}: {self._observer.command_text(index)}"

    def _word_text(self, address: int) -> str:
        if address & HOST_HALF:
            return "a word of the host"
        identity = address >> 1
        return f"word {identity & 0xFFFFFFFF} of {self._pe(identity >> 32)}"

    def _pe(self, node: int) -> str:
        nodes = self._engine.program.nodes
        return f"PE({int(nodes.x[node])},{int(nodes.y[node])})"

    def _node(self, memory: int) -> int:
        return memory - NODES if memory >= NODES else self._node_of[memory]

    def _symbol(self, node: int, address: int) -> Symbol | None:
        number = self._observer.program_of(node)
        symbols = self._engine.wafer.programs[number].symbols if number >= 0 else ()
        holds = [s for s in symbols if s.address <= address < s.address + s.size_bytes]
        return min(holds, key=lambda s: s.size_bytes, default=None)


def accesses_of(source: Source, memories: dict[int, int], span: tuple[int, int]) -> RecordedAccesses:
    """Run from now to the end of a span of cycles, and return what was read and written.

    memories  node -> number of its memory in the description
    """
    rows = tapped_rows(source.engine, span[1])
    what = (rows[:, 0] >> 48) & 0xFF
    is_work = what < taps.NUM_WORKS
    works, owner = rows[is_work], np.cumsum(is_work) - 1
    touched, owners = _touched(rows[~is_work], what[~is_work], owner[~is_work], memories)
    named, of_named = _named(works, source.listing.code)
    touched, owners = np.concatenate([touched, named]), np.concatenate([owners, of_named])
    by_owner = np.argsort(owners, kind="stable")
    touched, owners = touched[by_owner], owners[by_owner]
    first = np.searchsorted(owners, np.arange(len(works) + 1))
    table = AccessTable(
        first.astype(np.int64),
        touched,
        works[:, 3].copy(),
        left_out=LEFT_OUT,
        names=WaferNames(source, memories, works, span[0]),
    )
    order = np.empty((len(works), 3), np.int64)
    order[:, 0], order[:, 1], order[:, 2] = np.arange(len(works)), READS | WRITES, works[:, 1]
    place_of_tap = np.empty(len(by_owner), np.int64)
    place_of_tap[by_owner] = np.arange(len(by_owner))
    taps_ = rows[~is_work], what[~is_work], owner[~is_work]
    return RecordedAccesses(
        table,
        order,
        *span,
        reads=_reads(works, taps_, place_of_tap),
        turns=_turns(works, taps_, place_of_tap),
        leaves=_leaves(source, works, taps_, touched[place_of_tap[: len(taps_[2])]]),
        timed=_timed(works, source.listing.code),
    )


Taps = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(tap rows, kind of each tap, index of the work that each belongs to)."""


def _reads(works: np.ndarray, taps_: Taps, place_of_tap: np.ndarray) -> np.ndarray:
    """Return the reads of words and memory whose values are known, as rows of (work, key, place, value).

    Reads with the same key have the same PE, the same instruction and the same number among its reads.
    """
    rows, what, owner = taps_
    mine = np.flatnonzero((what == taps.READ_WORD) | (what == taps.READ_MEMORY))
    work = works[owner[mine]]
    is_host = np.isin((work[:, 0] >> 48) & 0xFF, (taps.WORK_HOST_IN, taps.WORK_HOST_OUT))
    mine, work = mine[~is_host], work[~is_host]
    of = owner[mine]
    begins = np.r_[True, of[1:] != of[:-1]] if len(of) else np.zeros(0, np.bool_)
    number = np.arange(len(of)) - np.maximum.accumulate(np.where(begins, np.arange(len(of)), 0))
    same = ((work[:, 0] & 0xFFFFFF) << 36) | ((work[:, 3] & 0xFFFFFFF) << 8) | ((work[:, 0] >> 48) & 7) << 4
    value = (rows[mine, 3] >> taps.VALUE_SHIFT) & 0xFFFFFFFF
    return np.column_stack([of, same | np.minimum(number, 15), place_of_tap[mine], value])


def _turns(works: np.ndarray, taps_: Taps, place_of_tap: np.ndarray) -> np.ndarray:
    """Return the words that start tasks, as rows of (work, PE, place, task and value): a PE takes them in
    turn."""
    rows, what, owner = taps_
    is_task = ((works[owner, 0] >> 48) & 0xFF) == taps.WORK_TASK
    mine = np.flatnonzero((what == taps.READ_WORD) & is_task)
    work = works[owner[mine]]
    value = (rows[mine, 3] >> taps.VALUE_SHIFT) & 0xFFFFFFFF
    taken = (work[:, 3] << 32) | value
    return np.column_stack([owner[mine], work[:, 0] & 0xFFFFFF, place_of_tap[mine], taken])


def _leaves(source: Source, works: np.ndarray, taps_: Taps, touched: np.ndarray) -> np.ndarray:
    """Return what the host takes, as rows of (work, command, number of the PE in its region, memory, address,
    size)."""
    _, _, owner = taps_
    work = works[owner]
    mine = np.flatnonzero(((work[:, 0] >> 48) & 0xFF) == taps.WORK_HOST_OUT)
    nodes, commands = source.engine.program.nodes, source.engine.commands
    found = np.zeros((len(mine), 6), np.int64)
    for row, at in enumerate(mine.tolist()):
        node, command = int(work[at, 0]) & 0xFFFFFF, int(work[at, 2])
        x, y, width, _ = commands[command].region
        part = (int(nodes.y[node]) - y) * width + int(nodes.x[node]) - x
        size = 2 if commands[command].is_16bit else 4
        found[row] = owner[at], command, part, touched[at, 0], touched[at, 4], size
    return found


def _timed(works: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Return the indices of works that read a timer or a counter of cycles."""
    scalar = np.flatnonzero(((works[:, 0] >> 48) & 0xFF) == taps.WORK_SCALAR)
    rows = code[works[scalar, 3]]
    reads = np.isin(rows[:, isa.C_IMM], (isa.S_TSC_READ, isa.S_PERF_READ)) & (rows[:, isa.C_OP] == isa.OP_SYS)
    return scalar[reads]


def _touched(
    rows: np.ndarray, what: np.ndarray, owner: np.ndarray, memories: dict[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Turn tap rows into rows of the access table, and return them with the work that each belongs to."""
    node = rows[:, 0] & 0xFFFFFF
    most = int(node.max()) + 1 if len(node) else 1
    memory_of = NODES + np.arange(most)
    for place, memory in memories.items():
        if place < most:
            memory_of[place] = memory
    memory = memory_of[node]
    for kinds, number in (
        ((taps.READ_WORD, taps.WRITE_WORD), WORDS),
        ((taps.READ_REGISTER, taps.WRITE_REGISTER), REGISTERS),
        ((taps.READ_CELL, taps.WRITE_CELL), CELLS),
        ((taps.READ_HOST,), HOST),
    ):
        memory[np.isin(what, kinds)] = number
    count = rows[:, 3] & ((1 << taps.VALUE_SHIFT) - 1)
    low, high = rows[:, 2].copy(), rows[:, 2] + count
    words = memory == WORDS
    identity, part = rows[words, 2], count[words]
    low[words] = 2 * (identity & ~HOST_WORD) + (part == taps.HIGH_HALF)
    low[words] |= np.where(identity & HOST_WORD, HOST_HALF, 0)
    high[words] = low[words] + np.where(part == 1, 2, 1)
    writes = (taps.WRITE_MEMORY, taps.WRITE_WORD, taps.WRITE_REGISTER, taps.WRITE_CELL)
    return _made(memory, np.isin(what, writes), low, high), owner


def _named(works: np.ndarray, instructions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return access table rows for the registers that scalar instructions name, with the work that each
    belongs to."""
    scalar = np.flatnonzero(((works[:, 0] >> 48) & 0xFF) == taps.WORK_SCALAR)
    code = instructions[works[scalar, 3]]
    operation, frame = code[:, isa.C_OP], works[scalar, 2]
    parts = [np.zeros((0, 7), np.int64)]
    owners = [np.zeros(0, np.int64)]
    for column, names, is_write in _REGISTER_COLUMNS:
        mine = np.flatnonzero(names[operation] & (code[:, column] >= 0))
        at = frame[mine] + code[mine, column]
        parts.append(_made(np.full(len(mine), REGISTERS), np.full(len(mine), is_write), at, at + 1))
        owners.append(scalar[mine])
    return np.concatenate(parts), np.concatenate(owners)


def _made(memory: np.ndarray, is_write: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return rows of the access table from their columns."""
    rows = np.zeros((len(low), 7), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 3], rows[:, 4], rows[:, 5] = memory, is_write, 1, low, high
    return rows
