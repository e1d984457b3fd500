"""Rewrites products and LSTMs whose operands are rounded to 8 bits at run time with floats.

A machine whose scales are fixed in its program cannot compute a scale at run time. It can omit the rounding:
weights are dequantised, and the other operand keeps the machine's own type.
"""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.node_order import replace_nodes

_LSTM = "DynamicQuantizeLSTM"
NOT_ROUNDED = "are not rounded to 8 bits"
"""Part of the assumption that says that an operand keeps the machine's type."""
_FLOAT_FORMS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}


def write_as_floats(draft: Draft) -> bool:
    """Replace DynamicQuantizeLinear, MatMulInteger or ConvInteger, Cast and Mul by a MatMul or Conv of
    floats, in place.

    Intermediate results that others read stay. Returns whether anything changed.
    """
    found = {product.last: product for product in _products(draft)}
    made: list[NodeProto] = []
    for node in draft.proto.graph.node:
        product = found.get(node.output[0]) if node.output else None
        if product is None:
            made.append(node)
            continue
        name = f"{product.node.name or product.last}/weights"
        values = product.weights(draft)
        declare_weight(draft.proto.graph, name, values)
        draft.weights[name] = values
        inputs = [product.source, name]
        if product.bias is not None:
            inputs.append(f"{product.node.name or product.last}/bias")
            declare_weight(draft.proto.graph, inputs[2], product.bias)
            draft.weights[inputs[2]] = product.bias
        new = helper.make_node(
            _FLOAT_FORMS[product.node.op_type], inputs, [product.last], name=product.node.name
        )
        new.attribute.extend(product.node.attribute)
        made.append(new)
    if not found:
        return False
    replace_nodes(draft.proto.graph, made)
    draft.assumptions.append(
        f"operands of {len(found)} products {NOT_ROUNDED} as the file does at run time: "
        "they keep the machine's type"
    )
    return True


def write_float_lstms(draft: Draft, most_weights: int) -> bool:
    """Replace each DynamicQuantizeLSTM of ONNX Runtime by an LSTM with dequantised weights, in place.

    Returns whether anything changed.
    most_weights  most weights of a direction; larger operators stay
    """
    nodes = draft.proto.graph.node
    found = [
        place
        for place, node in enumerate(nodes)
        if node.op_type == _LSTM and _float_lstm(draft, node, most_weights)
    ]
    if found:
        draft.assumptions.append(
            f"states and inputs of {len(found)} DynamicQuantizeLSTM {NOT_ROUNDED} as the file does at run "
            "time: they keep the machine's type"
        )
    return bool(found)


def _float_lstm(draft: Draft, node: NodeProto, most_weights: int) -> bool:
    """Make a DynamicQuantizeLSTM, whose weights are transposed with one scale or one per column, an LSTM.

    Returns whether it fits.
    """
    names = [node.input[place] for place in (1, 2, 8, 9, 10, 11)]
    held = [draft.weights.get(name) for name in names]
    if len(node.input) != 12 or any(each is None for each in held):
        return False
    arrays = [each for each in held if each is not None]
    directions = arrays[0].shape[0]
    if sum(each.size for each in arrays[:2]) > most_weights * directions:
        return False
    for place, codes, scales, points in ((1, arrays[0], *arrays[2:4]), (2, arrays[1], *arrays[4:])):
        steps, zeros = (np.reshape(each, (directions, 1, -1)).astype(np.float32) for each in (scales, points))
        real = ((codes.astype(np.float32) - zeros) * steps).swapaxes(1, 2)
        name = f"{node.name or node.output[0]}/weights{place}"
        draft.weights[name] = np.ascontiguousarray(real, np.float32)
        declare_weight(draft.proto.graph, name, draft.weights[name])
        node.input[place] = name
    node.op_type, node.domain = "LSTM", ""
    del node.input[8:]
    return True


class _Product:
    """A product of 8-bit integers, with the operators behind it that scale it to real numbers.

    source  the float operand that is rounded;  scale  tensor with its scale;  last  the tensor behind all
    scales
    factors  constant scales;  bias  of a convolution, in real numbers
    """

    def __init__(self, node: NodeProto, rounding: NodeProto) -> None:
        self.node = node
        self.source, self.scale = rounding.input[0], rounding.output[1]
        self.last = ""
        self.factors: list[np.ndarray] = []
        self.bias: np.ndarray | None = None

    def weights(self, draft: Draft) -> np.ndarray:
        """Return the dequantised weights as float32."""
        stored = draft.weights[self.node.input[1]].astype(np.float32)
        if len(self.node.input) > 3 and self.node.input[3]:
            point = draft.weights[self.node.input[3]].astype(np.float32)
            stored = stored - (_by_kernel(point, stored.ndim) if self.is_convolution else point)
        for factor in self.factors:
            stored = stored * (_by_kernel(factor, stored.ndim) if self.is_convolution else factor)
        return stored.astype(np.float32)

    def takes(self, factor: np.ndarray, weights: np.ndarray) -> bool:
        """Return whether a factor of the result can be folded into the weights: one number, or one per
        column or kernel."""
        if factor.size == 1:
            return True
        if self.is_convolution:
            rest = factor.shape[-(weights.ndim - 1) :]
            return (
                factor.size == weights.shape[0] and len(rest) == weights.ndim - 1 and rest[0] == factor.size
            )
        return factor.size == weights.shape[-1] == factor.shape[-1]

    @property
    def is_convolution(self) -> bool:
        """Whether it is a convolution, whose scales belong to kernels instead of columns."""
        return self.node.op_type == "ConvInteger"


def _by_kernel(values: np.ndarray, rank: int) -> np.ndarray:
    return values.reshape(-1, *[1] * (rank - 1))


def _products(draft: Draft) -> Iterator[_Product]:
    graph = draft.proto.graph
    makers = {name: node for node in graph.node for name in node.output if name}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        if node.op_type not in _FLOAT_FORMS or node.domain not in ("", "ai.onnx"):
            continue
        rounding = makers.get(node.input[0])
        if rounding is None or rounding.op_type != "DynamicQuantizeLinear":
            continue
        point = node.input[2] if len(node.input) > 2 else ""
        if list(node.input[:1]) != [rounding.output[0]] or point != rounding.output[2]:
            continue
        if any(name and name not in draft.weights for name in (node.input[1], *node.input[3:])):
            continue
        product = _Product(node, rounding)
        if _follow(draft, product, makers, readers, outputs):
            yield product


def _follow(
    draft: Draft,
    product: _Product,
    makers: dict[str, NodeProto],
    readers: dict[str, list[NodeProto]],
    outputs: set[str],
) -> bool:
    """Find the Cast and the products with the scales behind a product of integers, and set `last`.

    Returns whether the Cast and the scale of the rounded operand were found.
    """
    weights = draft.weights[product.node.input[1]]
    here, is_real, is_scaled = product.node.output[0], False, False
    while True:
        after = readers.get(here, [])
        if here in outputs or len(after) != 1 or len(after[0].output) != 1:
            break
        (node,) = after
        if node.op_type == "Add" and product.is_convolution and not is_real and product.bias is None:
            other = node.input[1] if node.input[0] == here else node.input[0]
            product.bias = _bias(draft, product, other, makers)
            if product.bias is None or product.bias.size != weights.shape[0]:
                break
        elif node.op_type == "Cast" and not is_real:
            if next(item.i for item in node.attribute if item.name == "to") != onnx.TensorProto.FLOAT:
                break
            is_real = True
        elif node.op_type == "Mul" and is_real:
            other = node.input[1] if node.input[0] == here else node.input[0]
            parts = _scale_parts(draft, product, other, makers)
            if (
                parts is None
                or (is_scaled and parts[0])
                or not all(product.takes(f, weights) for f in parts[1])
            ):
                break
            is_scaled = is_scaled or parts[0]
            product.factors += parts[1]
        else:
            break
        here = node.output[0]
    product.last = here
    return is_real and is_scaled


def _bias(draft: Draft, product: _Product, name: str, makers: dict[str, NodeProto]) -> np.ndarray | None:
    """Return the bias in real numbers, which the model divides by the scale of the sums before adding it;
    None if the operand is no such bias."""
    while name in makers and makers[name].op_type in ("Reshape", "Unsqueeze", "Cast", "Floor", "Round"):
        name = makers[name].input[0]
    maker = makers.get(name)
    if maker is None or maker.op_type != "Div" or maker.input[0] not in draft.weights:
        return None
    parts = _scale_parts(draft, product, maker.input[1], makers)
    return draft.weights[maker.input[0]].reshape(-1) if parts is not None and parts[0] else None


def _scale_parts(
    draft: Draft, product: _Product, name: str, makers: dict[str, NodeProto]
) -> tuple[bool, list[np.ndarray]] | None:
    """Return whether a factor contains the scale of run time, and its constant parts; None for any other
    factor."""
    if name == product.scale:
        return True, []
    if name in draft.weights:
        return False, [draft.weights[name]]
    maker = makers.get(name)
    if maker is None or maker.op_type != "Mul":
        return None
    parts = [_scale_parts(draft, product, each, {}) for each in maker.input]
    if None in parts:
        return None
    known = [part for part in parts if part is not None]
    return sum(part[0] for part in known) == 1, [factor for part in known for factor in part[1]]
