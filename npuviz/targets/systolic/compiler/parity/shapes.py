"""Tensor shapes as ONNXim sees them: images are NHWC. Ref: systolic.md sections 7, 12.2 and 13."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from npuviz.base.errors import TargetError, UnsupportedOperator
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Attributes of a convolution or pooling node, rows before columns."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]

    @property
    def pad_rows(self) -> int:
        """Padding above and below together."""
        return self.pads[0] + self.pads[2]

    @property
    def pad_cols(self) -> int:
        """Padding left and right together."""
        return self.pads[1] + self.pads[3]


def window_of(node: Node, weight: Shape = ()) -> Window:
    """Read the window attributes; a convolution's kernel may come from its weight's shape."""
    kernel = _ints(node, "kernel_shape", weight[2:4] if len(weight) == 4 else (1, 1), 2)
    pads = _ints(node, "pads", (0, 0, 0, 0), 4)
    strides, dilations = _ints(node, "strides", (1, 1), 2), _ints(node, "dilations", (1, 1), 2)
    if min(strides) < 1 or min(dilations) < 1 or min(kernel) < 1:
        raise TargetError(f"{_title(node)}: strides, dilations and kernel must be positive")
    if attributes_of(node).text("auto_pad", "") in ("SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedOperator(
            f"{_title(node)}: ONNXim reads explicit pads only, not auto_pad; --set mode=true runs it"
        )
    return Window(
        (kernel[0], kernel[1]),
        (strides[0], strides[1]),
        (pads[0], pads[1], pads[2], pads[3]),
        (dilations[0], dilations[1]),
    )


def _ints(node: Node, name: str, default: Iterable[int], count: int) -> list[int]:
    values = attributes_of(node).integers(name, list(default))
    if len(values) != count:
        raise UnsupportedOperator(
            f"{_title(node)}: {name} has {len(values)} values where {count} are expected (2-D only)"
        )
    return values


def _title(node: Node) -> str:
    return f"{node.op_type} {node.name!r}"


def conv_output(node: Node, image: Shape, weight: Shape) -> Shape:
    """Return the NHWC output shape of a convolution. Raises UnsupportedOperator where ONNXim has no
    program."""
    if len(image) != 4 or len(weight) != 4:
        raise UnsupportedOperator(f"{_title(node)}: only 2-D convolutions are modelled in parity mode")
    if attributes_of(node).integer("group") != 1:
        raise UnsupportedOperator(
            f"{_title(node)}: ONNXim has no usable grouped convolution; --set mode=true runs it"
        )
    if image[3] != weight[1]:
        raise UnsupportedOperator(
            f"{_title(node)}: ONNXim reads the image as NHWC {list(image)}, which does not have the "
            f"{weight[1]} channels of the weight (it turns square NCHW inputs only); --set mode=true runs it"
        )
    w = window_of(node, weight)
    rows = (image[1] + w.pad_rows - w.dilations[0] * (w.kernel[0] - 1) - 1) // w.strides[0] + 1
    cols = (image[2] + w.pad_cols - w.dilations[1] * (w.kernel[1] - 1) - 1) // w.strides[1] + 1
    if rows < 1 or cols < 1:
        raise TargetError(f"{_title(node)}: its output would be {rows} x {cols}")
    return (image[0], rows, cols, weight[0])


def _conv(node: Node, inputs: list[Shape]) -> Shape:
    return conv_output(node, inputs[0], inputs[1])


def _pool(node: Node, inputs: list[Shape]) -> Shape:
    image = inputs[0]
    if len(image) != 4:
        return image
    w = window_of(node)
    rows = -(-(image[1] + w.pad_rows - (w.kernel[0] - 1)) // w.strides[0])
    cols = -(-(image[2] + w.pad_cols - (w.kernel[1] - 1)) // w.strides[1])
    return (image[0], max(rows, 1), max(cols, 1), image[3])


def _global_pool(node: Node, inputs: list[Shape]) -> Shape:
    image = inputs[0]
    return (image[0], 1, 1, image[3]) if len(image) == 4 else image


def _flatten(node: Node, inputs: list[Shape]) -> Shape:
    axis = attributes_of(node).integer("axis")
    return (prod(inputs[0][:axis]), prod(inputs[0][axis:]))


def gemm_weight(node: Node, weight: Shape) -> tuple[int, int]:
    """Return (outputs, reduction) of the weight of a matrix product. Raises UnsupportedOperator."""
    if len(weight) != 2:
        raise UnsupportedOperator(
            f"{_title(node)}: ONNXim multiplies by 2-D weights only, this one is {list(weight)}; "
            "--set mode=true runs it"
        )
    is_turned = bool(node.attributes.get("transB"))
    return (weight[0], weight[1]) if is_turned else (weight[1], weight[0])


def _gemm(node: Node, inputs: list[Shape]) -> Shape:
    outputs, reduction = gemm_weight(node, inputs[1])
    if not inputs[0] or inputs[0][-1] != reduction:
        raise TargetError(
            f"{_title(node)}: input {list(inputs[0])} does not fit a weight with {reduction} rows; "
            "--set mode=true runs it"
        )
    return (*inputs[0][:-1], outputs)


def _first(node: Node, inputs: list[Shape]) -> Shape:
    return inputs[0] if inputs else ()


_RULES: Mapping[str, Callable[[Node, list[Shape]], Shape]] = {
    "Conv": _conv,
    "FusedConv": _conv,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global_pool,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "MatMul": _gemm,
}
_AS_IN_FILE = {"EmbedLayerNormalization", "Attention"}


def infer_shapes(graph: Graph) -> dict[int, Shape]:
    """Return the shape of every tensor by id, as ONNXim propagates shapes from the graph inputs."""
    shapes = {tensor.id: tensor.shape for tensor in graph.tensors if tensor.producer < 0}
    turned = [graph.tensors[tensor].shape for tensor in graph.inputs]
    if len(turned) == 1 and len(turned[0]) == 4 and turned[0][2] == turned[0][3]:
        batch, channels, rows, cols = turned[0]
        shapes[graph.inputs[0]] = (batch, rows, cols, channels)
    for node in graph.nodes:
        if any(output in graph.constants for output in node.outputs):
            shapes |= {output: graph.tensors[output].shape for output in node.outputs if output >= 0}
            continue
        inputs = [shapes[tensor] for tensor in node.inputs if tensor >= 0]
        rule = _RULES.get(node.op_type, _first)
        if rule in (_conv, _gemm) and len(inputs) < 2:
            raise TargetError(f"{_title(node)}: it needs two inputs")
        own = rule(node, inputs) if inputs else ()
        for output in node.outputs:
            if output >= 0:
                is_from_file = node.op_type in _AS_IN_FILE or not inputs
                shapes[output] = graph.tensors[output].shape if is_from_file else own
    return shapes
