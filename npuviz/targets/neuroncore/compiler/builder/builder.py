"""Build a program: the interface of the operator lowerings.

    def lower_relu(b: Builder, node: Node) -> None:
        source, target = b.hbm[node.inputs[0]].flatten(), b.hbm[node.outputs[0]].flatten()
        for ...:
            with b.tiles.scope():
                x = b.dma.fetch(source[a:z].reshape(128, -1))
                y = b.tiles.sbuf(128, x.shape, x.dtype)
                b.isa.activation(y, x, Activation.RELU)
                b.dma.store(target[a:z].reshape(128, -1), y)

Lowerings emit instructions in an order that is correct when they run one after the other. The builder
finds the waits between engines (see `dependencies`), so lowerings never synchronise.
"""

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from npuviz.onnx.kept_nodes import kept_nodes, kept_tensors
from npuviz.program.graph import Graph, Node
from npuviz.program.program import TakesNotes
from npuviz.targets.neuroncore.compiler.builder.dma import Dma
from npuviz.targets.neuroncore.compiler.builder.engines import Engines
from npuviz.targets.neuroncore.compiler.builder.hbm import Hbm
from npuviz.targets.neuroncore.compiler.builder.instructions import Instructions
from npuviz.targets.neuroncore.compiler.builder.shown_tensors import ShownTensors
from npuviz.targets.neuroncore.compiler.builder.tiles import Tiles
from npuviz.targets.neuroncore.compiler.streams.emitter import Access, Emitter, Mark
from npuviz.targets.neuroncore.compiler.streams.liveness import unread
from npuviz.targets.neuroncore.compiler.streams.queue_sets import QueuePlan
from npuviz.targets.neuroncore.spec import NeuronSpec


@dataclass(frozen=True, slots=True)
class BuilderMark:
    """A state to return to: the lengths of all lists that only grow."""

    emitter: Mark
    variables: int
    notes: int
    tiles: int
    shown: int


class Builder(TakesNotes):
    """A program under construction.

    spec, graph  the machine, and the graph that is compiled
    hbm          places of tensors, constants and buffers in HBM
    tiles        opens tiles in SBUF and PSUM
    dma          appends movements between HBM and tiles
    isa          appends computing instructions
    shown        tensors that never reach HBM, to be shown on chip
    """

    def __init__(
        self,
        graph: Graph,
        spec: NeuronSpec,
        kept: Collection[str] = (),
        left_out: Collection[int] = (),
    ) -> None:
        """`kept` are names of operators that compute in the model's own types, `left_out` as of Emitter."""
        self.spec = spec
        self.graph = graph
        super().__init__()
        queues = QueuePlan(spec)
        self.emitter = Emitter(spec.num_cores, queues.sets, queues.kind, left_out)
        self.kept = kept_nodes(graph, kept)
        self.hbm = Hbm(graph, spec.dtype, kept_tensors(graph, self.kept))
        self.tiles = Tiles(spec, self.emitter)
        self.shown = ShownTensors(graph, self.emitter)
        self._engines = Engines(spec, self.emitter)
        self.dma = Dma(spec, self.emitter, queues, self.hbm, self.tiles, self._engines, self.shown)
        self.isa = Instructions(spec, self.hbm, self.dma, self._engines)

    @contextmanager
    def node(self, node_id: int) -> Generator[None]:
        """Attribute everything emitted in the block to a graph node, and close its tiles at the end."""
        outer = self.emitter.node
        self.emitter.node = node_id
        is_outermost = False
        try:
            with self.tiles.plain_scope() as is_outermost:
                if is_outermost:
                    self._engines.begin()
                yield
        finally:
            self.emitter.node = outer
            if is_outermost:
                self.shown.end_node()

    def host(self, node: Node) -> None:
        """Emit a call of the node on the Host, which reads and writes the variables of its tensors in HBM."""
        for tensor in self.hbm.aliases.intersection(node.inputs):
            shared = self.hbm[tensor]
            self.dma.copy(self.hbm.own(tensor), shared)
        reads = self._host_accesses([tensor for tensor in node.inputs if tensor >= 0], written=False)
        writes = self._host_accesses([tensor for tensor in node.outputs if tensor >= 0], written=True)
        moved = sum(
            self.hbm.draft(self.hbm[tensor]).variable.size_bytes
            for tensor in {*node.inputs, *node.outputs}
            if tensor >= 0
        )
        self.emitter.host_call(node.id, moved, reads, writes)

    def _host_accesses(self, tensors: Sequence[int], written: bool) -> list[Access]:
        found: list[Access] = []
        for tensor in tensors:
            view = self.hbm[tensor]
            draft = self.hbm.draft(view)
            if 0 in view.shape or (not written and draft.variable.kind in ("constant", "input")):
                continue
            box = draft.box(view)
            found.append((draft.region, box))
            if written:
                self.tiles.forget(view.variable, box)
        return found

    def unread(self) -> frozenset[int]:
        """Return the emitter's calls whose results are never read, for `left_out` of another builder."""
        emitter, shown, positions = self.emitter, self.shown.places(), [0] * len(self.emitter.streams)
        for channel, work in zip(emitter.order, emitter.works, strict=True):
            if work is not None and (channel, positions[channel]) in shown:
                work.is_needed = True
            positions[channel] += 1
        return unread(emitter.works, self.hbm.kept_regions())

    def calls(self) -> list[int]:
        """Return the numbers of the emitter's calls that made the program, in its order; -1 for a Host
        call.
        """
        return [work.call for work in self.emitter.works if work is not None]

    def mark(self) -> BuilderMark:
        """Return the present state of the program, to `take_back` to; outside of all tile scopes."""
        return BuilderMark(
            self.emitter.mark(), len(self.hbm.drafts), len(self.notes), len(self.tiles.all), len(self.shown)
        )

    def take_back(self, mark: BuilderMark) -> None:
        """Remove everything emitted since `mark`; SBUF and PSUM are empty afterwards."""
        done = self.emitter.take_back(mark.emitter)
        moved = {channel: n for channel, n in done.items() if channel >= self.emitter.host}
        self.hbm.take_back(mark.variables, moved)
        self.dma.take_back(mark.variables)
        self.isa.take_back(mark.variables)
        self.tiles.take_back(mark.tiles, mark.emitter.streams, done)
        self.shown.take_back(mark.shown)
        del self.notes[mark.notes :]
