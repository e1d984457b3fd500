"""Products and LSTMs with operands that are rounded to 8 bits at run time, written with floats.

A machine whose scales lie in its program cannot find one while it runs. It can leave the rounding out:
weights become the floats that they stand for, and the other operand keeps the machine's own type.
"""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.node_order import replace_nodes

_LSTM = "DynamicQuantizeLSTM"
NOT_ROUNDED = "are not rounded to 8 bits"
"""How the assumption says that a product's operand keeps the machine's type."""
_FLOAT_FORMS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}


def write_as_floats(draft: Draft) -> bool:
    """Replace what rounds an operand, multiplies integers and scales sums by a MatMul or Conv of floats, in
    place: DynamicQuantizeLinear, MatMulInteger or ConvInteger, Cast, Mul.

    What the parts made besides stays. Returns whether anything changed.
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
    """Replace a DynamicQuantizeLSTM of ONNX Runtime by an LSTM of floats, in place: its weights become the
    numbers that they stand for. Returns whether anything changed.

    most_weights  of a direction; larger ones stay
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
    """Make an LSTM of one node, whose weights lie turned and have a scale for all or one a column."""
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
    """A product of 8-bit integers up to the real numbers that it stands for.

    source  the floats that are rounded;  scale  what that gives them;  last  the tensor behind all scales
    bias    of a convolution, in real numbers
    """

    def __init__(self, node: NodeProto, rounding: NodeProto) -> None:
        self.node = node
        self.source, self.scale = rounding.input[0], rounding.output[1]
        self.last = ""
        self.factors: list[np.ndarray] = []
        self.bias: np.ndarray | None = None

    def weights(self, draft: Draft) -> np.ndarray:
        """The weights as float32."""
        stored = draft.weights[self.node.input[1]].astype(np.float32)
        if len(self.node.input) > 3 and self.node.input[3]:
            point = draft.weights[self.node.input[3]].astype(np.float32)
            stored = stored - (_by_kernel(point, stored.ndim) if self.is_convolution else point)
        for factor in self.factors:
            stored = stored * (_by_kernel(factor, stored.ndim) if self.is_convolution else factor)
        return stored.astype(np.float32)

    def takes(self, factor: np.ndarray, weights: np.ndarray) -> bool:
        """Whether a factor of the result is one of the weights: a number, or one for each column."""
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
        """Whether it has kernels and no columns."""
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
    """Find the Cast and the products with both scales behind a product of integers."""
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
    """The constant that is divided by the scale of the sums, and rounded, to be added to them."""
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
    """Whether a factor holds the scale found at run time, and the constants in it; None for anything else."""
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
