"""What operator lowerings write programs with.

    def lower_relu(b: Builder, node: Node) -> None:
        source, target = b.hbm(node.inputs[0]).flatten(), b.hbm(node.outputs[0]).flatten()
        for ...:
            with b.tiles():
                x = b.fetch(source[a:z].reshape(128, -1))
                y = b.sbuf(128, x.shape, x.dtype)
                b.activation(y, x, Activation.RELU)
                b.store(target[a:z].reshape(128, -1), y)

Instructions are emitted in an order that is right when run one after the other; which engine waits for
which is found by the builder (see `dependencies`), so lowerings never synchronise.
"""

from collections.abc import Sequence

from npuviz.base.errors import SimulationError
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.compute import BuilderCompute
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.compiler.streams.emitter import Access
from npuviz.targets.neuroncore.isa import Engine, Opcode, Space


class Builder(BuilderCompute):
    """The whole interface: movements, computing instructions, PE and the host."""

    def matmul(self, dst_psum: View, stationary: View, moving: View, accumulate: bool) -> None:
        """dst [M,N] = (or, accumulating, +=) stationary [K,M] ^T @ moving [K,N], on PE; in fp32."""
        count, rows, columns = stationary.partitions, stationary.free_size, moving.free_size
        spec = self.spec
        if (
            moving.partitions != count
            or dst_psum.partitions != rows
            or dst_psum.free_size != columns
            or count > spec.matmul_max_contraction
            or rows > spec.matmul_max_stationary
            or columns > spec.matmul_max_moving
            or dst_psum.tile.space != Space.PSUM
            or stationary.tile.space != Space.SBUF
            or moving.tile.space != Space.SBUF
        ):
            raise SimulationError(
                f"matmul of {stationary!r} and {moving!r} to {dst_psum!r}: shapes do not fit"
            )
        self.emitter.instruction(
            self.emitter.channel(self.core, Engine.PE),
            Opcode.NC_MATMUL,
            (dst_psum, stationary, moving),
            flags=1 if accumulate else 0,
            accumulates=True,
        )

    def transpose(self, dst_psum: View, src: View) -> None:
        """dst [F,P] = src [P,F] ^T on PE (dst in PSUM, of the type of src or fp32)."""
        if dst_psum.partitions != src.free_size or dst_psum.free_size != src.partitions:
            raise SimulationError(f"transpose of {src!r} to {dst_psum!r}: shapes do not fit")
        self.emitter.instruction(
            self.emitter.channel(self.core, Engine.PE), Opcode.NC_TRANSPOSE, (dst_psum, src), accumulates=True
        )

    def host(self, node: Node) -> None:
        """Run the node on the Host unit: it reads and writes HBM."""
        for tensor in self._aliases.intersection(node.inputs):
            self._give_own_bytes(tensor)
        reads = self._host_accesses([tensor for tensor in node.inputs if tensor >= 0], written=False)
        writes = self._host_accesses([tensor for tensor in node.outputs if tensor >= 0], written=True)
        moved = sum(
            self.variables.drafts[self.hbm(tensor).variable].variable.size_bytes
            for tensor in {*node.inputs, *node.outputs}
            if tensor >= 0
        )
        self.emitter.host_call(node.id, moved, reads, writes)

    def _give_own_bytes(self, tensor: int) -> None:
        """The host finds tensors by their variables: one that shares another's gets its own."""
        described, old = self.graph.tensors[tensor], self.hbm(tensor)
        index = self.variables.add(described.name, "scratch", old.dtype, described.shape, None, tensor)
        self.dma(self.variables.view(index), old)
        self._aliases.discard(tensor)
        self._homes[tensor] = self.variables.view(index)

    def _host_accesses(self, tensors: Sequence[int], written: bool) -> list[Access]:
        found: list[Access] = []
        for tensor in tensors:
            view = self.hbm(tensor)
            draft = self.variables.drafts[view.variable]
            if 0 in view.shape or (not written and draft.variable.kind in ("constant", "input")):
                continue
            box = draft.box(view)
            found.append((draft.region, box))
            if written:
                for cache in self._cache:
                    cache.forget_range(view.variable, box)
        return found
