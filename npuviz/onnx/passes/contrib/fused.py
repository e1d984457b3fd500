"""Splits products that ONNX Runtime's optimiser fused with a sum or activation into separate operators
again."""

from collections.abc import Mapping

from onnx import NodeProto, helper

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer, standard

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "": (), "Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max"),
}  # fmt: skip
"""Activation -> names of its parameters, in order."""
_CLIP_HAS_INPUTS = 11
_OWN = ("activation", "activation_params")
_OF_GEMM = {"activation_alpha": "alpha", "activation_beta": "beta", "activation_gamma": "gamma"}


def write_fused_conv(writer: Writer, node: NodeProto) -> None:
    """Rewrite FusedConv: a Conv, a sum with another tensor, an activation."""
    activation = _text(writer.attribute("activation", b""))
    names = _PARAMETERS.get(activation)
    values = list(writer.attribute("activation_params", []))
    if names is None or standard(node) or len(values) not in (0, len(names)):
        raise CannotWrite
    attributes = _others(node, _OWN)
    residual = writer.given(3)
    is_last = not activation and not residual
    given = [name for name in node.input[:3] if name]
    made = writer.add("Conv", given, writer.wanted(0) if is_last else "", **attributes)
    if residual:
        made = writer.add("Add", [made, residual], "" if activation else writer.wanted(0))
    _activate(writer, made, activation, dict(zip(names, values, strict=False)))


def write_fused_gemm(writer: Writer, node: NodeProto) -> None:
    """Rewrite FusedGemm: a Gemm and an activation."""
    activation = _text(writer.attribute("activation", b""))
    if activation not in _PARAMETERS or activation == "Clip" or standard(node):
        raise CannotWrite
    values = {new: writer.attribute(old, None) for old, new in _OF_GEMM.items()}
    given = {name: value for name, value in values.items() if value is not None}
    if not given.keys() <= set(_PARAMETERS[activation]):
        raise CannotWrite
    inputs = [name for name in node.input[:3] if name]
    attributes = _others(node, ("activation", *_OF_GEMM))
    made = writer.add("Gemm", inputs, "" if activation else writer.wanted(0), **attributes)
    _activate(writer, made, activation, given)


def _activate(writer: Writer, made: str, activation: str, values: Mapping[str, float]) -> None:
    if not activation:
        return
    if activation == "Clip" and writer.opset >= _CLIP_HAS_INPUTS:
        dtype = writer.dtype(writer.wanted(0))
        limits = [writer.constant(name, dtype.type(value)) for name, value in values.items()]
        writer.add("Clip", [made, *limits], writer.wanted(0))
        return
    writer.add(activation, [made], writer.wanted(0), **values)


def _others(node: NodeProto, own: tuple[str, ...]) -> dict[str, object]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute if each.name not in own}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


WRITERS = {"FusedConv": write_fused_conv, "FusedGemm": write_fused_gemm}
