"""Rewrites normalisations with a residual sum in front as two operators."""

from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer


def write_skip_simplified(writer: Writer, node: NodeProto) -> None:
    """Rewrite SkipSimplifiedLayerNormalization: the sum of two or three tensors, and its RMS
    normalisation."""
    del node
    _write(writer, 3, "SimplifiedLayerNormalization", [writer.given(2)], 1e-5)


def write_skip(writer: Writer, node: NodeProto) -> None:
    """Rewrite SkipLayerNormalization: the sum of two or three tensors, and its normalisation."""
    del node
    scales = [writer.given(2), writer.given(3)] if writer.given(3) else [writer.given(2)]
    _write(writer, 4, "LayerNormalization", scales, 1e-12)


def _write(writer: Writer, bias: int, operator: str, scales: list[str], epsilon: float) -> None:
    if writer.wanted(1) or writer.wanted(2):
        raise CannotWrite
    total = writer.add(
        "Add", [writer.given(0), writer.given(1)], "" if writer.given(bias) else writer.wanted(3)
    )
    if writer.given(bias):
        total = writer.add("Add", [total, writer.given(bias)], writer.wanted(3))
    chosen = float(writer.attribute("epsilon", epsilon))
    writer.add(operator, [total, *scales], writer.wanted(0), axis=-1, epsilon=chosen)
