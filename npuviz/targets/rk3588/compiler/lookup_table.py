"""Turn activations into the two tables of the DPU: entries, limits and slopes of one function.

LE holds the lower half of a domain and LO the upper half, 513 entries each (Ref: ALLB; two tables with hits
and slopes outside, NVDLA). A task fills them once for its core; they stay for later tasks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npuviz.formats.rk3588.registers import Word
from npuviz.targets.rk3588.compiler.dpu import Requantisation, dpu_word, requantisation
from npuviz.targets.rk3588.compiler.quantisation import Quantisation

Function = Callable[[np.ndarray], np.ndarray]
"""A function that takes and returns float64 arrays."""

INTERVALS = 512
"""Intervals of one table, which has one entry more."""
SELECT = 5
"""Bits of an integer between two entries. Ref: ALLB: 5 over 16384 values."""
SPAN = 2 * INTERVALS << SELECT
"""Integers that both tables cover together."""
LARGEST = 32000
"""Largest entry: some room is left below 2^15 for slopes outside."""
_ENTRY_OFFSETS = frozenset(dpu_word(name).offset for name in ("LUT_ACCESS_CFG", "LUT_ACCESS_DATA"))
INPUT_FACTOR = 128
"""Table units of one step of int8: 255 steps are a little less than the whole table."""


@dataclass(frozen=True)
class ActivationTable:
    """Words and numbers of one function.

    fill  words that write both tables, limits and slopes; they may stand anywhere in a stream
    unit  real value of 1 at the table's input: the accumulator must be brought to it (1.0: floats)
    bias_constant, main_factor  of BS, for a table task that reads int8 (0 and 0 otherwise)
    out   of OUT_CVT; minus_exponent  of OUT_CVT_SHIFT, for floats
    """

    fill: tuple[Word, ...]
    unit: float
    out: Requantisation
    minus_exponent: int = 0
    bias_constant: int = 0
    main_factor: int = 0

    @cached_property
    def limits(self) -> tuple[Word, ...]:
        """Words of `fill` that write no entries: those that a task needs if its core has the entries
        already."""
        return tuple(word for word in self.fill if word.offset not in _ENTRY_OFFSETS)

    @cached_property
    def written(self) -> frozenset[tuple[int, int]]:
        """(target, offset) of the registers that `fill` writes."""
        return frozenset((word.target, word.offset) for word in self.fill)

    def switch_words(self, *, to_half: bool) -> tuple[Word, ...]:
        """Return the words for EW to only look up, and for the output convert; they follow the words of the
        stages."""
        return (
            dpu_word("EW_CFG", relu_bypass=1, convert_bypass=1, lut_bypass=0, op_bypass=1),
            dpu_word("OUT_CVT_OFFSET", offset=self.out.offset),
            dpu_word("OUT_CVT_SCALE", fp32_to_fp16=int(to_half), scale=self.out.scale),
            dpu_word("OUT_CVT_SHIFT", minus_exponent=self.minus_exponent, shift=self.out.shift),
        )


def stand_alone_table(function: Function, source: Quantisation, target: Quantisation) -> ActivationTable:
    """Return the table of a task that reads an int8 cube: it covers all 256 inputs, each of them an entry."""
    low = (-128 - source.zero_point) * INPUT_FACTOR
    unit = source.scale / INPUT_FACTOR
    points = (low + np.arange(2 * INTERVALS + 1) * (1 << SELECT)) * unit
    # Values that the output cannot hold need no precise entries.
    reach = [(limit - target.zero_point) * target.scale for limit in (-130, 129)]
    values = np.clip(function(points), reach[0], reach[1])
    # Slopes outside saturate at the largest entry, which must reach what the output can hold there.
    outer = np.array([2 * points[0] - points[-1], 2 * points[-1] - points[0]])
    widest = np.clip(function(outer), reach[0], reach[1])
    peak = max(float(np.abs(values).max()), float(np.abs(widest).max()), target.scale)
    step = peak / LARGEST
    slopes = [slope * unit / step for slope in _outer_slopes(function, points[0], points[-1])]
    limits = (low, low + SPAN // 2, low + SPAN)
    fill = _fill(values / step, limits, SELECT, slopes)
    out = requantisation(step / target.scale, target.zero_point)
    return ActivationTable(fill, unit, out, bias_constant=-source.zero_point, main_factor=INPUT_FACTOR)


def half_table(function: Function, low: int, high: int) -> ActivationTable:
    """Return the table of the fp16 pipeline; `high - low` is a power of two, at least 2.

    Raises ValueError otherwise. The factors of BS and BN are 1: the table takes real values.
    """
    width = high - low
    if width < 2 or width & (width - 1):
        raise ValueError(f"a table from {low} to {high}: the width must be a power of two")
    select = width.bit_length() - 1 - (2 * INTERVALS).bit_length() + 1
    points = low + np.arange(2 * INTERVALS + 1) * 2.0**select
    values = function(points)
    peak = max(float(np.abs(values).max()), 2.0**-16)
    exponent = min(15, int(np.floor(np.log2(LARGEST / peak))))
    slopes = [slope * 2.0**exponent for slope in _far_slopes(function, float(low), float(high))]
    middle = (low + high) // 2
    fill = _fill(values * 2.0**exponent, (low, middle, high), select, slopes)
    minus, shift = max(exponent, 0), max(-exponent, 0)
    return ActivationTable(fill, 1.0, Requantisation(1 << shift, 0, 0), minus)


@dataclass(frozen=True)
class Piece:
    """A function over a domain, as one of the two tables holds it; it is level outside.

    The width of the domain is a power of two, at least 2.
    """

    function: Function
    low: int
    high: int

    @property
    def select(self) -> int:
        """Bits of a value between two entries."""
        width = self.high - self.low
        if width < 2 or width & (width - 1):
            raise ValueError(f"a table from {self.low} to {self.high}: the width must be a power of two")
        return width.bit_length() - INTERVALS.bit_length()

    def entries(self) -> np.ndarray:
        """Return the values of all entries."""
        return self.function(self.low + np.arange(INTERVALS + 1) * 2.0**self.select)


def two_functions(low: Piece, high: Piece) -> ActivationTable:
    """Return the tables of two functions of the fp16 pipeline, LE the lower and LO the higher piece.

    Between the pieces LO's first value counts, which should be LE's last. Raises ValueError for pieces that
    overlap.
    """
    if low.high >= high.low:
        raise ValueError(f"a table to {low.high} and one from {high.low} on overlap")
    entries = [piece.entries() for piece in (low, high)]
    peak = max(float(np.abs(values).max()) for values in entries)
    exponent = min(15, int(np.floor(np.log2(LARGEST / peak))))
    words: list[Word] = []
    for table, values in enumerate(entries):
        words += _entry_words(table, np.rint(values * 2.0**exponent).astype(np.int64))
    fill = (
        *words,
        dpu_word("LUT_CFG", hybrid_priority=1, overflow_priority=1),
        dpu_word("LUT_INFO", lo_index=high.select & 0xFF, le_index=low.select & 0xFF),
        dpu_word("LUT_LE_START", start=low.low & 0xFFFFFFFF),
        dpu_word("LUT_LE_END", end=low.high & 0xFFFFFFFF),
        dpu_word("LUT_LO_START", start=high.low & 0xFFFFFFFF),
        dpu_word("LUT_LO_END", end=high.high & 0xFFFFFFFF),
        *(dpu_word(f"LUT_{name}_SLOPE_SCALE") for name in ("LE", "LO")),
        *(dpu_word(f"LUT_{name}_SLOPE_SHIFT") for name in ("LE", "LO")),
    )
    return ActivationTable(fill, 1.0, Requantisation(1, 0, 0), exponent)


def _entry_words(table: int, values: np.ndarray) -> list[Word]:
    """Return the words that write the entries of one table, from the first on."""
    begin = dpu_word("LUT_ACCESS_CFG", access=1, table=table)
    return [begin, *(dpu_word("LUT_ACCESS_DATA", entry=value & 0xFFFF) for value in values.tolist())]


def _far_slopes(function: Function, low: float, high: float) -> tuple[float, float]:
    """Return the slopes of a function far below and above its domain, where it is nearly straight.

    A function that levels off continues level. Values of fp16 may be much further out than a domain is wide.
    """
    width = high - low
    below = function(np.array([low - 4 * width, low - 3 * width]))
    above = function(np.array([high + 3 * width, high + 4 * width]))
    return float(below[1] - below[0]) / width, float(above[1] - above[0]) / width


def _outer_slopes(function: Function, low: float, high: float) -> tuple[float, float]:
    """Return the slopes of a function below and above its domain, over a distance as wide as the domain."""
    width = high - low
    below, above = function(np.array([low - width, low])), function(np.array([high, high + width]))
    return float(below[1] - below[0]) / width, float(above[1] - above[0]) / width


def _fill(
    entries: np.ndarray, limits: tuple[int, int, int], select: int, slopes: list[float]
) -> tuple[Word, ...]:
    """Return the words that write 2 * INTERVALS + 1 entries into two tables that share the middle one."""
    whole = np.clip(np.rint(entries), -32768, 32767).astype(np.int64)
    words: list[Word] = []
    for table in (0, 1):
        words += _entry_words(table, whole[table * INTERVALS : (table + 1) * INTERVALS + 1])
    low, middle, high = (limit & 0xFFFFFFFF for limit in limits)
    (under, under_shift), (over, over_shift) = (_slope(slope) for slope in slopes)
    return (
        *words,
        # Both tables hit only in the middle, where they agree; outside both, the nearer one continues.
        dpu_word("LUT_CFG", hybrid_priority=1, overflow_priority=1),
        dpu_word("LUT_INFO", lo_index=select & 0xFF, le_index=select & 0xFF),
        dpu_word("LUT_LE_START", start=low),
        dpu_word("LUT_LE_END", end=middle),
        dpu_word("LUT_LO_START", start=middle),
        dpu_word("LUT_LO_END", end=high),
        dpu_word("LUT_LE_SLOPE_SCALE", underflow=under),
        dpu_word("LUT_LE_SLOPE_SHIFT", underflow=under_shift),
        dpu_word("LUT_LO_SLOPE_SCALE", overflow=over),
        dpu_word("LUT_LO_SLOPE_SHIFT", overflow=over_shift),
    )


def _slope(slope: float) -> tuple[int, int]:
    """Return (scale of 16 bits, shift of 5 bits signed) of a slope: scale * 2^-shift."""
    if abs(slope) < 2.0**-16:
        return 0, 0
    shift = min(15, max(-16, 14 - int(np.floor(np.log2(abs(slope))))))
    return int(np.clip(round(slope * 2.0**shift), -32768, 32767)), shift
