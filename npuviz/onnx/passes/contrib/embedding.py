"""Rewrites the embedding of a transformer that ONNX Runtime's optimiser fuses into one operator."""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import LISTS_ARE_INPUTS, Writer

_IDS, _SEGMENTS, _WORDS, _POSITIONS, _KINDS, _SCALE, _SHIFT, _MASK, _PLACES = range(9)


def write_embedding(writer: Writer, node: NodeProto) -> None:
    """Rewrite EmbedLayerNormalization: rows of two or three tables, their sum, its normalisation, and the
    lengths of masked sequences."""
    del node
    batch, length = writer.shape(writer.given(_IDS))
    width = writer.shape(writer.given(_WORDS))[1]
    total = writer.add("Gather", [writer.given(_WORDS), writer.given(_IDS)], axis=0)
    places = writer.given(_PLACES) or writer.constant("places", np.arange(length, dtype=np.int64)[None])
    rows = writer.add("Gather", [writer.given(_POSITIONS), places], axis=0)
    total = writer.add("Add", [total, rows], "" if writer.given(_SEGMENTS) else writer.wanted(2))
    if writer.given(_SEGMENTS):
        kinds = writer.add("Gather", [writer.given(_KINDS), writer.given(_SEGMENTS)], axis=0)
        total = writer.add("Add", [total, kinds], writer.wanted(2))
    scales = [writer.given(_SCALE)]
    scales.append(writer.given(_SHIFT) or writer.constant("shift", np.zeros(width, writer.dtype(scales[0]))))
    epsilon = float(writer.attribute("epsilon", 1e-12))
    writer.add("LayerNormalization", [total, *scales], writer.wanted(0), axis=-1, epsilon=epsilon)
    if writer.wanted(1):
        _write_lengths(writer, batch)


def _write_lengths(writer: Writer, batch: int) -> None:
    """Write the number of elements of each sequence that the mask counts, 0 without one."""
    mask = writer.given(_MASK)
    if not mask:
        none = writer.constant("lengths", np.zeros(batch, np.int32))
        writer.add("Identity", [none], writer.wanted(1))
    elif writer.opset < LISTS_ARE_INPUTS:
        writer.add("ReduceSum", [mask], writer.wanted(1), axes=[1], keepdims=0)
    else:
        axes = writer.constant("axes", np.array([1], np.int64))
        writer.add("ReduceSum", [mask, axes], writer.wanted(1), keepdims=0)


WRITERS: Mapping[str, Callable[[Writer, NodeProto], None]] = {"EmbedLayerNormalization": write_embedding}
