"""Lower GridSample at places known only at run time: GpSimd's descriptors gather rows, Vector weights them.

Each partition is one place of the result; a tile has several columns of them, of all pictures, so that rows
and weights of many are computed at once. Pictures are stored in HBM with channels last, so that one gathered
row holds all channels of a pixel.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement import arguments
from npuviz.targets.neuroncore.compiler.operators.movement.indices import EXACT_FLOAT
from npuviz.targets.neuroncore.compiler.operators.sampling.resize import FLOATS
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}
MAX_CHANNELS = 4096
MAX_BLOCKS = 8192
"""Most blocks of 128 places; each takes two instructions for every neighbour."""
MAX_COLUMNS, MAX_ROWS = 64, 1024
"""Most columns of a tile, and rows of a partition: each takes 4 bytes for about ten intermediate values."""
_NEIGHBOURS = {"nearest": 1, "linear": 2, "cubic": 4}
"""Along one axis, by mode."""
_CUBIC = -0.75
"""Coefficient of the cubic. Ref: ONNX GridSample."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the picture: size, rows between neighbours, and the sampling modes."""

    size: int
    step: int
    mode: str
    padding: str
    is_aligned: bool

    @property
    def bounds(self) -> tuple[float, float]:
        """Places at which reflection mirrors: (low, high)."""
        return (0.0, self.size - 1.0) if self.is_aligned else (-0.5, self.size - 0.5)


@dataclass(frozen=True, slots=True)
class _Tap:
    """A neighbour along one axis, (P, columns) float32 each: its index within the axis, its weight."""

    index: View
    weight: View | None


def lower_grid_sample(b: Builder, node: Node) -> None:
    """Lower GridSample of pictures and volumes in all modes and paddings."""
    to, of, grid = arguments.target(b, node), arguments.source(b, node, 0), arguments.source(b, node, 1)
    mode, padding = arguments.text(node, "mode", "linear"), arguments.text(node, "padding_mode", "zeros")
    if mode not in MODES or padding not in ("zeros", "border", "reflection"):
        raise CannotLower(f"the mode {mode} with padding {padding}")
    if of.dtype not in FLOATS or grid.dtype not in FLOATS:
        raise CannotLower(f"a weighted sum of {of.dtype}")
    batch, channels, *sizes = of.shape
    places = to.num_elements // channels if to.num_elements else 0
    rows = of.num_elements // channels
    if channels > MAX_CHANNELS or rows >= EXACT_FLOAT or -(-places // NUM_PARTITIONS) > MAX_BLOCKS:
        raise CannotLower(f"{places} places of {channels} channels")
    pixels = b.hbm.scratch((batch, *sizes, channels), of.dtype)
    arguments.copy(b, pixels, of.permute(0, *range(2, len(of.shape)), 1))
    axes: list[_Axis] = []
    step = 1
    for size in reversed(sizes):
        axes.append(_Axis(size, step, MODES[mode], padding, bool(arguments.integer(node, "align_corners"))))
        step *= size
    flat = grid.reshape(places, len(sizes))
    starts = np.repeat(np.arange(batch, dtype=np.float32) * step, places // batch)[:, None]
    first = b.hbm.constant(starts, "first rows of pictures") if batch > 1 else None
    last = to if channels == 1 else b.hbm.scratch((batch, *to.shape[2:], channels), "float32")
    results = last.reshape(places, channels)
    at = 0
    for count, columns in _tiles(places, channels, _NEIGHBOURS[MODES[mode]] ** len(sizes)):
        part = slice(at, at := at + count * columns)
        with b.tiles.scope():
            given = b.dma.fetch(flat[part].reshape(count, columns, len(sizes)))
            begins = b.dma.fetch(first[part].reshape(count, columns)) if first is not None else None
            made = _sample(b, pixels.reshape(rows, channels), given, axes, begins)
            b.dma.store(results[part].reshape(count, columns, channels), made)
    if channels > 1:
        arguments.copy(b, to, last.permute(0, len(to.shape) - 1, *range(1, len(to.shape) - 1)))


def _tiles(places: int, channels: int, neighbours: int) -> Iterator[tuple[int, int]]:
    """Divide places, one after the other, into tiles: (partitions, columns) of each."""
    most = max(1, min(MAX_COLUMNS, MAX_CHANNELS // channels, MAX_ROWS // neighbours))
    while places:
        count = min(places, NUM_PARTITIONS)
        columns = min(most, places // count)
        yield count, columns
        places -= count * columns


def _sample(b: Builder, rows: HbmView, given: View, axes: list[_Axis], first: View | None) -> View:
    """Sample pictures at places (P, columns, axes): (P, columns, channels) float32.

    first  row of each place's picture, (P, columns); None for 0
    """
    count, (columns, channels) = given.partitions, (given.shape[0], rows.shape[1])
    taps = [_taps(b, axis, given[:, :, at]) for at, axis in enumerate(axes)]
    chosen = [
        (_row(b, axes, each, first), _product(b, [tap.weight for tap in each if tap.weight is not None]))
        for each in product(*taps)
    ]
    total = b.tiles.sbuf(count, (columns, channels), "float32")
    for column in range(columns):
        made = total[:, column]
        for number, (index, weight) in enumerate(chosen):
            with b.tiles.scope():
                row = b.tiles.sbuf(count, (channels,), rows.dtype)
                b.dma.gather(row, rows, index[:, column : column + 1])
                share = None if weight is None else weight[:, column : column + 1]
                if share is None:
                    b.isa.copy(made, row)
                elif number == 0:
                    b.isa.tensor_scalar(made, row, Alu.MULTIPLY, share)
                else:
                    b.isa.scalar_tensor_tensor(made, row, Alu.MULTIPLY, share, Alu.ADD, made)
    return total


def _taps(b: Builder, axis: _Axis, given: View) -> list[_Tap]:
    """Compute the neighbours along an axis; given: places from -1 to 1."""
    place, base = _like(b, given), _like(b, given)
    half = axis.size / 2
    if axis.is_aligned:
        b.isa.tensor_scalar(place, given, Alu.ADD, 1.0, Alu.MULTIPLY, (axis.size - 1) / 2)
    else:
        # ((g + 1) * size - 1) / 2
        b.isa.tensor_scalar(place, given, Alu.MULTIPLY, half, Alu.ADD, half - 0.5)
    if axis.mode == "nearest":
        place = _rounded(b, place)
    if axis.padding == "border" and axis.mode != "cubic":
        # A cubic keeps its place, and its neighbours are moved inside, as in ONNX Runtime.
        b.isa.tensor_scalar(base, place, Alu.MAXIMUM, 0.0, Alu.MINIMUM, axis.size - 1.0)
        place, base = base, _like(b, given)
    elif axis.padding == "reflection":
        place = _reflected(b, axis, place)
    if axis.mode == "nearest":
        # Reflection may have moved the place by half a pixel.
        return [_tap(b, axis, _rounded(b, place), None)]
    down, over = _rounded(b, place), _like(b, given)
    b.isa.tensor_tensor(over, down, place, Alu.GREATER)
    b.isa.tensor_tensor(base, down, over, Alu.SUBTRACT)
    part = _like(b, given)
    b.isa.tensor_tensor(part, place, base, Alu.SUBTRACT)
    shifts = range(2) if axis.mode == "linear" else range(-1, 3)
    return [_tap(b, axis, _shifted(b, base, shift), _weight(b, axis.mode, part, shift)) for shift in shifts]


def _weight(b: Builder, mode: str, part: View, shift: int) -> View:
    """Compute the weight of a neighbour: `shift` pixels after the pixel that is `part` before the place."""
    made, distance = _like(b, part), _like(b, part)
    # |part - shift|: the neighbours before the place are shifts 0 and -1.
    sign = 1.0 if shift <= 0 else -1.0
    b.isa.tensor_scalar(distance, part, Alu.SUBTRACT, float(shift), Alu.MULTIPLY, sign)
    if mode == "linear":
        b.isa.tensor_scalar(made, distance, Alu.MULTIPLY, -1.0, Alu.ADD, 1.0)
        return made
    factors = (_CUBIC + 2, -(_CUBIC + 3), 0.0, 1.0)
    if shift in (-1, 2):
        factors = (_CUBIC, -5 * _CUBIC, 8 * _CUBIC, -4 * _CUBIC)
    b.isa.tensor_scalar(made, distance, Alu.MULTIPLY, factors[0], Alu.ADD, factors[1])
    for factor in factors[2:]:
        following = _like(b, part)
        b.isa.tensor_tensor(following, made, distance, Alu.MULTIPLY)
        made = _like(b, part)
        b.isa.tensor_scalar(made, following, Alu.ADD, factor)
    return made


def _tap(b: Builder, axis: _Axis, index: View, weight: View | None) -> _Tap:
    """Make a neighbour whose index may lie outside: move it inside by the padding mode, or give it weight
    0.
    """
    if axis.padding == "reflection":
        index = _reflected(b, axis, index)
    inside = _like(b, index)
    b.isa.tensor_scalar(inside, index, Alu.MAXIMUM, 0.0, Alu.MINIMUM, axis.size - 1.0)
    if axis.padding != "zeros":
        return _Tap(inside, weight)
    same = _like(b, index)
    b.isa.tensor_tensor(same, inside, index, Alu.EQUAL)
    if weight is None:
        return _Tap(inside, same)
    counted = _like(b, index)
    b.isa.tensor_tensor(counted, same, weight, Alu.MULTIPLY)
    return _Tap(inside, counted)


def _reflected(b: Builder, axis: _Axis, place: View) -> View:
    """Reflect places at the bounds as often as necessary: a triangle wave."""
    low, high = axis.bounds
    if high <= low:
        made = _like(b, place)
        b.isa.memset(made, 0.0)
        return made
    length = high - low
    shifted, turned, wave, back, made = (_like(b, place) for _ in range(5))
    b.isa.tensor_scalar(shifted, place, Alu.SUBTRACT, low, Alu.MOD, 2 * length)
    b.isa.tensor_scalar(turned, shifted, Alu.SUBTRACT, length)
    b.isa.tensor_scalar(back, turned, Alu.MULTIPLY, -1.0)
    b.isa.tensor_tensor(wave, turned, back, Alu.MINIMUM)
    # wave = -|shifted - length|
    b.isa.tensor_scalar(made, wave, Alu.ADD, length + low)
    return made


def _row(b: Builder, axes: list[_Axis], taps: tuple[_Tap, ...], first: View | None) -> View:
    """Compute the row numbers of pixels, (P, columns) int32. first  row of each place's picture, if not 0"""
    total = first
    for axis, tap in zip(axes, taps, strict=True):
        scaled = _like(b, tap.index)
        b.isa.tensor_scalar(scaled, tap.index, Alu.MULTIPLY, float(axis.step))
        if total is not None:
            added = _like(b, tap.index)
            b.isa.tensor_tensor(added, total, scaled, Alu.ADD)
            scaled = added
        total = scaled
    assert total is not None
    made = b.tiles.sbuf(total.partitions, total.shape, "int32")
    b.isa.copy(made, total)
    return made


def _product(b: Builder, weights: list[View]) -> View | None:
    total: View | None = None
    for weight in weights:
        if total is None:
            total = weight
        else:
            made = _like(b, weight)
            b.isa.tensor_tensor(made, total, weight, Alu.MULTIPLY)
            total = made
    return total


def _rounded(b: Builder, place: View) -> View:
    """Round half to even, as float32, by a conversion to int32 and back."""
    whole, made = b.tiles.sbuf(place.partitions, place.shape, "int32"), _like(b, place)
    b.isa.copy(whole, place)
    b.isa.copy(made, whole)
    return made


def _shifted(b: Builder, base: View, shift: int) -> View:
    if shift == 0:
        return base
    made = _like(b, base)
    b.isa.tensor_scalar(made, base, Alu.ADD, float(shift))
    return made


def _like(b: Builder, given: View) -> View:
    return b.tiles.sbuf(given.partitions, given.shape, "float32")


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {"GridSample": lower_grid_sample}
