"""Compile any operator graph for the engines of a NeuronCore."""

import sys
from collections.abc import Callable

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.base.progress import NoProgress, Progress
from npuviz.base.units import format_bytes
from npuviz.onnx.errors import CannotLower, host_reason
from npuviz.onnx.host_work import host_work
from npuviz.onnx.kept_nodes import kept_names
from npuviz.onnx.passes.missing import expand_missing, expand_nodes
from npuviz.onnx.passes.narrow_floats import NARROW, NOTE, NarrowFloats, held_text, narrow_floats
from npuviz.onnx.semantics.host_operators import lacking
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason
from npuviz.targets.neuroncore.compiler.assembly import assemble
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.compiled import Compiled, places_of
from npuviz.targets.neuroncore.compiler.fusion import Group, plan_groups
from npuviz.targets.neuroncore.compiler.lowerings import DOMAINS, epilogues, lowering_of
from npuviz.targets.neuroncore.compiler.operators.elementwise import elementwise
from npuviz.targets.neuroncore.compiler.streams.emitter import MAX_INSTRUCTIONS, MAX_TRANSFERS
from npuviz.targets.neuroncore.costs.instructions import processor_of
from npuviz.targets.neuroncore.spec import KEEPING_FLOAT64, NeuronSpec

RESHAPING = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"))
"""Operators that leave all elements in their row-major order."""
MAX_EXPANSIONS = 8
"""Most rounds of expanding refused operators to function bodies, whose operators may be refused again."""


def compile_graph(graph: Graph, spec: NeuronSpec, progress: Progress | None = None) -> Compiled:
    """Lower every node to engine instructions, else expand its function body, else call the Host.

    The graph of the result has the nodes of expanded bodies. Raises Cancelled from `progress`.
    """
    watch = progress or NoProgress()
    kept = kept_names(graph, spec.keep_fp32)
    is_precise = spec.dtype == "float32"
    graph = expand_missing(graph, lambda node: lowering_of(node) is not None, is_precise)
    for _ in range(MAX_EXPANSIONS):
        floats = _narrowed(graph, spec)
        driver = _Driver(Builder(floats.graph, spec, kept), watch, floats)
        driver.run()
        expanded = expand_nodes(graph, driver.refused, is_precise) if driver.refused else None
        if expanded is None:
            break
        graph = expanded
    compiled = driver.finish(graph)  # pyright: ignore[reportPossiblyUnboundVariable]
    # Some stores and copies of the lowerings are never read: find them, and compile again without them.
    in_vain = driver.builder.unread()  # pyright: ignore[reportPossiblyUnboundVariable]
    if not in_vain:
        return compiled
    floats = _narrowed(graph, spec)
    lean = _Driver(Builder(floats.graph, spec, kept, in_vain), watch, floats)
    lean.run()
    shorter = lean.finish(graph)
    # Calls are identified by number: if a lowering chose otherwise this time, the numbers mean other work.
    is_same = lean.builder.calls() == [
        call
        for call in driver.builder.calls()  # pyright: ignore[reportPossiblyUnboundVariable]
        if call not in in_vain
    ]
    return shorter if is_same else compiled


def _narrowed(graph: Graph, spec: NeuronSpec) -> NarrowFloats:
    """Return the graph in the engines' types.

    float64 becomes float32, as PyTorch makes it for this chip. Ref: pytorch/xla, torch_xla/csrc/dtype.cpp,
    MaybeDowncastToXlaDeviceType.
    """
    return narrow_floats(graph) if spec.float64 == NARROW else NarrowFloats(graph)


class _Driver:
    """One attempt to lower a graph.

    floats   the graph in the engines' types
    refused  ids of nodes whose lowering raised CannotLower
    """

    def __init__(self, builder: Builder, progress: Progress, floats: NarrowFloats) -> None:
        self.builder = builder
        self.floats = floats
        self.placement: dict[int, str] = {}
        self.refused: list[int] = []
        self._graph = builder.graph
        self._progress = progress
        self._done, self._doing = 0.0, ""
        builder.emitter.watch = self._report

    def run(self) -> None:
        """Lower all nodes."""
        groups = plan_groups(self._graph)
        for done, group in enumerate(groups):
            self._done = done / len(groups)
            self._doing = f"compiling {group.head.name or group.head.op_type}"
            if done % 16 == 0:
                self._report()
            self._lower(group)

    def _report(self) -> None:
        self._progress.report(self._done, self._doing)

    def _lower(self, group: Group) -> None:
        hbm, kept = self.builder.hbm, self.builder.kept
        is_mixed = any(node.id in kept for node in group.nodes)
        if len(group.nodes) > 1 and not is_mixed and self._lower_together(group):
            return
        compute_dtype = hbm.compute_dtype
        for node in group.nodes:
            hbm.compute_dtype = "float32" if node.id in kept else compute_dtype
            self._lower_node(node)
        hbm.compute_dtype = compute_dtype

    def _lower_together(self, group: Group) -> bool:
        if group.kind == "elementwise":

            def emit(builder: Builder) -> None:
                elementwise.lower_group(builder, group)
        else:
            lower = epilogues().get(group.head.op_type)
            if lower is None:
                return False

            def emit(builder: Builder) -> None:
                lower(builder, group.head, group.followers)

        if self._attempt(group.head, emit):
            return False
        for node in group.nodes:
            self.placement[node.id] = "Core"
        return True

    def _lower_node(self, node: Node) -> None:
        tensors = self._graph.tensors
        if node.outputs and all(index < 0 or tensors[index].num_elements == 0 for index in node.outputs):
            self.placement[node.id] = "Core"
            return
        if self._shares_bytes(node):
            source, target = node.inputs[0], node.outputs[0]
            self.builder.hbm.alias(target, self.builder.hbm[source].reshape(*tensors[target].shape))
            self.placement[node.id] = "Core"
            return
        lower = lowering_of(node)
        if lower is None:
            reason = lacking(node, "the engines have")
        else:
            reason = self._attempt(node, lambda builder: lower(builder, node))
            if not reason:
                self.placement[node.id] = "Core"
                return
            self.refused.append(node.id)
        _lower_on_host(self.builder, node, self.floats.reason(node) or reason)
        self.placement[node.id] = "Host"

    def _shares_bytes(self, node: Node) -> bool:
        """Return whether the node only reshapes, and its result can share the bytes of its input."""
        if node.op_type not in RESHAPING or node.domain not in DOMAINS or node.inputs[0] < 0:
            return False
        target = node.outputs[0]
        old, new = self._graph.tensors[node.inputs[0]], self._graph.tensors[target]
        return (
            target not in self._graph.outputs
            and old.dtype == new.dtype
            and old.dtype not in ("string", "opaque")
            and old.num_elements == new.num_elements
        )

    def _check_size(self, node: Node) -> None:
        """Raise CannotLower if the tensors of an operator are larger than a core's share of HBM."""
        tensors = [self._graph.tensors[index] for index in {*node.inputs, *node.outputs} if index >= 0]
        most = self.builder.spec.hbm_bytes
        if sum(tensor.num_elements for tensor in tensors) * 16 <= most:
            return
        size = sum(tensor.num_elements * numpy_dtype(tensor.dtype).itemsize for tensor in tensors)
        if size > most:
            raise CannotLower(
                f"its tensors are more than a core's share of HBM, {format_bytes(most)}",
                format_bytes(size),
                "smaller tensors, or --set hbm_bytes=N",
            )

    def _attempt(self, node: Node, emit: Callable[[Builder], None]) -> HostReason | None:
        """Emit a node; if that fails, remove its instructions and return the reason."""
        mark, emitter = self.builder.mark(), self.builder.emitter
        try:
            self._check_size(node)
            emitter.longest = len(emitter.order) + MAX_INSTRUCTIONS
            emitter.most_transfers = len(emitter.transfers) + MAX_TRANSFERS
            with self.builder.node(node.id):
                emit(self.builder)
        except (CannotLower, DoesNotFit, ValueError) as error:
            self.builder.take_back(mark)
            return host_reason(error)
        except SimulationError as error:
            # A bug of a lowering: run the node on the Host and report it, instead of refusing the whole
            # model.
            self.builder.take_back(mark)
            self.builder.note(
                "lowering-bug", f"{node.op_type} {node.name}: {error}", node.id, is_warning=True
            )
            return HostReason(f"its lowering has a bug: {error}")
        finally:
            emitter.longest = emitter.most_transfers = sys.maxsize
        return None

    def finish(self, graph: Graph) -> Compiled:
        """Assemble and return the finished program of a graph, which has the model's own types."""
        builder = self.builder
        if self.floats.held:
            text = held_text(len(self.floats.held), builder.spec.dtype, KEEPING_FLOAT64)
            builder.note(NOTE, text, is_warning=True)
        outputs = {tensor: self._output_home(tensor) for tensor in self._graph.outputs}
        for tensor in self._graph.inputs:
            _ = builder.hbm[tensor]
        tables = assemble(builder, outputs)
        places = places_of(builder.spec, tables.variables)
        return Compiled(graph, tables, places, tuple(builder.notes), self.placement)

    def _output_home(self, tensor: int) -> int:
        """Return the variable of a graph output; copy inputs and constants to an output by DMA."""
        builder = self.builder
        home = builder.hbm[tensor]
        described = self._graph.tensors[tensor]
        if builder.hbm.draft(home).variable.kind == "output" or described.dtype in ("string", "opaque"):
            return home.variable
        # The home of a constant is in the compute dtype; the output keeps that of the model.
        own = builder.hbm.add(described.name, "output", described.dtype, described.shape, None, tensor)
        builder.dma.copy(own, home)
        return own.variable


def _lower_on_host(builder: Builder, node: Node, reason: HostReason) -> None:
    """Emit a Host call for a node, with a note of the reason."""
    with builder.node(node.id):
        builder.host(node)
    spec, work = builder.spec, host_work(builder.graph, node)
    builder.note(
        "host-operator",
        f"{node.op_type} {node.name or f'(node {node.id})'} runs on the host: {reason}; assumed "
        f"{processor_of(spec).nanoseconds(work):.0f} ns for {work.text} on {spec.host_processor}",
        node.id,
        reason=reason,
    )
