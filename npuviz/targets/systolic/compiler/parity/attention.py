"""Attention as ONNXim programs it. Ref: systolic.md sections 12.4 (ONNX) and 12.5 (language mode)."""

from dataclasses import dataclass

from npuviz.base.errors import DoesNotFit
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.resources import ceil_div
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Heads, heads of the KV cache, query rows, keys, features per head, batch."""

    heads: int
    kv_heads: int
    queries: int
    keys: int
    features: int
    batch: int = 1


def emit_onnx_attention(
    builder: ProgramBuilder,
    spec: SystolicSpec,
    shape: AttentionShape,
    addresses: tuple[int, int, int, int],
    tensors: tuple[int, int, int, int],
    core: int = 0,
) -> None:
    """Add one tile per batch and head; `addresses` of node inputs 0, 1, 2 and of the output (flaw F7)."""
    p, req = spec.precision, spec.req_size
    q, dk = shape.queries, shape.features
    head_bytes = q * dk * p

    def write(template: Template, phase: int) -> None:
        kv_rows, q_rows = Rows(1, 0, shape.keys * dk * p), Rows(0, 0, head_bytes)
        kv_size = ceil_div(shape.keys * dk * p, req) * req
        q_size = len(q_rows.addresses(phase, req)) * req
        key = builder.scratchpad_entry("K", -1, kv_size)
        value = builder.scratchpad_entry("V", -1, kv_size)
        query = builder.scratchpad_entry("Q", 0, q_size)
        size = q * p // req * req
        out = builder.accumulator_entry("out", 0, size)
        template.movin(key, kv_rows, size=kv_size, tensor=tensors[1])
        template.movin(value, Rows(2, 0, shape.keys * dk * p), size=kv_size, tensor=tensors[2])
        template.movin(query, q_rows, size=q_size, tensor=tensors[0])
        rows = ceil_div(q, spec.cores[core].core_height) * shape.keys
        template.gemm((query, key), out, rows, tile=(q, dk, shape.keys), size=size, preload=False)
        template.vector(tk.OP_SOFTMAX, (out, 0), out, vbytes=shape.keys * p, tile_m=q, size=size)
        template.gemm((out, value), out, q * dk, tile=(q, shape.keys, dk), size=size, preload=False)
        template.movout(out, Rows(3, 0, head_bytes), tensor=tensors[3])

    for number in range(shape.batch * shape.heads):
        head = number % shape.heads
        start = head * head_bytes
        phase = start % req
        template = builder.template(phase, lambda t, phase=phase: write(t, phase))
        bases = (addresses[0] + start, addresses[1], addresses[2], addresses[3] + start)
        builder.add_tile(template, bases, fused=number + 1, coord=(number // shape.heads, head))


@dataclass(frozen=True, slots=True)
class FlashTiling:
    """Tiling of language-mode attention: q query rows and st keys a tile, outer_q x outer_k tiles."""

    group: int
    q: int
    st: int
    outer_q: int
    outer_k: int


def tile_flash(shape: AttentionShape, spec: SystolicSpec, core: int = 0) -> FlashTiling:
    """Compute the tiling of section 12.5. Raises DoesNotFit where ONNXim divides by zero."""
    p, spad, acc = spec.precision, spec.spad_half_bytes(core), spec.acc_half_bytes(core)
    group = shape.heads // shape.kv_heads
    query_bytes = group * shape.features * p
    if spad <= query_bytes:
        raise DoesNotFit("one query row does not fit half of the scratchpad; use a larger spad_size")
    cache_bytes = 2 * shape.keys * shape.features * p
    parts = max(ceil_div(shape.keys * p, acc), ceil_div(cache_bytes, spad - query_bytes))
    if parts > 1:
        st = ceil_div(shape.keys, parts)
        return FlashTiling(group, 1, st, shape.queries * shape.kv_heads, ceil_div(shape.keys, st))
    q = min(shape.queries, acc // ((shape.keys * p + 8) * group), (spad - cache_bytes) // query_bytes)
    if q < 1:
        raise DoesNotFit("one row of attention scores does not fit half of the accumulator")
    return FlashTiling(group, q, shape.keys, ceil_div(shape.queries, q) * shape.kv_heads, 1)


class FlashEmitter:
    """Writes the tiles of one request's attention into a builder whose layer is open.

    addresses, tensors  of Q, K cache, V cache and output
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        spec: SystolicSpec,
        shape: AttentionShape,
        addresses: tuple[int, int, int, int],
        tensors: tuple[int, int, int, int],
        core: int = 0,
    ) -> None:
        self._builder = builder
        self._spec = spec
        self._shape = shape
        self._addresses = addresses
        self._tensors = tensors
        self._tiling = tile_flash(shape, spec, core)
        self._side = spec.cores[core].core_height

    def emit(self) -> None:
        """Add all tiles: query parts and head groups outermost, key parts inside."""
        tiling, p = self._tiling, self._spec.precision
        queries, keys, dk = self._shape.queries, self._shape.keys, self._shape.features
        parts = max(1, tiling.outer_q // self._shape.kv_heads)
        for i in range(tiling.outer_q):
            first_head, part = i // parts * tiling.group, i % parts
            # Flaw F8: should be divided by the group.
            kv = first_head // self._shape.kv_heads
            q_rows = min(tiling.q, queries - part * tiling.q)
            for j in range(tiling.outer_k):
                k_rows = min(tiling.st, keys - j * tiling.st)
                starts = (
                    ((first_head * queries) + part * tiling.q) * dk * p,
                    kv * keys * dk * p,
                    kv * keys * dk * p,
                    (j * tiling.q * self._shape.heads + first_head) * dk * p,
                )
                bases = [base + start for base, start in zip(self._addresses, starts, strict=True)]
                phases = (bases[0] % self._spec.req_size, bases[1] % self._spec.req_size)
                key = (q_rows, k_rows, j, phases)
                template = self._builder.template(
                    key, lambda t, q=q_rows, k=k_rows, j=j, phases=phases: self._write(t, q, k, j, phases)
                )
                self._builder.add_tile(
                    template,
                    bases,
                    core=i % self._spec.num_cores,
                    accumulate=j > 0,
                    fused=i * tiling.outer_k + j + 1,
                    coord=(first_head, part, j),
                )

    def _write(self, template: Template, q_rows: int, k_rows: int, j: int, phases: tuple[int, int]) -> None:
        group, dk, p = self._tiling.group, self._shape.features, self._spec.precision
        key = self._load(template, "K", Rows(1, 0, k_rows * dk * p), phases[1], self._tensors[1])
        for h in range(group):
            rows = Rows(0, h * self._shape.queries * dk * p, q_rows * dk * p)
            self._load(template, ("Q", h), rows, phases[0], self._tensors[0])
        value = self._load(template, "V", Rows(2, 0, k_rows * dk * p), phases[1], self._tensors[2])
        self._multiply(template, key, value, is_first=True)
        for h in range(group):
            self._soften(template, h)
        self._multiply(template, key, value, is_first=False)
        if j == self._tiling.outer_k - 1:
            for h in range(group):
                self._finish(template, h, j)

    def _load(self, template: Template, key: object, rows: Rows, phase: int, tensor: int) -> int:
        size = len(rows.addresses(phase, self._spec.req_size)) * self._spec.req_size
        entry = self._builder.scratchpad_entry(key, -1, size)
        template.movin(entry, rows, size=size, tensor=tensor)
        return entry

    def _entries(self, h: int) -> tuple[int, int, int]:
        """Return the entries l_h (scores) and x_h of head `h`, and the bytes they count."""
        tiling, p, req = self._tiling, self._spec.precision, self._spec.req_size
        size = tiling.q * p // req * req
        at = h * tiling.q * tiling.st * p
        behind = at + tiling.group * tiling.q * tiling.st * p
        scores = self._builder.accumulator_entry(("l", h), at, size)
        return scores, self._builder.accumulator_entry(("x", h), behind, size), size

    def _multiply(self, template: Template, key: int, value: int, is_first: bool) -> None:
        """Write the products of queries and keys (scores), or of scores and values."""
        st, dk, side, q = self._tiling.st, self._shape.features, self._side, self._tiling.q
        outer, inner = (st, dk) if is_first else (dk, st)
        for a in range(0, outer, side):
            for b in range(0, inner, side):
                for h in range(self._tiling.group):
                    scores, _, size = self._entries(h)
                    query = self._builder.scratchpad_entry(("Q", h), -1, 0)
                    sources = (query, key) if is_first else (scores, value)
                    tile = (min(side, outer - a), min(side, inner - b), q)
                    template.gemm(sources, scores, q, tile=tile, size=size, preload=h == 0)

    def _soften(self, template: Template, h: int) -> None:
        """Write running maximum, exponent and sum of one head's scores."""
        q, st, p = self._tiling.q, self._tiling.st, self._spec.precision
        scores, extra, size = self._entries(h)
        steps = (
            (tk.OP_ADDTREE, (scores, 0), extra, st * p + 1, q),
            (tk.OP_ADD, (scores, extra), scores, q * (st + 1) * p, 0),
            (tk.OP_EXP, (scores, 0), scores, q * (st + 1) * 4, 0),
            (tk.OP_ADDTREE, (scores, 0), extra, st * 4, q),
            (tk.OP_MAC, (extra, 0), extra, q * st * 4, 0),
            (tk.OP_DIV, (extra, 0), scores, q * 4, 0),
            (tk.OP_MUL, (scores, extra), scores, q * st * 4, 0),
        )
        for opcode, sources, destination, vbytes, m in steps:
            template.vector(opcode, sources, destination, vbytes=vbytes, tile_m=m, size=size)

    def _finish(self, template: Template, h: int, j: int) -> None:
        """Divide by the sum and store; rows are numbered by the key part (flaw F8)."""
        queries, dk, p = self._shape.queries, self._shape.features, self._spec.precision
        scores, extra, size = self._entries(h)
        template.vector(tk.OP_DIV, (extra, 0), scores, vbytes=queries * 4, tile_m=0, size=size)
        template.vector(tk.OP_MUL, (scores, extra), scores, vbytes=queries * dk * 4, tile_m=0, size=size)
        count = min(queries, max(0, self._shape.keys - j * self._tiling.q))
        rows = Rows(3, h * dk * p, dk * p, n0=count, s0=self._shape.heads * dk * p)
        template.movout(scores, rows, tensor=self._tensors[3])
