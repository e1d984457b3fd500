"""Apply the two tables (LE, LO) of the DPU: how words fill them, and how they map values.

Ref: NVDLA (two tables, hits, priorities, interpolation, slopes outside), TRM (fields), ALLB (513 entries per
table, index select 5 over 16384). Exponential indices and the expanded table are not computed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.task.work import signed
from npuviz.targets.rk3588.values.memory import ValueFault
from npuviz.targets.rk3588.values.rounding import rounded

ENTRIES = 513
"""Entries that indices reach (ALLB). An address has 10 bits, so more can be written."""

_WRITTEN = 1024
_ACCESS, _DATA = 0x4100, 0x4104
_DPU_TARGET = 0x1001
_FLOAT_BORDER = 1 << 24

Tables = np.ndarray
"""int16 (2, 1024): LE, LO."""


def tables_by_task(tasks: Sequence[Task]) -> dict[int, np.ndarray]:
    """Return task index -> the tables while it runs, for tasks after the first write to the tables.

    Every core has its own tables; they keep what was written (Assumed: no ping-pong group has its own).
    """
    held: dict[int, np.ndarray] = {}
    found: dict[int, np.ndarray] = {}
    places: dict[int, tuple[int, int]] = {}
    for task in tasks:
        offsets = task.words & np.uint64(0xFFFF)
        of_dpu = task.words >> np.uint64(48) == _DPU_TARGET
        hits = np.flatnonzero(((offsets == _ACCESS) | (offsets == _DATA)) & of_dpu)
        # Full streams of the open generators write one 0 into each table; that does not fill it.
        if np.count_nonzero(offsets[hits] == _DATA) > 1:
            table = held.get(task.core, np.zeros((2, _WRITTEN), np.int16)).copy()
            number, index = places.get(task.core, (0, 0))
            for word in task.words[hits].tolist():
                value = word >> 16 & 0xFFFFFFFF
                if word & 0xFFFF == _ACCESS:
                    number, index = value >> 16 & 1, value & 0x3FF
                else:
                    table[number, index] = signed(value & 0xFFFF, 16)
                    index = (index + 1) % _WRITTEN
            places[task.core] = number, index
            held[task.core] = table
        if task.core in held:
            found[task.index] = held[task.core]
    return found


@dataclass(frozen=True, slots=True)
class _Half:
    """One table: limits and slopes as registers give them. select: bits of a value between entries."""

    entries: np.ndarray
    start: float
    end: float
    select: int
    under: tuple[int, int]
    over: tuple[int, int]


def look_up(values: np.ndarray, table: np.ndarray | None, registers: Mapping[int, int]) -> np.ndarray:
    """Map values by the tables: float64 integers to rounded integers, float32 without rounding.

    Raises ValueFault when no task wrote the tables.
    """
    if table is None:
        raise ValueFault("EW looks values up in a table that no task of this core has written")
    config = registers.get(0x4108, 0)
    if config & 2:
        raise ValueFault("LUT_CFG joins both tables to one (expand): its values are not computed")
    info = registers.get(0x410C, 0)
    halves = (
        _half(table[0], registers, 0x4110, signed(info >> 8 & 0xFF, 8)),
        _half(table[1], registers, 0x4118, signed(info >> 16 & 0xFF, 8)),
    )
    x = values.astype(np.float64)
    under = [x < half.start for half in halves]
    over = [x > half.end for half in halves]
    hit = [~(low | high) for low, high in zip(under, over, strict=True)]
    use_lo = np.where(hit[0] == hit[1], bool(config & 0x40), hit[1])
    use_lo = np.where(under[0] & under[1], bool(config & 0x10), use_lo)
    use_lo = np.where(over[0] & over[1], bool(config & 0x20), use_lo)
    is_whole = values.dtype == np.float64
    found = np.where(use_lo, _of_half(x, halves[1], is_whole), _of_half(x, halves[0], is_whole))
    return found.astype(values.dtype)


def _half(entries: np.ndarray, registers: Mapping[int, int], limits: int, select: int) -> _Half:
    scales, shifts = (
        registers.get(0x4120 + (limits - 0x4110), 0),
        registers.get(0x4124 + (limits - 0x4110), 0),
    )
    return _Half(
        entries[:ENTRIES].astype(np.float64),
        _limit(registers.get(limits, 0)),
        _limit(registers.get(limits + 4, 0)),
        select,
        (signed(scales & 0xFFFF, 16), signed(shifts & 0x1F, 5)),
        (signed(scales >> 16 & 0xFFFF, 16), signed(shifts >> 5 & 0x1F, 5)),
    )


def _limit(value: int) -> float:
    """Return a limit: an integer, or bits of fp32 if it is too large for one.

    Both occur in streams of ALLB for fp16 (0xFFFFC000, 0x44000000); the border is Assumed.
    """
    whole = signed(value, 32)
    if abs(whole) <= _FLOAT_BORDER:
        return whole
    return float(np.array([value], np.uint32).view(np.float32)[0])


def _of_half(x: np.ndarray, half: _Half, is_whole: bool) -> np.ndarray:
    steps = np.nan_to_num(np.ldexp(x - half.start, -half.select), nan=0.0)
    place = np.clip(steps, 0, ENTRIES - 1)
    index = np.minimum(np.floor(place).astype(np.int64), ENTRIES - 2)
    fraction = place - index
    low, high = half.entries[index], half.entries[index + 1]
    made = low + (high - low) * fraction
    first, last = half.entries[0], half.entries[_last_index(half)]
    for outside, edge, at, (scale, shift) in (
        (x < half.start, first, half.start, half.under),
        (x > half.end, last, half.end, half.over),
    ):
        made = np.where(outside, edge + np.ldexp((x - at) * scale, -shift), made)
    if is_whole:
        return np.clip(np.nan_to_num(rounded(made, True), nan=0.0), -32768, 32767)
    return np.where(np.isnan(x), x, made)


def _last_index(half: _Half) -> int:
    """Return the entry at the upper limit."""
    place = np.nan_to_num(np.ldexp(half.end - half.start, -half.select), nan=0.0)
    return int(np.clip(np.floor(place), 0, ENTRIES - 1))
