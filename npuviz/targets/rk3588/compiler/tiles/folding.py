"""Let one task work on several places of a picture at once where its channels do not fill CORE.

CORE and DPU take as long for few kernels as for a whole group (32 in 8 bits, 16 in fp16; 64 channels if
depthwise), and surfaces may lie any number of atoms apart in memory. So the kernels that would only fill the
group up work on other rows: in a depthwise convolution, surfaces are parts of the picture one below the
other; in a dense one, the second half of the kernels makes the next row, from the same window.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.tensor_layout import DEPTHWISE_GROUP, aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler.partition.share import ALIKE
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape, Tile, cost, tiles
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.work import ATOM_BYTES

MAX_STRIDE = 7
"""Most rows from window to window: 3 bits of CONV_CON3. Ref: XML."""
MAX_TAPS = 31
"""Most taps of a column of a kernel: 5 bits. Ref: XML."""


@dataclass(frozen=True)
class Fold:
    """A part of a convolution as tasks run it.

    shape   its windows
    change  makes its weights of those of the convolution, (K, C, R, S)
    base    makes its base task of that of the convolution
    times   how many rows its kernels make at once
    rows    first of its rows, and the one after the last; None: all
    core    that runs a part of one row
    """

    shape: Shape
    change: Callable[[np.ndarray], np.ndarray]
    base: Callable[[ConvTask], ConvTask]
    times: int = 1
    rows: tuple[int, int] | None = None
    core: int = 0

    def tiles(self, spec: RknnSpec, base: ConvTask) -> list[Tile]:
        """Return its tasks. base  a task of the whole convolution"""
        found = tiles(spec, self.base(base), self.shape, self.rows)
        return [replace(tile, core=self.core) for tile in found] if self.core else found

    def numbers(self, values: np.ndarray, group: int) -> np.ndarray:
        """Return one value for each kernel of the part, of those (K,) of the whole. group  channels of an
        atom"""
        if self.times == 1:
            return values
        filled = np.full(group, values[0])
        filled[: values.size] = values
        return np.tile(filled, self.times)[: group * (self.times - 1) + values.size]


def plain_fold(shape: Shape) -> Fold:
    """Return a whole convolution as a part of its own."""
    return Fold(shape, lambda weights: weights, lambda base: base)


def folds(spec: RknnSpec, base: ConvTask, shape: Shape) -> Sequence[Fold]:
    """Return the parts in which a convolution takes least: itself, or one of folded rows and those left over.

    base  a task of the whole convolution
    """
    plain = plain_fold(shape)
    if shape.rows.stride > MAX_STRIDE:
        # A task of one row of windows has no rows between them.
        def one_row(base: ConvTask) -> ConvTask:
            return replace(base, stride_y=1)

        return [
            replace(plain, base=one_row, rows=(row, row + 1), core=row % spec.cores)
            for row in range(shape.rows.out)
        ]
    group = packing(base.in_dtype).channels
    kernels = base.channels if base.depthwise else base.kernels
    if base.in_dtype != base.out_dtype or aligned(kernels, group) != group:
        return [plain]
    found = list(_parts_below(base, shape, plain) if base.depthwise else _pairs(base, shape, plain))
    if not found:
        return [plain]
    before = cost(spec, plain.tiles(spec, base))
    try:
        taken = cost(spec, [tile for part in found for tile in part.tiles(spec, base)])
    except CannotLower:
        # Windows that are higher, or of more channels, need more room in CBUF.
        return [plain]
    # What is gained must be more than what such times are off.
    return found if taken[0] * (1 + ALIKE) < before[0] else [plain]


def _left(plain: Fold, low: int, high: int) -> Iterator[Fold]:
    """Yield the rows of a convolution that are not folded, if there are any."""
    if low < high:
        yield replace(plain, rows=(low, high))


def _parts_below(base: ConvTask, shape: Shape, plain: Fold) -> Iterator[Fold]:
    """Yield a depthwise convolution whose surfaces are parts of the picture one below the other; and its rows
    at the edges, which read padding."""
    group = packing(base.in_dtype).channels
    times = DEPTHWISE_GROUP // group
    rows = shape.rows
    low = -(-rows.before // rows.stride)
    high = min(rows.out, (rows.size + rows.before - rows.reach(1)) // rows.stride + 1)
    each = (high - low) // times
    if each < 1:
        return
    top = low * rows.stride - rows.before

    def folded(whole: ConvTask) -> ConvTask:
        return replace(
            whole,
            channels=DEPTHWISE_GROUP, real_channels=DEPTHWISE_GROUP, kernels=DEPTHWISE_GROUP,
            layer_height=each * rows.stride, surface_stride=each * shape.columns.out,
            feature_address=whole.feature_address + top * whole.width * ATOM_BYTES,
            output_address=whole.output_address + low * shape.columns.out * ATOM_BYTES,
        )  # fmt: skip

    def repeated(weights: np.ndarray) -> np.ndarray:
        filled = np.zeros((group, *weights.shape[1:]), weights.dtype)
        filled[: len(weights)] = weights
        return np.tile(filled, (times, 1, 1, 1))

    part = replace(rows, size=rows.reach(each), out=each, before=0, after=0)
    yield Fold(replace(shape, rows=part), repeated, folded, times)
    yield from _left(plain, 0, low)
    yield from _left(plain, low + times * each, rows.out)


def _pairs(base: ConvTask, shape: Shape, plain: Fold) -> Iterator[Fold]:
    """Yield a convolution that makes two rows at once, each with kernels of its own over the windows of both;
    and the last one of an odd number of rows."""
    group = packing(base.in_dtype)
    rows = shape.rows
    further, rest = divmod(rows.stride, rows.dilation)
    taps = rows.kernel + further
    if group.kernels != 2 * group.channels or rest or rows.out < 2:
        return
    if 2 * rows.stride > MAX_STRIDE or taps > MAX_TAPS:
        return
    each = rows.out // 2

    def folded(whole: ConvTask) -> ConvTask:
        return replace(
            whole, kernels=group.channels + whole.kernels, kernel_height=taps, stride_y=2 * rows.stride,
            surface_stride=shape.columns.out, row_notch=shape.columns.out,
        )  # fmt: skip

    def stacked(weights: np.ndarray) -> np.ndarray:
        kernels, channels, height, width = weights.shape
        both = np.zeros((2, group.channels, channels, taps, width), weights.dtype)
        both[0, :kernels, :, :height] = weights
        both[1, :kernels, :, further:] = weights
        return both.reshape(group.kernels, channels, taps, width)[: group.channels + kernels]

    window = replace(rows, out=each, kernel=taps, stride=2 * rows.stride)
    yield Fold(replace(shape, rows=window), stacked, folded, 2)
    yield from _left(plain, 2 * each, rows.out)
