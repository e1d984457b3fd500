"""Matrix products as ONNXim cuts them. Ref: systolic.md section 12.1."""

from dataclasses import dataclass

import numpy as np

from npuviz.formats.onnxim.mapping import LayerMapping
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec

_ACT, _WEIGHT, _BIAS, _OUT = 0, 1, 2, 3  # base address numbers


@dataclass(frozen=True, slots=True)
class GemmOperands:
    """Base addresses of a product, and tensor ids (-1: none) for display.

    bias  None: no bias is loaded; ONNXim loads one from address 0 where a Gemm node has none
    """

    act: int
    weight: int
    bias: int | None
    out: int
    tensors: tuple[int, int, int, int] = (-1, -1, -1, -1)


@dataclass(frozen=True, slots=True)
class _Block:
    """Key of a template of one product: clipped sizes, ends of the reduction, and where
    the addresses lie inside a request.

    rows_left, outputs_left  rows and outputs up to the totals, as far as they matter: ONNXim cuts the
                             blocks of a tile there, not at the end of the tile
    """

    rows: int
    outputs: int
    rows_left: int
    outputs_left: int
    reduction: int
    is_first: bool
    is_last: bool
    act_phase: int
    weight_phase: int
    bias_phase: int


class GemmEmitter:
    """Writes the tiles of one product into a builder whose layer is open."""

    def __init__(
        self,
        builder: ProgramBuilder,
        spec: SystolicSpec,
        mapping: LayerMapping,
        operands: GemmOperands,
        core: int,
    ) -> None:
        self._builder = builder
        self._mapping = mapping
        self._operands = operands
        self._side = spec.cores[core].core_height
        self._element = spec.precision
        self._req = spec.req_size
        self._num_cores = spec.num_cores

    def emit(self) -> None:
        """Add all tiles: n outermost, then m, then c."""
        total, outer, inner = self._mapping.total, self._mapping.outer, self._mapping.inner
        self._builder.require_tiles(outer.n * outer.m * outer.c)
        n, m, c = (axis.reshape(-1) for axis in np.indices((outer.n, outer.m, outer.c), dtype=np.int64))
        n0, m0, c0 = n * inner.n, m * inner.m, c * inner.c
        cores = (n * outer.m + m) % self._num_cores
        # A tile beyond a total is dropped, but the core index has advanced for it.
        kept = (n0 < total.n) & (m0 < total.m) & (c0 < total.c)
        n, m, c, n0, m0, c0, cores = (array[kept] for array in (n, m, c, n0, m0, c0, cores))
        p, ops = self._element, self._operands
        act, weight = ops.act + (n0 * total.c + c0) * p, ops.weight + (m0 * total.c + c0) * p
        bias = (0 if ops.bias is None else ops.bias) + m0 * p
        bases = np.stack([act, weight, bias, ops.out + (n0 * total.m + m0) * p], axis=1)
        shapes = np.stack(
            [
                np.minimum(inner.n, total.n - n0),
                np.minimum(inner.m, total.m - m0),
                np.minimum(inner.n + self._side, total.n - n0),
                np.minimum(inner.m + self._side, total.m - m0),
                np.minimum(inner.c, total.c - c0),
                c == 0,
                c0 + inner.c >= total.c,
                act % self._req,
                weight % self._req,
                bias % self._req if ops.bias is not None else np.zeros_like(bias),
            ],
            axis=1,
        )
        kinds, which = np.unique(shapes, axis=0, return_inverse=True)
        templates = np.array([self._template(_block(row)) for row in kinds.tolist()], dtype=np.int64)
        self._builder.add_tiles(
            templates[which.reshape(-1)],
            bases,
            cores=cores,
            accumulate=c > 0,
            coords=np.stack([n, m, c], axis=1),
        )

    def _template(self, block: _Block) -> int:
        return self._builder.template(("gemm", block), lambda template: self._write(template, block))

    def _write(self, template: Template, block: _Block) -> None:
        side, total = self._side, self._mapping.total
        output_steps, row_steps = range(0, block.outputs, side), range(0, block.rows, side)
        for ms in output_steps:
            if self._operands.bias is not None and block.is_first:
                self._load_bias(template, block, ms)
            self._load_weights(template, block, ms)
            if ms == 0:
                for ns in row_steps:
                    self._load_rows(template, block, ns)
        for ms in output_steps:
            for ns in row_steps:
                self._multiply(template, block, ns, ms)
        if not block.is_last:
            return
        p = self._element
        for ms in output_steps:
            for ns in row_steps:
                nl, ml = min(side, block.rows_left - ns), min(side, block.outputs_left - ms)
                offset = (ns * total.m + ms) * p
                rows = Rows(_OUT, offset, ml * p, n0=nl, s0=total.m * p, mode=tk.MODE_STEP)
                template.movout(self._output(ns, ms, nl), rows, tensor=self._operands.tensors[_OUT])

    def _multiply(self, template: Template, block: _Block, ns: int, ms: int) -> None:
        side = self._side
        nl, ml = min(side, block.rows_left - ns), min(side, block.outputs_left - ms)
        act, weight = self._activation(ns, 0), self._weight(ms, 0)
        out, size = self._output(ns, ms, nl), nl * self._req
        for k in range(0, block.reduction, side):
            tile = (ml, min(side, block.reduction - k), nl)
            template.gemm((act, weight), out, nl, tile=tile, size=size, tensor=self._operands.tensors[_OUT])

    def _load_bias(self, template: Template, block: _Block, ms: int) -> None:
        p, ml = self._element, min(self._side, block.outputs_left - ms)
        rows = Rows(_BIAS, ms * p, ml * p, mode=tk.MODE_STEP)
        size = self._size(rows, block.bias_phase)
        entry = self._output(0, ms, 0, size)
        template.movin(entry, rows, size=size, tensor=self._operands.tensors[_BIAS])

    def _load_weights(self, template: Template, block: _Block, ms: int) -> None:
        p, pitch = self._element, self._mapping.total.c * self._element
        ml = min(self._side, block.outputs_left - ms)
        rows = Rows(_WEIGHT, ms * pitch, block.reduction * p, n0=ml, s0=pitch, mode=tk.MODE_STEP)
        size = self._size(rows, block.weight_phase)
        template.movin(self._weight(ms, size), rows, size=size, tensor=self._operands.tensors[_WEIGHT])

    def _load_rows(self, template: Template, block: _Block, ns: int) -> None:
        p, pitch = self._element, self._mapping.total.c * self._element
        nl = min(self._side, block.rows_left - ns)
        rows = Rows(_ACT, ns * pitch, block.reduction * p, n0=nl, s0=pitch, mode=tk.MODE_STEP)
        size = self._size(rows, block.act_phase)
        template.movin(self._activation(ns, size), rows, size=size, tensor=self._operands.tensors[_ACT])

    def _size(self, rows: Rows, phase: int) -> int:
        return len(rows.addresses(phase, self._req)) * self._req

    def _activation(self, ns: int, size: int) -> int:
        address = ns * self._mapping.inner.c * self._element
        return self._builder.scratchpad_entry(("act", ns), address, size)

    def _weight(self, ms: int, size: int) -> int:
        inner = self._mapping.inner
        address = (inner.n + ms) * inner.c * self._element
        return self._builder.scratchpad_entry(("weight", ms), address, size)

    def _output(self, ns: int, ms: int, rows: int, size: int = 0) -> int:
        address = (ns * self._mapping.inner.m + ms) * self._element
        return self._builder.accumulator_entry(("out", ns, ms), address, size or rows * self._req)


def _block(row: list[int]) -> _Block:
    *sizes, is_first, is_last, act, weight, bias = row
    rows, outputs, rows_left, outputs_left, reduction = sizes
    return _Block(
        rows, outputs, rows_left, outputs_left, reduction, bool(is_first), bool(is_last), act, weight, bias
    )
