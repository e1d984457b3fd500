"""Convolutions as ONNXim cuts them. Ref: systolic.md section 12.2.

Rows are counted by the Q loop and columns by the P loop, as ONNXim's builder does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from npuviz.formats.onnxim.mapping import LayerMapping
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.parity.shapes import Shape, Window
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.spec import SystolicSpec

_IMAGE, _WEIGHT, _OUT = 0, 1, 2  # base address numbers


@dataclass(frozen=True, slots=True)
class ConvShape:
    """NHWC image shape, window attributes and tiling of one convolution."""

    image: Shape
    window: Window
    mapping: LayerMapping


@dataclass(frozen=True, slots=True)
class _Patch:
    """Output points and a block of channels: offsets inside the tile, then sizes."""

    n: int
    row: int
    col: int
    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Key of a template of one convolution: sizes clipped at the totals, rows and columns
    of the window inside the image, the last-reduction mark, and phases inside groups and requests."""

    rows: int
    cols: int
    outputs: int
    channels: int
    kernel_rows: int
    kernel_cols: int
    window_rows: int
    window_cols: int
    is_last: bool
    group_phase: int
    image_phase: int
    weight_phase: int


class ConvEmitter:
    """Writes the tiles of one convolution into a builder whose layer is open.

    bases, tensors  addresses and tensor ids of image, weight and output
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        spec: SystolicSpec,
        shape: ConvShape,
        bases: tuple[int, int, int],
        tensors: tuple[int, int, int],
        core: int,
    ) -> None:
        self._builder = builder
        self._shape = shape
        self._mapping = shape.mapping
        self._bases = bases
        self._tensors = tensors
        self._side = spec.cores[core].core_width
        self._element = spec.precision
        self._req = spec.req_size
        self._num_cores = spec.num_cores
        # Channels of a weight are padded to whole blocks.
        self._padded = -(-self._mapping.total.c // self._side) * self._side

    def emit(self) -> None:
        """Add all tiles: N, P, Q, M, S, R outermost first, C innermost."""
        total, outer, inner = self._mapping.total, self._mapping.outer, self._mapping.inner
        counts = (outer.n, outer.p, outer.q, outer.m, outer.s, outer.r, outer.c)
        self._builder.require_tiles(prod(counts))
        core = -1
        for n, p, q, m, s, r, c in product(*(range(k) for k in counts)):
            is_first = s == r == c == 0
            core = (core + 1) % self._num_cores if is_first else core
            starts = (
                n * inner.n,
                p * inner.p,
                q * inner.q,
                m * inner.m,
                s * inner.s,
                r * inner.r,
                c * inner.c,
            )
            totals = (total.n, total.p, total.q, total.m, total.s, total.r, total.c)
            if any(start >= end for start, end in zip(starts, totals, strict=True)):
                continue
            self._add_tile(starts, core, not is_first)

    def _add_tile(self, starts: tuple[int, ...], core: int, accumulate: bool) -> None:
        n0, p0, q0, m0, s0, r0, c0 = starts
        total, inner, element = self._mapping.total, self._mapping.inner, self._element
        rows, cols = self._window(q0, 0), self._window(p0, 1)
        _, height, width, channels = self._shape.image
        first_row, first_col = rows.start if rows else 0, cols.start if cols else 0
        image = ((n0 * height + first_row) * width + first_col) * channels + c0
        # Flaw F4: the channel inside a group of `side` has no effect on the address.
        position = (m0 // self._side * total.s + s0) * total.r + r0
        weight = position * self._padded + c0
        out = ((n0 * total.q + q0) * total.p + p0) * total.m + m0
        bases = [base + at * element for base, at in zip(self._bases, (image, weight, out), strict=True)]
        block = _Block(
            rows=min(inner.q, total.q - q0),
            cols=min(inner.p, total.p - p0),
            outputs=min(inner.m, total.m - m0),
            channels=min(inner.c, total.c - c0),
            kernel_rows=min(inner.s, total.s - s0),
            kernel_cols=min(inner.r, total.r - r0),
            window_rows=len(rows),
            window_cols=len(cols),
            is_last=c0 + inner.c >= total.c and s0 + inner.s >= total.s and r0 + inner.r >= total.r,
            group_phase=m0 % self._side,
            image_phase=bases[_IMAGE] % self._req,
            weight_phase=bases[_WEIGHT] % self._req,
        )
        batch = min(inner.n, total.n - n0)
        # M - m0 decides how wide stores are (flaw F6), so it belongs to the key.
        key = ("conv", block, batch, min(total.m - m0, inner.m + self._side))
        template = self._builder.template(
            key, lambda template: self._write(template, block, batch, total.m - m0)
        )
        self._builder.add_tile(
            template, bases, core=core, accumulate=accumulate, coord=(n0, p0, q0, m0, s0 * total.r + r0, c0)
        )

    def _window(self, start: int, axis: int) -> range:
        """Return the image rows (axis 0) or columns (axis 1) loaded for output points from `start` on (flaw
        F5)."""
        window, inner = self._shape.window, self._mapping.inner
        points = inner.q if axis == 0 else inner.p
        stride, reach = window.strides[axis], window.dilations[axis] * (window.kernel[axis] - 1)
        first = start - reach // 2
        loaded = range(first, first + (points - 1) * stride + reach + 1, stride)
        size = self._shape.image[1 + axis]
        skipped = sum(1 for at in loaded if at < 0)
        kept = [at for at in loaded if 0 <= at < size]
        return loaded[skipped : skipped + len(kept)]

    def _write(self, template: Template, block: _Block, batch: int, outputs_left: int) -> None:
        window = self._load_window(template, block)
        patches = list(self._patches(block, batch))
        for ms, s, r, cs in self._weight_blocks(block):
            ml, cl = min(self._side, block.outputs - ms), min(self._side, block.channels - cs)
            self._load_weights(template, block, (ms, s, r, cs), (ml, cl))
        for ms, s, r, cs in self._weight_blocks(block):
            ml, cl = min(self._side, block.outputs - ms), min(self._side, block.channels - cs)
            weight = self._weight((ms, s, r, cs), 0)
            for index, patch in enumerate(patches):
                points = patch.rows * patch.cols
                out, size = self._output(patch, ms)
                template.gemm(
                    (window, weight),
                    out,
                    points,
                    tile=(ml, cl, points),
                    size=size,
                    preload=index == 0,
                    tensor=self._tensors[_OUT],
                )
        if block.is_last:
            self._store(template, block, patches, outputs_left)

    def _load_window(self, template: Template, block: _Block) -> int:
        element, window = self._element, self._shape.window
        _, _, width, channels = self._shape.image
        rows = Rows(
            _IMAGE,
            0,
            block.channels * element,
            n0=block.window_rows,
            s0=window.strides[0] * width * channels * element,
            n1=block.window_cols,
            s1=window.strides[1] * channels * element,
        )
        size = len(rows.addresses(block.image_phase, self._req)) * self._req
        entry = self._builder.scratchpad_entry("window", 0, size)
        template.movin(entry, rows, size=size, tensor=self._tensors[_IMAGE])
        return entry

    def _weight_blocks(self, block: _Block) -> Iterator[tuple[int, int, int, int]]:
        return product(
            range(0, block.outputs, self._side),
            range(block.kernel_rows),
            range(block.kernel_cols),
            range(0, block.channels, self._side),
        )

    def _load_weights(
        self, template: Template, block: _Block, at: tuple[int, int, int, int], sizes: tuple[int, int]
    ) -> None:
        ms, s, r, cs = at
        ml, cl = sizes
        total, element = self._mapping.total, self._element
        group = total.s * total.r * self._padded
        first, last = (block.group_phase + ms) // self._side, (block.group_phase + ms + ml - 1) // self._side
        offset = first * group + (s * total.r + r) * self._padded + cs
        rows = Rows(_WEIGHT, offset * element, cl * element, n0=last - first + 1, s0=group * element)
        size = len(rows.addresses(block.weight_phase, self._req)) * self._req
        template.movin(self._weight(at, size), rows, size=size, tensor=self._tensors[_WEIGHT])

    def _weight(self, at: tuple[int, int, int, int], size: int) -> int:
        return self._builder.scratchpad_entry(("weight", at), -1, size)

    def _patches(self, block: _Block, batch: int) -> Iterator[_Patch]:
        side = self._side
        for n, row, col in product(range(batch), range(0, block.rows, side), range(0, block.cols, side)):
            yield _Patch(n, row, col, min(side, block.rows - row), min(side, block.cols - col))

    def _output(self, patch: _Patch, ms: int) -> tuple[int, int]:
        """Return entry and counted bytes of an output block; blocks with equal keys share an entry (flaw
        F13)."""
        inner, element = self._mapping.inner, self._element
        at = ((patch.n * inner.q + patch.row) * inner.p + patch.col) * inner.m + ms
        key = at * element // self._req * self._req
        size = patch.rows * patch.cols * element // self._req * self._req
        return self._builder.accumulator_entry(("out", key), key, size), size

    def _store(self, template: Template, block: _Block, patches: list[_Patch], outputs_left: int) -> None:
        total, element = self._mapping.total, self._element
        for patch in patches:
            for ms in range(0, block.outputs, self._side):
                width = min(self._side, outputs_left - ms)
                offset = ((patch.n * total.q + patch.row) * total.p + patch.col) * total.m + ms
                rows = Rows(
                    _OUT,
                    offset * element,
                    width * element,
                    n0=patch.rows,
                    s0=total.p * total.m * element,
                    n1=patch.cols,
                    s1=total.m * element,
                )
                template.movout(self._output(patch, ms)[0], rows, tensor=self._tensors[_OUT])
