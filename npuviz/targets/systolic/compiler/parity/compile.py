"""From an operator graph to the tables of the program that ONNXim would run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from npuviz.base.errors import TargetError
from npuviz.formats.onnxim_mapping import LayerMapping, Loops
from npuviz.program.graph import Graph
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note
from npuviz.targets.systolic.compiler.addresses import BumpAllocator
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.fitting import check_fits
from npuviz.targets.systolic.compiler.parity.network import Layer, Network, start_order
from npuviz.targets.systolic.compiler.parity.operators import is_free, lower_node
from npuviz.targets.systolic.spec import SystolicSpec

PARITY_NOTE = "parity mode keeps ONNXim's flaws: contents of SRAM and DRAM are not computed"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """How one model is asked for in a list file.

    request_time_ps  when it arrives, in picoseconds
    target_core      core whose geometry the tiling uses
    nr_atten         stop reading the graph after 2 x nr_atten SkipLayerNormalization nodes, -1: all
    """

    request_time_ps: int = 0
    target_core: int = 0
    nr_atten: int = -1
    dimensions: Mapping[str, int] = field(default_factory=dict[str, int])


def compile_parity(
    graph: Graph,
    spec: SystolicSpec,
    mapping: Mapping[Loops, LayerMapping] | None = None,
    request: ModelRequest | None = None,
) -> Compiled:
    """Compile one model as it is in its file (no optimisation) under the `simple` scheduler.

    Raises TargetError where ONNXim has no program for it, in one line that says what to do.
    """
    request = request or ModelRequest()
    check_geometry(spec, request.target_core)
    network = Network(graph, spec, request.target_core, dict(mapping or {}), request.nr_atten)
    allocator = BumpAllocator()
    network.register(allocator)
    builder = ProgramBuilder()
    builder.begin_launch(earliest=arrival_tick(request.request_time_ps, spec.core_period_ps))
    emit_network(network, builder, allocator)
    tables = builder.finish()
    check_fits(tables, spec)
    return Compiled(tables, graph, memory_map_of(network), notes_of(network))


def check_geometry(spec: SystolicSpec, core: int) -> None:
    """Refuse arrays that ONNXim's tiling cannot handle. Raises TargetError."""
    if core >= spec.num_cores:
        raise TargetError(f"target_core {core} does not exist: the machine has {spec.num_cores} cores")
    height, width = spec.cores[core].core_height, spec.cores[core].core_width
    if height != width or height & (height - 1):
        raise TargetError(
            f"ONNXim's tiling asks for square arrays with a power of two as side, not {height}x{width}; "
            "--set mode=true runs it"
        )


def arrival_tick(time_ps: int, period_ps: int) -> int:
    """First core tick that sees a request of this time: its counter has advanced already by then."""
    return max(0, -(-time_ps // period_ps) - 1)


def emit_network(network: Network, builder: ProgramBuilder, allocator: BumpAllocator) -> None:
    """Add the layers of one model in the order in which they start."""
    layers: list[Layer] = []
    late: list[Layer] = []
    for node in network.layer_nodes:
        own, *projections = lower_node(network, node)
        layers.append(own)
        late += projections
    layers += late
    network.launch(allocator)
    order = start_order(layers, [*network.graph.inputs, *network.is_constant, *network.unknown_inputs()])
    if len(order) < len(layers):
        stuck = next(layer.name for index, layer in enumerate(layers) if index not in set(order))
        raise TargetError(f"layer {stuck!r} never starts: one of its inputs is never produced")
    for index in order:
        layer = layers[index]
        builder.begin_layer(layer.name, layer.node)
        layer.emit(builder)
        builder.end_layer()


def memory_map_of(network: Network) -> MemoryMap:
    """Places of the graph's tensors with their real sizes; ranges that overlap by wrapping are left out."""
    found: list[Allocation] = []
    end = 0
    tensors = sorted((address, tensor) for tensor, address in network.addresses.items())
    for address, tensor in tensors:
        if tensor >= len(network.graph.tensors) or address < end:
            continue
        found.append(Allocation(tensor, 0, address, network.bytes_of(tensor)))
        end = address + found[-1].size_bytes
    return MemoryMap(tuple(found))


def notes_of(network: Network) -> tuple[Note, ...]:
    """What the user should know: free operators, and the mode itself."""
    notes = [Note("info", "parity", PARITY_NOTE)]
    for node in network.layer_nodes:
        if is_free(node):
            text = f"{node.op_type} {node.name!r} costs nothing in parity mode"
            notes.append(Note("info", "not-costed", text, node.id))
    return tuple(notes)
