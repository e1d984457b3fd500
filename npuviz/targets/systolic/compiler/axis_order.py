"""Chooses the order in which the axes of each tensor lie in DRAM: channels innermost around convolutions.

ONNXim keeps all activations NHWC (systolic.md section 7). Here tensors that meet in one element-wise
operator, concatenation and the like must lie alike, so they form groups; a group that touches a
convolution or a pooling lies NHWC, all others in the graph's own order.
"""

from npuviz.program.graph import Graph, Node

CONVOLUTIONS = frozenset(("Conv", "FusedConv", "QLinearConv", "ConvInteger"))
POOLINGS = frozenset(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LRN"))

_ALIKE = frozenset(
    (
        *("Add", "Sum", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Pow", "PRelu", "Relu", "Sigmoid"),
        *("Tanh", "Erf", "Gelu", "FastGelu", "QuickGelu", "Silu", "Exp", "Log", "Sqrt", "Reciprocal"),
        *("Neg", "Abs", "Floor", "Ceil", "Round", "Sign", "Softplus", "Softsign", "HardSwish", "Mish"),
        *("LeakyRelu", "Elu", "Selu", "HardSigmoid", "Clip", "BatchNormalization", "Cast", "Concat"),
        *("Identity", "Dropout", "Slice", "Split", "Pad", "QuantizeLinear", "DequantizeLinear"),
        *("DynamicQuantizeLinear", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or"),
        *("Xor", "Not", "IsNaN"),
        *("InstanceNormalization", "Where", "Swish", "BiasGelu", "Resize"),
        *("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"),
    )
)
"""Operators whose tensors of equal rank lie alike."""

NHWC = (0, 2, 3, 1)
KERNEL_ORDER = (2, 3, 0, 1)
"""Convolution weights: kernel row, kernel column, output channel, input channel. A block of output
channels of one kernel position is then one run of bytes."""


class _Groups:
    """Union-find over tensor ids."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, item: int) -> int:
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, first: int, second: int) -> None:
        self._parent[self.find(first)] = self.find(second)


def choose_orders(graph: Graph, layout: str) -> list[tuple[int, ...]]:
    """Choose the axis order in DRAM of every tensor, by id; `layout` is the chip's ("NHWC" or "NCHW")."""
    orders = [tuple(range(len(tensor.shape))) for tensor in graph.tensors]
    for tensor in _kernels(graph):
        orders[tensor] = KERNEL_ORDER
    if layout != "NHWC":
        return orders
    groups = _Groups(len(graph.tensors))
    images: list[int] = []
    for node in graph.nodes:
        four = [index for index in _activations(node) if len(graph.tensors[index].shape) == 4]
        if node.op_type in CONVOLUTIONS or node.op_type in POOLINGS:
            ends = [index for index in (node.inputs[0], node.outputs[0], *_residual(node)) if index >= 0]
            images += [index for index in ends if len(graph.tensors[index].shape) == 4]
        elif node.op_type in _ALIKE and four:
            for index in four[1:]:
                groups.join(four[0], index)
    chosen = {groups.find(index) for index in images}
    for tensor in graph.tensors:
        if len(tensor.shape) == 4 and orders[tensor.id] != KERNEL_ORDER and groups.find(tensor.id) in chosen:
            orders[tensor.id] = NHWC
    return orders


def _activations(node: Node) -> list[int]:
    return [index for index in (*node.inputs, *node.outputs) if index >= 0]


def _residual(node: Node) -> tuple[int, ...]:
    """Return the tensor that a FusedConv adds to its result."""
    return node.inputs[3:4] if node.op_type == "FusedConv" else ()


def _kernels(graph: Graph) -> list[int]:
    """Return constant 4-D tensors that only convolutions read, as their weights."""
    readers: dict[int, list[bool]] = {}
    for node in graph.nodes:
        place = 3 if node.op_type == "QLinearConv" else 1
        for position, index in enumerate(node.inputs):
            if index in graph.constants:
                fits = node.op_type in CONVOLUTIONS and position == place
                readers.setdefault(index, []).append(fits)
    return [
        index
        for index, uses in readers.items()
        if all(uses) and len(graph.tensors[index].shape) == 4 and index not in graph.outputs
    ]
