"""Which instruction a breakpoint stopped at, on machines whose kernels do not tell."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from npuviz.debug.breakpoint import Breakpoint
from npuviz.debug.condition.expression import Row
from npuviz.sim.access_order import WRITES, AccessTable, HasAccessOrder
from npuviz.sim.machine import Machine
from npuviz.sim.stop import STOP_INSTRUCTION, STOP_MEMORY_READ, STOP_MEMORY_WRITE, StopKind, StopReason


def with_instruction(machine: Machine, breakpoints: Sequence[Breakpoint], reason: StopReason) -> StopReason:
    """Add to a stop the instruction that its breakpoints wait for: under way and the latest of several, or
    the one that wrote or reads what they watch.

    The machine stands at the stop. A stop that names an instruction or a unit already is returned as it is.
    """
    if reason.kind is not StopKind.BREAKPOINT or reason.instruction >= 0 or reason.unit:
        return reason
    hit = [each.condition for each in breakpoints if each.id in reason.breakpoints]
    rows = [row for condition in hit for row in condition.rows]
    rows += [row for condition in hit for trigger in condition.triggers for row, _ in trigger.rows]
    starts = [row for row in rows if row[0] == STOP_INSTRUCTION]
    if starts:
        under_way = [
            (state.since, state.instruction)
            for state in machine.unit_states()
            if any(low <= state.instruction < high for _, _, low, high, *_ in starts)
        ]
        return replace(reason, instruction=max(under_way, default=(0, -1))[1])
    for test in (STOP_MEMORY_WRITE, STOP_MEMORY_READ):
        found = _accessing(machine, [row for row in rows if row[0] == test], test == STOP_MEMORY_WRITE)
        if found >= 0:
            return replace(reason, instruction=found)
    return reason


def _accessing(machine: Machine, rows: Sequence[Row], is_write: bool) -> int:
    """Return the instruction that has just written, or begun to read, bytes of some rows; -1 if none did."""
    if not rows or not isinstance(machine, HasAccessOrder):
        return -1
    table = machine.access_table()
    if table.needs_trace:
        return -1
    watched = np.array([row[1:4] for row in rows], np.int64)
    if is_write:
        order = machine.access_order(None)
        latest = order[(order[:, 2] >= machine.cycle - 1) & (order[:, 1] & WRITES != 0)]
        entries: Iterable[int] = latest[::-1, 0].tolist()
    else:
        begun = {each.instruction for each in machine.unit_states() if each.since >= machine.cycle - 1}
        entries = np.flatnonzero(np.isin(table.instructions, sorted(begun - {-1}))).tolist()
    return next(
        (int(table.instructions[entry]) for entry in entries if _touches(table, entry, watched, is_write)), -1
    )


def _touches(table: AccessTable, entry: int, watched: np.ndarray, is_write: bool) -> bool:
    """Return whether an entry accesses one of the ranges (memory, low, high)."""
    for memory, _, bank, banks, low, high, pitch in table.rows_of(entry, is_write=is_write).tolist():
        begin, end = watched[watched[:, 0] == memory, 1:].T
        at = begin // pitch if pitch else np.zeros_like(begin)
        inside = (bank <= at) & (at < bank + banks) if pitch else np.ones_like(begin, bool)
        if (inside & (begin - at * pitch < high) & (end - at * pitch > low)).any():
            return True
    return False
