"""Rewrites Attention of com.microsoft, which ONNX Runtime's optimiser makes of a transformer's block (the
projection to queries, keys and values, and the attention), and masks of the standard's Attention."""

from collections.abc import Callable, Mapping
from math import sqrt

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.attention import Heads, as_heads, write_products
from npuviz.onnx.passes.contrib.writer import MASKED, CannotWrite, Writer, standard

_X, _WEIGHTS, _BIAS, _MASK, _PAST, _SCORES_BIAS, _PAST_LENGTH = range(7)
_FAR = -10000.0
"""Default of mask_filter_value, which the operator adds to scores of keys that do not count."""


def write_attention(writer: Writer, node: NodeProto) -> None:
    """Rewrite Attention of com.microsoft, and the standard's with a mask of truth values."""
    if standard(node):
        _write_added_mask(writer, node)
    else:
        _write_projection(writer, node)


def _write_added_mask(writer: Writer, node: NodeProto) -> None:
    """Keep the standard's Attention, with numbers that are added to the scores instead of truth values.

    Rows whose keys are all masked are 0 in the standard: the result is multiplied with 0 there, else with 1.
    """
    mask = writer.given(3)
    is_causal = bool(int(writer.attribute("is_causal", 0)))
    if not mask or writer.dtype(mask) != np.bool_ or is_causal or writer.wanted(3):
        raise CannotWrite
    dtype = writer.dtype(writer.given(0))
    shape, queries = writer.shape(mask), writer.shape(writer.given(0))
    rows = (*shape[:-1], 1)
    if len(queries) == 3 and len(shape) > 2:
        if len(shape) != 4 or shape[1] != 1:
            raise CannotWrite
        rows = (shape[0], shape[2], 1)
    added, counts = (writer.shared((kind, mask, rows, dtype)) for kind in ("added mask", "counted rows"))
    if not added:
        zero, low = (
            writer.constant(name, np.full(1, n, dtype)) for name, n in (("zero", 0), ("far", MASKED))
        )
        added = writer.share(("added mask", mask, rows, dtype), writer.add("Where", [mask, zero, low]))
        last = writer.constant("last", np.array([-1], np.int64))
        counts = writer.add("ReduceMax", [writer.cast(mask, dtype), last], keepdims=1)
        counts = counts if len(rows) == len(shape) else writer.reshape(counts, rows)
        writer.share(("counted rows", mask, rows, dtype), counts)
    kept = NodeProto()
    kept.CopyFrom(node)
    kept.input[3] = added
    kept.output[0] = f"{writer.name}/of_all_rows"
    writer.nodes.append(kept)
    writer.add("Mul", [kept.output[0], counts], writer.wanted(0))


def _write_projection(writer: Writer, node: NodeProto) -> None:
    """Rewrite Attention of com.microsoft with values as wide as keys, a mask of keys or lengths, a causal
    mask, a bias of scores, and a cache that grows."""
    sizes = _sizes(writer, node)
    query, key, value = _projected(writer, sizes)
    key, value = _grown(writer, key, value, sizes)
    total = sizes.cached + sizes.rows
    whole = Heads(sizes.batch, sizes.heads, sizes.heads, sizes.rows, sizes.features, 0)
    scale = float(writer.attribute("scale", 0.0)) or 1 / sqrt(sizes.features)
    write_products(writer, query, [(key, value, _bias(writer, sizes, total))], whole, scale)


def _sizes(writer: Writer, node: NodeProto) -> Heads:
    is_known = len(node.input) <= _PAST_LENGTH or not writer.given(_PAST_LENGTH)
    if standard(node) or not is_known or writer.attribute("do_rotary", 0):
        raise CannotWrite
    shape, columns = writer.shape(writer.given(_X)), writer.shape(writer.given(_WEIGHTS))[1]
    heads = int(writer.attribute("num_heads", 0))
    widths = list(writer.attribute("qkv_hidden_sizes", [])) or [columns // 3] * 3
    if len(shape) != 3 or not heads or len(set(widths)) > 1 or 3 * widths[0] != columns or widths[0] % heads:
        raise CannotWrite
    cached = writer.shape(writer.given(_PAST))[3] if writer.given(_PAST) else 0
    return Heads(shape[0], heads, heads, shape[1], widths[0] // heads, cached)


def _projected(writer: Writer, sizes: Heads) -> list[str]:
    """Return queries, keys and values as (batch, heads, rows, features)."""
    made = writer.add("MatMul", [writer.given(_X), writer.given(_WEIGHTS)])
    if writer.given(_BIAS):
        made = writer.add("Add", [made, writer.given(_BIAS)])
    parts = writer.split(made, [sizes.heads * sizes.features] * 3, -1)
    shape = (sizes.batch, sizes.rows, sizes.heads, sizes.features)
    return [as_heads(writer, part, shape) for part in parts]


def _grown(writer: Writer, key: str, value: str, sizes: Heads) -> tuple[str, str]:
    """Append new keys and values to those of the cache, which holds both one after the other."""
    if sizes.cached:
        earlier = writer.split(writer.given(_PAST), [1, 1], 0)
        shape = (sizes.batch, sizes.heads, sizes.cached, sizes.features)
        before = [writer.reshape(each, shape) for each in earlier]
        key, value = (
            writer.add("Concat", list(each), axis=2) for each in zip(before, (key, value), strict=True)
        )
    if writer.wanted(1):
        both = [writer.widened(each, [0]) for each in (key, value)]
        writer.add("Concat", both, writer.wanted(1), axis=0)
    return key, value


def _bias(writer: Writer, sizes: Heads, total: int) -> str:
    """Return what is added to the scores, broadcast to (batch, heads, rows, keys); "" for nothing."""
    dtype = writer.dtype(writer.given(_X))
    parts = [writer.given(_SCORES_BIAS)]
    if writer.given(_MASK):
        parts.append(_mask_bias(writer, sizes, total))
    if int(writer.attribute("unidirectional", 0)) and sizes.rows > 1:
        query, key = np.mgrid[: sizes.rows, :total]
        hidden = np.where(key <= query + sizes.cached, 0.0, MASKED).astype(dtype)
        parts.append(writer.constant("causal", hidden[None, None]))
    found = ""
    for part in filter(None, parts):
        found = writer.add("Add", [found, part]) if found else part
    return found


def _mask_bias(writer: Writer, sizes: Heads, total: int) -> str:
    """Return the bias of a mask: of keys, of keys for each query, or the number of keys that count."""
    mask = writer.given(_MASK)
    shape = writer.shape(mask)
    forms: dict[tuple[int, ...], tuple[int, ...]] = {
        (sizes.batch, total): (sizes.batch, 1, 1, total),
        (sizes.batch, sizes.rows, total): (sizes.batch, 1, sizes.rows, total),
    }
    dtype = writer.dtype(writer.given(_X))
    far = max(float(writer.attribute("mask_filter_value", _FAR)), MASKED)
    key = ("mask bias", mask, far, sizes.rows, total, dtype)
    if writer.shared(key):
        return writer.shared(key)
    if shape in forms:
        none = writer.constant("none", np.zeros(1, writer.dtype(mask)))
        counts = writer.reshape(writer.add("Greater", [mask, none]), forms[shape])
    elif shape == (sizes.batch,):
        numbers = writer.constant("numbers", np.arange(total, dtype=np.int32).reshape(1, 1, 1, total))
        counts = writer.add("Less", [numbers, writer.reshape(mask, (sizes.batch, 1, 1, 1))])
    else:
        raise CannotWrite
    zero, low = writer.constant("zero", np.zeros(1, dtype)), writer.constant("far", np.full(1, far, dtype))
    return writer.share(key, writer.add("Where", [counts, zero, low]))


WRITERS: Mapping[str, Callable[[Writer, NodeProto], None]] = {"Attention": write_attention}
