"""Groups graph nodes into layers: an operator, what is fused behind it, and how its tensors are stored."""

from dataclasses import dataclass, field

from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.quantisation import Quantisation, QuantisedGraph, quantisation_of

VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity")
_ARITHMETIC = ("Conv", "Gemm", "MatMul", "Add", "Mul", "Relu", "Clip")
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool")
TABLES = ("Sigmoid", "Tanh", "Mish", "HardSwish", "Swish", "Elu", "Softplus", "Gelu", "LeakyRelu")
HEADS = frozenset((*VIEWS, *_ARITHMETIC, *_POOLS, *TABLES))


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as a layer reads or writes it: where it is stored, how it is scaled (None: fp16)."""

    tensor: int
    quantisation: Quantisation | None = None


@dataclass(frozen=True)
class Layer:
    """One operator on the NPU, or one node for the Host.

    nodes       graph nodes that it covers, head first; inputs  activations in the head's order
    activation  fused behind the head, or None; is_host  nothing was recognised
    """

    head: Node
    nodes: tuple[int, ...]
    inputs: tuple[Stored, ...] = ()
    output: Stored = field(default=Stored(-1))
    activation: Node | None = None
    is_host: bool = False

    @property
    def is_quantised(self) -> bool:
        """Whether the layer computes in int8."""
        return self.output.quantisation is not None


class Planner:
    """Decides layer by layer, in graph order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.quantised = QuantisedGraph(graph)
        self._consumers = graph.consumers()

    def layers(self) -> list[Layer]:
        """All layers in an order in which they can run; nodes that a layer covers are not repeated.

        DequantizeLinear nodes of constants and of tensors that only NPU layers read vanish: a node is
        kept for the Host only if somebody there, or the graph's output, needs its float tensor.
        """
        covered: set[int] = set()
        found: list[Layer] = []
        for node in self.graph.nodes:
            if node.id in covered or self._is_read_through(node):
                continue
            layer = self._layer(node)
            covered |= set(layer.nodes)
            found.append(layer)
        return self._with_floats(found)

    def _is_read_through(self, node: Node) -> bool:
        """A DequantizeLinear whose readers may take the stored integers instead."""
        output = node.outputs[0] if node.outputs else -1
        return output in self.quantised.sources or output in self.quantised.constants

    def _layer(self, node: Node) -> Layer:
        alone = Layer(node, (node.id,), is_host=True)
        if node.op_type not in HEADS:
            return alone
        return self._quantised(node) or self._half(node) or alone

    def _activations(self, node: Node) -> list[int]:
        """Inputs that are no constants; for products and convolutions only the first."""
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            return [node.inputs[0]]
        names = node.inputs[:2] if node.op_type in ("Add", "Mul") else node.inputs[:1]
        return [tensor for tensor in names if tensor >= 0]

    def _is_weight(self, tensor: int) -> bool:
        return tensor < 0 or tensor in self.graph.constants or tensor in self.quantised.constants

    def _has_constant_weights(self, node: Node) -> bool:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            return True
        return all(self._is_weight(tensor) for tensor in node.inputs[1:])

    def _follower(self, node: Node) -> Node | None:
        """The only reader of a node's output, None where there are others."""
        output = node.outputs[0]
        readers = self._consumers[output]
        if len(readers) != 1 or output in self.graph.outputs:
            return None
        return self.graph.nodes[readers[0]]

    def _quantised(self, node: Node) -> Layer | None:
        sources = [self.quantised.sources.get(tensor) for tensor in self._activations(node)]
        if not sources or not self._has_constant_weights(node):
            return None
        nodes, activation, last = [node.id], None, node
        follower = self._follower(node)
        if follower is not None and follower.op_type == "Relu":
            activation, last = follower, follower
            nodes.append(follower.id)
        target = self.quantised.targets.get(last.outputs[0])
        if target is None:
            return None
        scaled = quantisation_of(self.graph.constants, target)
        if scaled is None:
            return None
        inputs: list[Stored] = []
        for source in sources:
            if source is None:
                return None
            inputs.append(Stored(source.stored, source.quantisation))
        nodes.append(target.id)
        output = Stored(target.outputs[0], scaled)
        return Layer(node, tuple(nodes), tuple(inputs), output, activation)

    def _half(self, node: Node) -> Layer | None:
        """The operator in fp16."""
        if self.graph.tensors[node.outputs[0]].dtype not in ("float32", "float16"):
            return None
        if not self._has_constant_weights(node):
            return None
        activations = self._activations(node)
        if any(self._is_weight(tensor) for tensor in activations):
            return None
        nodes, activation, last = [node.id], None, node
        follower = self._follower(node)
        if node.op_type not in ("Relu", "Clip") and follower is not None and follower.op_type == "Relu":
            activation, last = follower, follower
            nodes.append(follower.id)
        inputs = tuple(Stored(tensor) for tensor in activations)
        return Layer(node, tuple(nodes), inputs, Stored(last.outputs[0]), activation)

    def _with_floats(self, layers: list[Layer]) -> list[Layer]:
        """Put back the DequantizeLinear nodes whose float tensors somebody reads."""
        needed = set(self.graph.outputs)
        for layer in layers:
            if layer.is_host:
                needed |= {tensor for tensor in layer.head.inputs if tensor >= 0}
            elif not layer.is_quantised:
                needed |= {stored.tensor for stored in layer.inputs}
        kept = [
            Layer(node, (node.id,), is_host=True)
            for node in self.graph.nodes
            if self._is_read_through(node) and node.outputs[0] in needed
        ]
        return sorted([*layers, *kept], key=lambda layer: max(layer.nodes))
