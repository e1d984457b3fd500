"""Rewrites attention with grouped heads and a KV cache as matrix products.

Queries that share a key head are stacked as rows, so that keys are not repeated. Earlier and new keys are
multiplied separately: the cache is read in place, and not copied to join both.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.rotary import angles_at, turn
from npuviz.onnx.passes.contrib.writer import MASKED, CannotWrite, Writer

_LAST_KNOWN_INPUT = 12


@dataclass(frozen=True)
class Heads:
    """Sizes of one attention: batch, query heads, key heads, new rows, features of a head, cached rows."""

    batch: int
    heads: int
    kv_heads: int
    rows: int
    features: int
    cached: int

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads


def write_group_query_attention(writer: Writer, node: NodeProto) -> None:
    """Rewrite GroupQueryAttention of com.microsoft: causal, with a cache whose length in use is an input."""
    if len(node.input) > _LAST_KNOWN_INPUT or writer.wanted(3) or writer.given(10) or writer.given(11):
        raise CannotWrite
    if int(writer.attribute("smooth_softmax", 0)) > 0 or int(writer.attribute("qk_output", 0)):
        raise CannotWrite
    sizes = _group_sizes(writer)
    query, key, value = _operands(writer, sizes)
    lengths = writer.given(5)
    before = _before(writer, lengths, sizes)
    if int(writer.attribute("do_rotary", 0)):
        query, key = _rotated(writer, (query, key), before, sizes)
    _write_present(writer, (key, value), before, sizes)
    cache = (writer.given(3), writer.given(4)) if sizes.cached else None
    bias = _cache_bias(writer, before, lengths, sizes) if cache else ""
    new_bias = _causal_bias(writer, sizes, writer.dtype(writer.given(0)))
    blocks = [(cache[0], cache[1], bias)] if cache else []
    scale = float(writer.attribute("scale", 0.0)) or 1 / sqrt(sizes.features)
    write_products(writer, query, [*blocks, (key, value, new_bias)], sizes, scale)


def _group_sizes(writer: Writer) -> Heads:
    heads, kv_heads = int(writer.attribute("num_heads", 0)), int(writer.attribute("kv_num_heads", 0))
    shape = writer.shape(writer.given(0))
    if len(shape) != 3 or not heads or not kv_heads or heads % kv_heads:
        raise CannotWrite
    packed = heads if writer.given(1) else heads + 2 * kv_heads
    past = writer.shape(writer.given(3)) if writer.given(3) else (shape[0], kv_heads, 0, 0)
    sizes = Heads(shape[0], heads, kv_heads, shape[1], shape[2] // packed, past[2])
    # Rows of several sequences of unlike length lie apart in the cache: one by one they can be written.
    if len(past) != 4 or (sizes.batch > 1 and sizes.rows > 1 and sizes.cached):
        raise CannotWrite
    return sizes


def _operands(writer: Writer, sizes: Heads) -> tuple[str, str, str]:
    """Return queries, keys and values as (batch, heads, rows, features)."""
    query, key, value = (writer.given(position) for position in range(3))
    if not key:
        width = sizes.features
        parts = [sizes.heads * width, sizes.kv_heads * width, sizes.kv_heads * width]
        query, key, value = writer.split(query, parts, -1)
    return (
        as_heads(writer, query, (sizes.batch, sizes.rows, sizes.heads, sizes.features)),
        as_heads(writer, key, (sizes.batch, sizes.rows, sizes.kv_heads, sizes.features)),
        as_heads(writer, value, (sizes.batch, sizes.rows, sizes.kv_heads, sizes.features)),
    )


def as_heads(writer: Writer, name: str, shape: tuple[int, int, int, int]) -> str:
    """Rearrange a tensor to (batch, heads, rows, features). shape  (batch, rows, heads, features) of its
    elements"""
    placed = writer.reshape(name, shape)
    if shape[1] == 1:
        return writer.reshape(placed, (shape[0], shape[2], shape[1], shape[3]))
    return writer.add("Transpose", [placed], perm=[0, 2, 1, 3])


def _before(writer: Writer, lengths: str, sizes: Heads) -> str:
    """Compute the number of cache rows in use before the new ones, (batch, 1) int64: none without a cache,
    where shorter sequences of a batch are filled up behind."""
    if not sizes.cached:
        return writer.constant("before", np.zeros((sizes.batch, 1), np.int64))
    key = ("before", lengths, sizes.batch, sizes.rows)
    if writer.shared(key):
        return writer.shared(key)
    last = writer.reshape(writer.cast(lengths, np.int64), (sizes.batch, 1))
    step = writer.constant("one_less", np.array([[1 - sizes.rows]], np.int64))
    return writer.share(key, writer.add("Add", [last, step]) if sizes.rows != 1 else last)


def _rotated(writer: Writer, operands: tuple[str, str], before: str, sizes: Heads) -> tuple[str, str]:
    tables = (writer.given(7), writer.given(8))
    positions = writer.given(9)
    if not positions:
        key = ("positions", before, sizes.rows)
        positions = writer.shared(key)
        if not positions:
            rows = writer.constant("rows", np.arange(sizes.rows, dtype=np.int64)[None])
            positions = writer.share(key, writer.add("Add", [before, rows]) if sizes.rows > 1 else before)
    angles = angles_at(writer, tables, positions, (sizes.batch, sizes.rows), 1)
    turned = 2 * writer.shape(tables[0])[-1]
    is_paired = bool(writer.attribute("rotary_interleaved", 0))
    query, key = (
        turn(writer, (name, (sizes.batch, count, sizes.rows, sizes.features)), angles, turned, is_paired)
        for name, count in zip(operands, (sizes.heads, sizes.kv_heads), strict=True)
    )
    return query, key


def _write_present(writer: Writer, new: tuple[str, str], before: str, sizes: Heads) -> None:
    """Write the present keys and values: the cache with the new rows, or only the new rows if the cache was
    empty or `only_new_rows` is set."""
    for position, rows in enumerate(new):
        target = writer.wanted(1 + position)
        if not target:
            continue
        total = writer.shape(target)[2]
        if writer.only_new_rows or (not sizes.cached and total == sizes.rows):
            writer.add("Identity", [rows], target)
        elif sizes.rows == 1 and total == sizes.cached:
            here = _rows_where(writer, "Equal", before, total)
            writer.add("Where", [here, rows, writer.given(3 + position)], target)
        elif sizes.batch == 1 and total in (sizes.cached, sizes.cached + sizes.rows):
            _scattered(writer, (rows, writer.given(3 + position), target), before, sizes)
        else:
            raise CannotWrite


def _scattered(writer: Writer, names: tuple[str, str, str], before: str, sizes: Heads) -> None:
    """Write several new rows to a cache, at positions known at run time only."""
    rows, cache, target = names
    total = writer.shape(target)[2]
    wide = cache
    if total > sizes.cached:
        shape = (sizes.batch, sizes.kv_heads, total - sizes.cached, sizes.features)
        empty = writer.constant(f"empty{total}", np.zeros(shape, writer.dtype(cache)))
        wide = writer.add("Concat", [cache, empty], axis=2)
    places = writer.constant("places", np.arange(sizes.rows, dtype=np.int64)[None])
    at = writer.reshape(writer.add("Add", [before, places]), (1, 1, sizes.rows, 1))
    shape = np.array([1, sizes.kv_heads, sizes.rows, sizes.features], np.int64)
    spread = writer.add("Expand", [at, writer.constant("spread", shape)])
    writer.add("ScatterElements", [wide, spread, rows], target, axis=2)


def _rows_where(writer: Writer, operator: str, before: str, total: int) -> str:
    """Compare the index of each cache row with `before`: (batch, 1, rows of the cache, 1) bool."""
    key = (operator, before, total)
    if not writer.shared(key):
        numbers = writer.constant(f"numbers{total}", np.arange(total, dtype=np.int64).reshape(1, 1, total, 1))
        batch = writer.widened(before, [2, 3])
        writer.share(key, writer.add(operator, [numbers, batch]))
    return writer.shared(key)


def _cache_bias(writer: Writer, before: str, lengths: str, sizes: Heads) -> str:
    """Return the bias for cached keys: 0 for rows that count, MASKED for others, broadcasts to
    (batch, 1, queries, cached)."""
    window = int(writer.attribute("local_window_size", -1))
    dtype = writer.dtype(writer.given(0))
    key = ("cache bias", lengths, sizes.rows, sizes.cached, window, sizes.group if window > 0 else 0)
    if writer.shared(key):
        return writer.shared(key)
    numbers = writer.constant("numbers", np.arange(sizes.cached, dtype=np.int64).reshape(1, 1, 1, -1))
    end = writer.widened(before, [2, 3])
    counts = writer.add("Less", [numbers, end])
    if window > 0:
        rows = np.tile(np.arange(sizes.rows), sizes.group).reshape(1, 1, -1, 1)
        first = writer.add("Add", [end, writer.constant("first", (rows - window).astype(np.int64))])
        counts = writer.add("And", [counts, writer.add("Greater", [numbers, first])])
    zero, far = writer.constant("zero", np.zeros(1, dtype)), writer.constant("far", np.full(1, MASKED, dtype))
    return writer.share(key, writer.add("Where", [counts, zero, far]))


def _causal_bias(writer: Writer, sizes: Heads, dtype: np.dtype) -> str:
    """Return the causal bias that hides later rows from earlier ones, (1, 1, queries, rows); "" for one
    row."""
    if sizes.rows == 1:
        return ""
    window = int(writer.attribute("local_window_size", -1))
    query, key = np.mgrid[: sizes.rows, : sizes.rows]
    counts = key <= query
    if window > 0:
        counts &= key > query - window
    bias = np.tile(np.where(counts, 0.0, MASKED), (sizes.group, 1)).astype(dtype)
    return writer.constant("causal", bias[None, None])


def write_products(
    writer: Writer, query: str, blocks: list[tuple[str, str, str]], sizes: Heads, scale: float
) -> None:
    """Write scores, softmax and the weighted sum of values, over blocks of keys.

    query   (batch, heads, rows, features)
    blocks  (keys, values, bias): (batch, kv heads, keys, features) twice, and a bias of the scores or ""
    """
    dtype = writer.dtype(writer.given(0))
    query = writer.add("Mul", [query, writer.constant("scale", np.array([scale], dtype))])
    query = writer.reshape(query, (sizes.batch, sizes.kv_heads, sizes.group * sizes.rows, sizes.features))
    scores: list[str] = []
    for key, _, bias in blocks:
        turned = writer.add("Transpose", [key], perm=[0, 1, 3, 2])
        found = capped(writer, writer.add("MatMul", [query, turned]), dtype)
        scores.append(writer.add("Add", [found, bias]) if bias else found)
    counts = [sizes.cached, sizes.rows][-len(blocks) :]
    joined = writer.add("Concat", scores, axis=-1) if len(scores) > 1 else scores[0]
    shares = writer.split(writer.add("Softmax", [joined], axis=-1), counts, -1)
    sums = [writer.add("MatMul", [share, value]) for share, (_, value, _) in zip(shares, blocks, strict=True)]
    total = writer.add("Add", sums) if len(sums) > 1 else sums[0]
    width = sizes.heads * sizes.features
    if sizes.rows > 1:
        total = writer.reshape(total, (sizes.batch, sizes.heads, sizes.rows, sizes.features))
        total = writer.add("Transpose", [total], perm=[0, 2, 1, 3])
    writer.reshape(total, (sizes.batch, sizes.rows, width), writer.wanted(0))


def capped(writer: Writer, scores: str, dtype: np.dtype) -> str:
    """Limit scores by the soft cap, if the operator has one."""
    cap = float(writer.attribute("softcap", 0.0))
    if not cap:
        return scores
    limit = writer.constant("cap", np.array([cap], dtype))
    return writer.add("Mul", [writer.add("Tanh", [writer.add("Div", [scores, limit])]), limit])


def write_multi_head_attention(writer: Writer, node: NodeProto) -> None:
    """Rewrite MultiHeadAttention of com.microsoft: three operands, with a bias, masks, and a growing
    cache."""
    if len(node.input) > 8 or writer.wanted(3) or not writer.given(1) or not writer.given(2):
        raise CannotWrite
    heads = int(writer.attribute("num_heads", 0))
    shape, keys = writer.shape(writer.given(0)), writer.shape(writer.given(1))
    if len(shape) != 3 or len(writer.shape(writer.given(2))) != 3 or len(keys) != 3 or writer.given(4):
        raise CannotWrite
    width = shape[2] // heads
    if writer.shape(writer.given(2))[2] != shape[2]:
        raise CannotWrite
    cached = writer.shape(writer.given(6))[2] if writer.given(6) else 0
    sizes = Heads(shape[0], heads, heads, shape[1], width, cached + keys[1])
    operands = [writer.given(position) for position in range(3)]
    if writer.given(3):
        parts = writer.split(writer.given(3), [shape[2]] * 3, 0)
        operands = [writer.add("Add", list(each)) for each in zip(operands, parts, strict=True)]
    counts = (shape[1], keys[1], keys[1])
    query, key, value = (
        as_heads(writer, name, (shape[0], rows, heads, width))
        for name, rows in zip(operands, counts, strict=True)
    )
    key, value = (_grown(writer, rows, position) for position, rows in enumerate((key, value)))
    bias = writer.given(5)
    if int(writer.attribute("unidirectional", 0)):
        bias = _late_bias(writer, bias, sizes, cached)
    scale = float(writer.attribute("scale", 0.0)) or 1 / sqrt(width)
    whole = Heads(sizes.batch, heads, heads, sizes.rows, width, 0)
    write_products(writer, query, [(key, value, bias)], whole, scale)


def _grown(writer: Writer, rows: str, position: int) -> str:
    """Append new keys or values to those of the cache; the result is an output of the operator too."""
    target = writer.wanted(1 + position)
    past = writer.given(6 + position)
    if past:
        return writer.add("Concat", [past, rows], target, axis=2)
    return writer.add("Identity", [rows], target) if target else rows


def _late_bias(writer: Writer, bias: str, sizes: Heads, cached: int) -> str:
    """Add a causal mask to the bias. `sizes.cached` is the number of all keys here, `cached` that of earlier
    ones."""
    dtype = writer.dtype(writer.given(0))
    query, key = np.mgrid[: sizes.rows, : sizes.cached]
    hidden = np.where(key <= query + cached, 0.0, MASKED).astype(dtype)
    late = writer.constant("causal", hidden[None, None])
    return writer.add("Add", [bias, late]) if bias else late
