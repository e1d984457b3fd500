"""ONNXim's default tiling of matrix products and convolutions.

Ref: systolic.md section 10 (derived there from Gemmini, DAC'21). It fills half of each SRAM.
"""

import math
from dataclasses import dataclass

from npuviz.base.errors import TargetError
from npuviz.formats.onnxim.mapping import LayerMapping, Loops
from npuviz.targets.systolic.compiler.tiling.resources import ceil_div
from npuviz.targets.systolic.spec import SystolicSpec


@dataclass(frozen=True, slots=True)
class Geometry:
    """The figures of a core that the tiling uses.

    side  array height; spad_rows, acc_rows: rows of `side` elements in one half
    """

    side: int
    spad_rows: int
    acc_rows: int
    spad_bytes: int
    precision: int
    num_cores: int

    @classmethod
    def of_core(cls, spec: SystolicSpec, core: int = 0) -> "Geometry":
        """Return the geometry of one core of a machine."""
        chosen, side = spec.cores[core], spec.cores[core].core_height
        return cls(
            side=side,
            spad_rows=chosen.spad_bytes // (2 * side * spec.precision),
            acc_rows=chosen.acc_bytes // (2 * side * 4),
            spad_bytes=chosen.spad_bytes,
            precision=spec.precision,
            num_cores=spec.num_cores,
        )


def tile_gemm(rows: int, outputs: int, reduction: int, core: Geometry) -> LayerMapping:
    """Compute the tiling of a rows x reduction by reduction x outputs product (N rows, M outputs, C
    reduction).

    Raises TargetError where ONNXim divides by zero.
    """
    side = core.side
    square = math.isqrt(core.acc_rows // side)
    depth = ((core.spad_rows // 2) // side) // square if square else 0
    if depth == 0:
        raise TargetError(
            f"the default tiling needs SRAM for {side}x{side} blocks; "
            "use a larger spad_size and accum_spad_size"
        )
    count_i = min(ceil_div(rows, side), ceil_div(rows, square * side))
    count_j = min(ceil_div(outputs, side), ceil_div(outputs, square * side))
    count_k = min(ceil_div(reduction, side), ceil_div(reduction, depth * side))
    widen_j = outputs > rows and outputs > core.num_cores
    widen_i = rows > outputs and rows > core.num_cores
    if count_i * count_j < core.num_cores:
        factor = ceil_div(core.num_cores, count_i * count_j)
        count_j, count_i = count_j * factor if widen_j else count_j, count_i * factor if widen_i else count_i
    left = count_i * count_j % core.num_cores
    count_j, count_i = count_j + left if widen_j else count_j, count_i + left if widen_i else count_i
    total = Loops(n=rows, c=reduction, m=outputs)
    inner = Loops(
        n=_inner(rows, count_i, side, total),
        c=_inner(reduction, count_k, side, total),
        m=_inner(outputs, count_j, side, total),
    )
    return LayerMapping(total, _outer(total, inner), inner)


def _inner(size: int, count: int, side: int, total: Loops) -> int:
    """Return the tile size: the padded size over the count, rounded down to whole blocks."""
    inner = ceil_div(ceil_div(size, side) * side, count) // side * side
    if inner == 0:
        raise TargetError(
            f"ONNXim's tiling of a {total.n}x{total.c}x{total.m} product divides by zero here: it cuts "
            f"{size} into {count} parts of less than {side}; --set mode=true runs it"
        )
    return inner


def _outer(total: Loops, inner: Loops) -> Loops:
    return Loops(
        n=ceil_div(total.n, inner.n),
        c=ceil_div(total.c, inner.c),
        m=ceil_div(total.m, inner.m),
        p=ceil_div(total.p, inner.p),
        q=ceil_div(total.q, inner.q),
        s=ceil_div(total.s, inner.s),
        r=ceil_div(total.r, inner.r),
    )


_ROWS, _COLS, _M, _KROWS, _KCOLS, _C = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True, slots=True)
class ConvTiler:
    """The search of one convolution; the seven arguments are
    [batch, output rows, output columns, M, kernel rows, kernel columns, C]."""

    core: Geometry
    stride: int
    padding: int
    kernel: int

    def fits(self, args: list[int]) -> bool:
        """Return whether input window, weights and outputs fit half of their memories."""
        _, rows, cols, m, krows, kcols, c = args
        in_rows, in_cols = rows * self.stride + krows - 1, cols * self.stride + kcols - 1
        if self.stride == 2 and self.kernel == 1 and self.padding == 0:
            in_rows, in_cols = in_rows // 2, in_cols // 2
        side = self.core.side
        spad = ceil_div(c, side) * in_rows * in_cols + ceil_div(m, side) * krows * kcols * c
        return spad <= self.core.spad_rows and ceil_div(m, side) * rows * cols <= self.core.acc_rows

    def search(self, limits: list[int]) -> list[int]:
        """Shrink the sizes until they fit, then increase them one by one while they fit."""
        args = list(limits)
        while not self.fits(args):
            self._shrink(args)
        while args[_COLS] < limits[_COLS] and self.fits(_plus_one(args, _COLS)):
            args[_COLS] += 1
        is_changed = True
        while is_changed:
            is_changed = False
            for index, limit in enumerate(limits):
                grown = _plus_one(args, index)
                if grown[index] <= limit and self.fits(grown) and self._has_room(args):
                    args, is_changed = grown, True
        return args

    def _shrink(self, args: list[int]) -> None:
        largest, at = -1, -1
        for index, value in enumerate(args):
            is_kept = index == _COLS and value <= self.core.side and args[_ROWS] > 1
            if not is_kept and value > largest:
                largest, at = value, index
        if largest <= 1:
            raise TargetError("not even one output point of a convolution fits; use a larger spad_size")
        if at in (_M, _C):
            side = self.core.side
            args[at] = max(1, (largest - 1) // side * side)
        else:
            args[at] -= 1

    def _has_room(self, args: list[int]) -> bool:
        """Return whether the sizes before an increment, which are those that ONNXim tests, leave room for
        it."""
        _, rows, cols, m, krows, kcols, c = args
        window = (rows + 2 * self.padding) * (cols + 2 * self.padding) * c * self.core.precision
        weights = m * krows * kcols * c * self.core.precision
        return 3 * (window + weights) // 2 <= self.core.spad_bytes // 2


def tile_conv(total: Loops, stride: int, padding: int, core: Geometry) -> LayerMapping:
    """Compute the tiling of a square convolution; `padding` is that of the first side. Raises TargetError."""
    if total.p != total.q or total.s != total.r:
        raise TargetError(
            f"ONNXim cannot tile a convolution with output {total.p}x{total.q} and kernel "
            f"{total.s}x{total.r} by itself: give it a line in the mapping file, or --set mode=true"
        )
    limits = [1, total.p, total.q, total.m, total.s, total.r, total.c]
    _, rows, cols, m, krows, kcols, c = ConvTiler(core, stride, padding, total.s).search(limits)
    inner = Loops(n=1, c=c, m=m, p=rows, q=cols, s=krows, r=kcols)
    return LayerMapping(total, _outer(total, inner), inner)


def _plus_one(args: list[int], index: int) -> list[int]:
    grown = list(args)
    grown[index] += 1
    return grown
