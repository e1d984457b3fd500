"""Layers that treat every token alike: normalisation and activation. Ref: systolic.md section 12.3."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import DoesNotFit
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.resources import ceil_div
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec


@dataclass(frozen=True, slots=True)
class TokenShape:
    """Tokens in sequence, batch, and features per token."""

    seq: int
    batch: int
    features: int

    @property
    def rows(self) -> int:
        """Tokens in all."""
        return self.seq * self.batch


def _rows_per_tile(limit: int, shape: TokenShape, spec: SystolicSpec, is_spread: bool) -> int:
    if limit < 1:
        raise DoesNotFit(
            f"not even one token of {shape.features} features fits half of the scratchpad; "
            "use a larger spad_size"
        )
    rows = min(limit, shape.rows)
    if is_spread and ceil_div(shape.seq, rows) < 2 * spec.num_cores:
        rows = ceil_div(shape.seq, 2 * spec.num_cores)
    return rows


def _add_tiles(
    builder: ProgramBuilder,
    shape: TokenShape,
    rows: int,
    bases: np.ndarray,
    write: Callable[[Template, int], None],
) -> None:
    """Add one tile per `rows` tokens; `write` fills the template for a number of them, `bases` (tiles, n)."""
    starts = np.arange(0, shape.rows, rows)
    sizes = np.minimum(rows, shape.rows - starts).tolist()
    templates = {size: builder.template(size, lambda t, size=size: write(t, size)) for size in {*sizes}}
    builder.add_tiles(np.array([templates[size] for size in sizes]), bases, coords=starts[:, None])


def emit_skip_layernorm(
    builder: ProgramBuilder,
    spec: SystolicSpec,
    shape: TokenShape,
    addresses: tuple[int, int],
    tensors: tuple[int, int],
    core: int = 0,
) -> None:
    """Add the layer of residual addition and normalisation; `addresses` of the first input, which it
    overwrites, and of the residual (flaw F9: both operations have size 0)."""
    row_bytes = shape.features * spec.precision
    cap = spec.spad_half_bytes(core)
    rows = _rows_per_tile(cap // (2 * row_bytes), shape, spec, is_spread=True)
    req = spec.req_size

    def write(template: Template, count: int) -> None:
        size = ceil_div(count * row_bytes, req) * req
        first = builder.scratchpad_entry("first", 0, size)
        residual = builder.scratchpad_entry("residual", -1, size)
        template.movin(first, Rows(0, 0, count * row_bytes), size=size, tensor=tensors[0])
        template.movin(residual, Rows(1, 0, count * row_bytes), size=size, tensor=tensors[1])
        for opcode, sources in ((tk.OP_LAYERNORM, (first, 0)), (tk.OP_ADD, (first, residual))):
            template.vector(opcode, sources, first, vbytes=0, tile_m=count, size=size, tensor=tensors[0])
        template.movout(first, Rows(0, 0, count * row_bytes), tensor=tensors[0])

    starts = np.arange(0, shape.rows, rows)[:, None] * row_bytes
    _add_tiles(builder, shape, rows, np.array([addresses]) + starts, write)


@dataclass(frozen=True, slots=True)
class Activation:
    """Activation after the bias: an opcode, the output features, and whether a gate multiplies (Llama)."""

    opcode: int
    out_features: int
    is_gated: bool = False


def emit_bias_activation(
    builder: ProgramBuilder,
    spec: SystolicSpec,
    shape: TokenShape,
    activation: Activation,
    addresses: tuple[int, int, int],
    tensors: tuple[int, int, int],
    *,
    is_spread: bool,
    core: int = 0,
) -> None:
    """Add the layer of bias and activation; `addresses` of input, bias and output.

    is_spread  cut further until there are two tiles per core (language mode does)
    """
    p, req = spec.precision, spec.req_size
    row_bytes = shape.features * p
    rows = _rows_per_tile(spec.spad_half_bytes(core) // row_bytes - 1, shape, spec, is_spread)

    def write(template: Template, count: int) -> None:
        size, bias_size = ceil_div(count * row_bytes, req) * req, ceil_div(row_bytes, req) * req
        data = builder.scratchpad_entry("data", 0, size)
        bias = builder.scratchpad_entry("bias", -1, bias_size)
        template.movin(data, Rows(0, 0, count * row_bytes), size=size, tensor=tensors[0])
        template.movin(bias, Rows(1, 0, row_bytes), size=bias_size, tensor=tensors[1])
        out_bytes = activation.out_features * count * p
        steps = [(tk.OP_ADD, (data, bias), count * row_bytes), (activation.opcode, (data, 0), out_bytes)]
        if activation.is_gated:
            steps.append((tk.OP_MUL, (data, 0), out_bytes))
        for opcode, sources, vbytes in steps:
            template.vector(opcode, sources, data, vbytes=vbytes, tile_m=count, size=size, tensor=tensors[2])
        template.movout(data, Rows(2, 0, count * row_bytes), tensor=tensors[2])

    starts = np.arange(0, shape.rows, rows) * row_bytes
    # Flaw F26: the bias is read behind its tensor.
    bias_at = np.full_like(starts, addresses[1] + shape.seq * row_bytes)
    bases = np.stack([addresses[0] + starts, bias_at, addresses[2] + starts], axis=1)
    _add_tiles(builder, shape, rows, bases, write)
