"""Compiles operator graphs to the tables of the program that ONNXim would run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from npuviz.base.errors import TargetError
from npuviz.base.progress import NoProgress, Progress
from npuviz.formats.onnxim.mapping import LayerMapping, Loops
from npuviz.program.graph import Graph
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.merging import merge_graphs
from npuviz.targets.systolic.compiler.parity.addresses import BumpAllocator
from npuviz.targets.systolic.compiler.parity.arrival import heap_order
from npuviz.targets.systolic.compiler.parity.fitting import check_fits
from npuviz.targets.systolic.compiler.parity.network import Layer, Network, layer_edges, start_order
from npuviz.targets.systolic.compiler.parity.operators import is_free, lower_node
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import RequestPlan

PARITY_NOTE = "parity mode keeps ONNXim's flaws: contents of SRAM and DRAM are not computed"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One entry of a list file.

    request_time_ps  when it arrives, in picoseconds
    target_core      core whose geometry the tiling uses
    partition        the partition that runs it (scheduler partition_cpu)
    nr_atten         stop reading the graph after 2 x nr_atten SkipLayerNormalization nodes, -1: all
    """

    request_time_ps: int = 0
    target_core: int = 0
    nr_atten: int = -1
    partition: int = 0


@dataclass(frozen=True, slots=True)
class ParityModel:
    """A model as it is in its file (no optimisation), its mapping file's lines, and its request."""

    name: str
    graph: Graph
    mapping: Mapping[Loops, LayerMapping] = field(default_factory=dict[Loops, LayerMapping])
    request: ModelRequest = field(default_factory=ModelRequest)


def compile_parity_list(
    models: Sequence[ParityModel],
    spec: SystolicSpec,
    *,
    dram: int = 0,
    progress: Progress | None = None,
) -> Compiled:
    """Compile several models, which run one after the other in the order of their request times.

    Models of equal name share their weights and remembered tilings. Raises TargetError.
    """
    watch = progress or NoProgress()
    graph, parts = merge_graphs([(model.name, model.graph) for model in models])
    networks: list[Network] = []
    for model, part in zip(models, parts, strict=True):
        check_geometry(spec, model.request.target_core)
        network = Network(part, spec, model.request.target_core, dict(model.mapping), model.request.nr_atten)
        networks.append(network)
    allocator, builder = BumpAllocator(), ProgramBuilder()
    _register(models, networks, allocator)
    order = heap_order([model.request.request_time_ps for model in models])
    requests: list[RequestPlan] = []
    for done, index in enumerate(order):
        watch.report(done / len(order), f"compiling {models[index].name}")
        time_ps = models[index].request.request_time_ps
        arrival = arrival_tick(time_ps, spec.core_period_ps)
        requests.append(RequestPlan(models[index].name, arrival, (done,)))
        partition = models[index].request.partition
        check_partition(spec, models[index].name, partition)
        builder.begin_launch(earliest=arrival, partition=partition)
        emit_network(networks[index], builder, allocator)
    tables = builder.finish()
    check_fits(tables, spec)
    notes = [Note("info", "parity", PARITY_NOTE), *(note for network in networks for note in _notes(network))]
    placement = {
        node.id: "Free" if is_free(node) else "Core" for network in networks for node in network.layer_nodes
    }
    return Compiled(tables, graph, _memory_map(networks, dram), tuple(notes), placement, tuple(requests))


def _register(models: Sequence[ParityModel], networks: list[Network], allocator: BumpAllocator) -> None:
    """Allocate the initialisers of every new model, in the order of the list."""
    first: dict[str, Network] = {}
    for model, network in zip(models, networks, strict=True):
        known = first.setdefault(model.name, network)
        if known is network:
            network.register(allocator)
            continue
        network.tilings = known.tilings
        for own, shared in zip(network.initialisers(), known.initialisers(), strict=True):
            network.addresses[own] = known.addresses[shared]


def check_partition(spec: SystolicSpec, name: str, partition: int) -> None:
    """Raise TargetError for a request of a partition without cores."""
    known = sorted({spec.config.partition.get(core, 0) for core in range(spec.num_cores)})
    if spec.config.scheduler == "partition_cpu" and partition not in known:
        raise TargetError(
            f"model {name!r} asks for partition {partition}, which no core belongs to; partition_id may be "
            f"{', '.join(map(str, known))}"
        )


def check_geometry(spec: SystolicSpec, core: int) -> None:
    """Raise TargetError for arrays that ONNXim's tiling cannot handle."""
    if core >= spec.num_cores:
        raise TargetError(f"target_core {core} does not exist: the machine has {spec.num_cores} cores")
    height, width = spec.cores[core].core_height, spec.cores[core].core_width
    if height != width or height & (height - 1):
        raise TargetError(
            f"ONNXim's tiling asks for square arrays with a power of two as side, not {height}x{width}; "
            "--set mode=true runs it"
        )


def arrival_tick(time_ps: int, period_ps: int) -> int:
    """Return the first core tick that sees a request of this time; ONNXim's counter has advanced by then."""
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
    if not layers:
        raise TargetError(f"model {network.graph.name!r} has no operator to run")
    network.launch(allocator)
    order = start_order(layers, [*network.graph.inputs, *network.is_constant, *network.unknown_inputs()])
    if len(order) < len(layers):
        stuck = min(set(range(len(layers))) - set(order))
        raise TargetError(f"layer {layers[stuck].name!r} never starts: one of its inputs is never produced")
    place: dict[int, int] = {}
    for index in order:
        layer = layers[index]
        place[index] = builder.begin_layer(layer.name, layer.node)
        layer.emit(builder)
        builder.end_layer()
    builder.add_edges([(place[a], place[b]) for a, b in layer_edges(layers)])


def _memory_map(networks: Sequence[Network], dram: int) -> MemoryMap:
    """Return the places of the graph's tensors with their real sizes; ranges that overlap by wrapping are
    left out."""
    found: list[Allocation] = []
    end = 0
    places = sorted(
        (address, tensor, network.bytes_of(tensor))
        for network in networks
        for tensor, address in network.addresses.items()
        if tensor < len(network.graph.tensors)
    )
    for address, tensor, size in places:
        if address >= end:
            found.append(Allocation(tensor, dram, address, size))
            end = address + size
    return MemoryMap(tuple(found))


def _notes(network: Network) -> list[Note]:
    """Return notes about operators that cost nothing."""
    return [
        Note("info", "not-costed", f"{node.op_type} {node.name!r} costs nothing in parity mode", node.id)
        for node in network.layer_nodes
        if is_free(node)
    ]
