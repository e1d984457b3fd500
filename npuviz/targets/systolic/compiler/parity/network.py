"""The layers that ONNXim makes of one model before it starts.

Ref: systolic.md sections 4 (order) and 7 (addresses, light models).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from npuviz.formats.onnxim.mapping import LayerMapping, Loops
from npuviz.program.graph import Graph, Node
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.parity.addresses import BumpAllocator
from npuviz.targets.systolic.compiler.parity.shapes import Shape, infer_shapes
from npuviz.targets.systolic.compiler.parity.tiling import Geometry, tile_gemm
from npuviz.targets.systolic.spec import SystolicSpec


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: the tensors that must exist before it, those it makes, and how its tiles are added."""

    name: str
    node: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    emit: Callable[[ProgramBuilder], None]


@dataclass
class Network:
    """One model while it is compiled.

    shapes     by tensor id, as ONNXim sees them; ids from len(graph.tensors) on are projections
    addresses  DRAM base by tensor id
    nr_atten   read the graph up to SkipLayerNormalization node 2 x nr_atten, -1: all of it
    tilings    remembered by total loops only (flaw F25); starts with the lines of the mapping file
    """

    graph: Graph
    spec: SystolicSpec
    target_core: int = 0
    tilings: dict[Loops, LayerMapping] = field(default_factory=dict[Loops, LayerMapping])
    nr_atten: int = -1
    shapes: dict[int, Shape] = field(default_factory=dict[int, Shape])
    addresses: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        self.shapes = infer_shapes(self.graph)
        self.geometry = Geometry.of_core(self.spec, self.target_core)
        self.is_constant = set(self.graph.constants)
        self.num_tensors = len(self.graph.tensors)

    @property
    def layer_nodes(self) -> list[Node]:
        """Nodes that become layers: all but those that only stand for a stored weight."""
        found: list[Node] = []
        left = 2 * self.nr_atten
        for node in self.graph.nodes:
            if self._is_light_weight(node):
                continue
            found.append(node)
            left -= node.op_type == "SkipLayerNormalization"
            if self.nr_atten >= 0 and left <= 0:
                break
        return found

    def unknown_inputs(self) -> list[int]:
        """Return tensors that nodes read and that neither a node nor the graph provides."""
        known = {tensor for node in self.layer_nodes for tensor in node.outputs}
        known |= {*self.graph.inputs, *self.is_constant}
        return [t for node in self.layer_nodes for t in node.inputs if t >= 0 and t not in known]

    def _is_light_weight(self, node: Node) -> bool:
        return node.op_type == "ConstantOfShape" and node.outputs[0] in self.is_constant

    def initialisers(self) -> list[int]:
        """Return stored weights in file order, then those of ConstantOfShape nodes in node order, without the
        latter's shapes."""
        light = [node for node in self.graph.nodes if self._is_light_weight(node)]
        hidden = {tensor for node in light for tensor in node.inputs}
        stored = [
            tensor.id
            for tensor in self.graph.tensors
            if tensor.kind == "weight" and tensor.id in self.is_constant and tensor.id not in hidden
        ]
        return [*stored, *(node.outputs[0] for node in light)]

    def new_tensor(self, shape: Shape) -> int:
        """Add a tensor that the graph does not have, and return its id."""
        self.shapes[self.num_tensors] = shape
        self.num_tensors += 1
        return self.num_tensors - 1

    def allocate(self, allocator: BumpAllocator, tensor: int, size_bytes: int) -> None:
        """Give a tensor its address."""
        name = self.graph.tensors[tensor].name if tensor < len(self.graph.tensors) else f"projection {tensor}"
        self.addresses[tensor] = allocator.allocate(name, size_bytes)

    def bytes_of(self, tensor: int) -> int:
        """Return the size of a tensor in bytes: elements times precision."""
        return prod(self.shapes[tensor]) * self.spec.precision

    def register(self, allocator: BumpAllocator) -> None:
        """Allocate the initialisers."""
        for tensor in self.initialisers():
            self.allocate(allocator, tensor, self.bytes_of(tensor))

    def launch(self, allocator: BumpAllocator) -> None:
        """Allocate inputs, node outputs, then the tensors that lowering added."""
        for tensor in self.graph.inputs:
            # Ref: systolic.md section 7: sixteen times too much (flaw F24).
            self.allocate(allocator, tensor, self.bytes_of(tensor) * 16)
        for node in self.layer_nodes:
            for tensor in node.inputs:
                if tensor >= 0 and tensor not in self.addresses:
                    self.allocate(allocator, tensor, self.spec.precision)
            for tensor in node.outputs:
                if tensor >= 0:
                    self.allocate(allocator, tensor, self.bytes_of(tensor))
        for tensor in range(len(self.graph.tensors), self.num_tensors):
            self.allocate(allocator, tensor, self.bytes_of(tensor))

    def gemm_tiling(self, rows: int, outputs: int, reduction: int) -> LayerMapping:
        """Return the tiling of a product: the mapping file's line, or the default one."""
        key = Loops(n=rows, c=reduction, m=outputs)
        found = self.tilings.get(key)
        if found is None:
            found = self.tilings[key] = tile_gemm(rows, outputs, reduction, self.geometry)
        return found


def start_order(layers: list[Layer], ready_tensors: Iterable[int]) -> list[int]:
    """Return the indices of the layers in the order in which the `simple` scheduler starts them.

    One layer at a time: the ready list begins with the layers that can start at once, in creation
    order; when a layer ends, the consumers of its outputs that became ready are appended.
    """
    produced = set(ready_tensors)
    consumers: dict[int, list[int]] = {}
    for index, layer in enumerate(layers):
        for tensor in dict.fromkeys(layer.inputs):
            consumers.setdefault(tensor, []).append(index)
    missing = [len(set(layer.inputs) - produced) for layer in layers]
    ready = [index for index, count in enumerate(missing) if count == 0]
    position = 0
    while position < len(ready):
        outputs = dict.fromkeys(layers[ready[position]].outputs)
        position += 1
        woken: list[int] = []
        for tensor in outputs:
            if tensor in produced:
                continue
            produced.add(tensor)
            for index in consumers.get(tensor, ()):
                missing[index] -= 1
                if missing[index] == 0:
                    woken.append(index)
        ready += sorted(woken)
    return ready


def layer_edges(layers: list[Layer]) -> list[tuple[int, int]]:
    """Return pairs of a layer and one that reads its results, without duplicates, in creation order."""
    maker: dict[int, int] = {}
    for index, layer in enumerate(layers):
        for tensor in layer.outputs:
            maker.setdefault(tensor, index)
    pairs = {
        (maker[tensor], index)
        for index, layer in enumerate(layers)
        for tensor in layer.inputs
        if tensor in maker and maker[tensor] != index
    }
    return sorted(pairs)


def node_inputs(network: Network, node: Node) -> tuple[int, ...]:
    """Return the tensors of a node that its layer has to wait for."""
    return tuple(tensor for tensor in node.inputs if tensor >= 0 and tensor not in network.is_constant)


def node_layer(network: Network, node: Node, emit: Callable[[ProgramBuilder], None]) -> Layer:
    """Make the layer of a whole node."""
    outputs = tuple(tensor for tensor in node.outputs if tensor >= 0)
    return Layer(node.name or node.op_type, node.id, node_inputs(network, node), outputs, emit)


def address_of(addresses: Mapping[int, int], tensor: int) -> int:
    """Return the base address of a tensor; ONNXim uses 0 for one it does not know."""
    return addresses.get(tensor, 0)
