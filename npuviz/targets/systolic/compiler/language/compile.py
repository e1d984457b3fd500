"""Language mode without ONNXim's flaws: every iteration lowered by the rules of true mode.

Ref: systolic.md section 14; F8, F9, F10, F22 repaired. Keys and values are appended to the caches by loads
and stores; attention reads queries where the projection left them and writes its rows side by side, so no
concatenation is left to do. Weights have no contents, so no values are computed.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.base.progress import Progress
from npuviz.formats.onnxim.workloads import LanguageModel, ModelEntry, TraceRow
from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.compile import state_assumptions
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.language.admission import Admission, Request
from npuviz.targets.systolic.compiler.language.gated import write_gated
from npuviz.targets.systolic.compiler.language.memory import LanguageMemory
from npuviz.targets.systolic.compiler.language.serving import serve
from npuviz.targets.systolic.compiler.language.sizes import LanguageSizes
from npuviz.targets.systolic.compiler.language.sketch import LanguageSketch, sketch_language
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.attention_writer import (
    AttentionProblem,
    HeadsOperand,
    write_attention,
)
from npuviz.targets.systolic.compiler.operators.copies import Axis, Move, lower_moves
from npuviz.targets.systolic.compiler.operators.families import LOWERINGS
from npuviz.targets.systolic.compiler.placement import ALIGNMENT
from npuviz.targets.systolic.compiler.tiling.attention import AttentionSizes
from npuviz.targets.systolic.compiler.tiling.resources import resources_of, round_up
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.values.storage import Storage

_ACTIVATIONS = {"relu": tk.OP_COMP, "gelu": tk.OP_GELU, "swish": tk.OP_SWISH}


class TrueLanguageCompiler:
    """Compiles one language model with its request trace; writes iterations for `serving`.

    DRAM: weights, then one slot of caches per request in flight (freed slots are used again), then the
    activations of one iteration, which the next one overwrites.
    """

    def __init__(
        self, model: LanguageModel, spec: SystolicSpec, entry: ModelEntry, trace: Sequence[TraceRow]
    ) -> None:
        self._model = model
        self._spec = spec
        self._trace = trace
        self._sizes = LanguageSizes.of(model)
        self._memory = LanguageMemory(entry, model, self._sizes, spec)
        self._entry = entry
        self.builder = ProgramBuilder()
        self._sketch: LanguageSketch = sketch_language(
            entry.name, model, self._sizes, trace[0].prompt_length, spec.precision
        )
        self._lowering = Lowering(self._sketch.graph, (), resources_of(spec), self.builder, False)
        self._free_slots: list[int] = []
        self._num_slots = 0
        self._slots: dict[int, int] = {}
        self._allocations: list[Allocation] = []
        self._written: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}

    def compile(self, dram: int, progress: Progress) -> Compiled:
        """Compile all iterations of all requests. Raises TargetError."""
        entry = self._entry
        self._place_fixed(dram, entry.max_batch_size or len(self._trace))
        admission = Admission(self._trace, entry.scheduler, entry.max_batch_size, is_exact=True)
        requests = serve(admission, self, self._spec, self._memory, progress)
        graph = self._sketch.graph
        self._lowering.note("no-weights", "language mode has no weights: contents are not computed")
        state_assumptions(self._lowering)
        notes = (*self._memory.notes, *self._lowering.notes)
        placement = {node.id: "Core" for node in graph.nodes}
        tables = self.builder.finish()
        memory_map = MemoryMap(tuple(self._allocations))
        return Compiled(tables, graph, memory_map, notes, placement, requests)

    # --- DRAM --------------------------------------------------------------------------------------

    def _place_fixed(self, dram: int, num_slots: int) -> None:
        """Give weights and caches their addresses; activations follow behind them."""
        p, sizes = self._spec.precision, self._sizes
        self._addresses: dict[int, int] = {}
        pointer = 0
        for tensor in self._sketch.graph.tensors:
            if tensor.kind == "weight":
                self._addresses[tensor.id] = pointer
                size = prod(tensor.shape) * p
                self._allocations.append(Allocation(tensor.id, dram, pointer, size))
                pointer = round_up(pointer + size, ALIGNMENT)
        self._cache_bytes = round_up(self._model.max_seq_length * sizes.kv_width * p, ALIGNMENT)
        for number in range(sizes.num_simulated):
            for name in ("k_cache", "v_cache"):
                tensor = self._sketch.tensors[f"layer{number}.{name}"]
                self._addresses[tensor] = pointer
                self._allocations.append(Allocation(tensor, dram, pointer, self._cache_bytes * num_slots))
                pointer += self._cache_bytes * num_slots
        self._arena = pointer

    def _set_tokens(self, tokens: int) -> None:
        """Set shapes and places of all tensors for an iteration over this number of tokens."""
        p, pointer = self._spec.precision, self._arena
        tensors = list(self._sketch.graph.tensors)
        for index, width in self._sketch.per_token.items():
            tensors[index] = replace(tensors[index], shape=(tokens, width))
            self._addresses[index] = pointer
            pointer = round_up(pointer + tokens * width * p, ALIGNMENT)
        self._lowering.graph = replace(self._sketch.graph, tensors=tuple(tensors))
        self._lowering.storages = [
            Storage(
                tensor=tensor.id,
                shape=tensor.shape,
                dtype=tensor.dtype,
                order=tuple(range(len(tensor.shape))),
                root=tensor.id,
                address=self._addresses[tensor.id],
                size_bytes=prod(tensor.shape) * p,
            )
            for tensor in tensors
        ]

    # --- what `serving` asks -------------------------------------------------------------------------

    def admit(self, request: Request) -> None:
        """Give a request a slot of caches."""
        if not self._free_slots:
            self._free_slots.append(self._num_slots)
            self._num_slots += 1
        self._slots[request.number] = self._free_slots.pop()

    def write(self, batch: Sequence[Request], number: int) -> None:
        """Write the layers of one iteration."""
        self._set_tokens(sum(request.tokens for request in batch))
        first = self.builder.num_layers
        for node in self._lowering.graph.nodes:
            self._write_node(node, batch)
        count = self.builder.num_layers - first
        self.builder.add_edges([(first + i, first + i + 1) for i in range(count - 1)])
        for request in batch:
            if request.row.target_length <= len(request.iterations) + 1:
                self._free_slots.append(self._slots.pop(request.number))

    def _write_node(self, node: Node, batch: Sequence[Request]) -> None:
        lowering = self._lowering
        try:
            if node.op_type == "KVAppend":
                self._append(node, batch)
            elif node.op_type == "Attention":
                self._attend(node, batch)
            elif node.op_type == "GatedActivation":
                rows, width = lowering.tensor(node.outputs[0]).shape
                opcode = _ACTIVATIONS[self._model.activation_function]
                write_gated(lowering, node, node.inputs[0], node.outputs[0], rows, width, opcode)
            else:
                self._write_or_repeat(node)
        except CannotLower as reason:
            raise DoesNotFit(f"{node.name}: {reason}; use a larger spad_size or accum_spad_size") from None

    def _write_or_repeat(self, node: Node) -> None:
        """Write a node, or repeat its layer with other addresses if it was written before for as many
        tokens."""
        lowering, tensors = self._lowering, (*node.inputs, *node.outputs)
        places = tuple(self._addresses[tensor] for tensor in tensors)
        key = node.id, lowering.tensor(node.outputs[0]).shape[0]
        known = self._written.get(key)
        if known is None:
            LOWERINGS[node.op_type](lowering, node)
            self._written[key] = self.builder.num_layers - 1, places
            return
        shifts = [new - old for new, old in zip(places, known[1], strict=True)]
        self.builder.repeat_layer(known[0], node.name, node.id, shifts)

    def _append(self, node: Node, batch: Sequence[Request]) -> None:
        """Copy the new rows of K and V behind those in the caches."""
        p, sizes = self._spec.precision, self._sizes
        source, row = node.inputs[0], 0
        line, width = sizes.qkv_width * p, sizes.kv_width
        moves: list[Move] = []
        for request in batch:
            for number, cache in enumerate(node.inputs[1:]):
                column = (sizes.attention + number * width) * p
                place = self._slots[request.number] * self._cache_bytes + request.length * width * p
                axes = (Axis(request.tokens, line, width * p), Axis(width, p, p))
                moves.append(Move(source, cache, axes, row * line + column, place))
            row += request.tokens
        lower_moves(self._lowering, node, moves)

    def _attend(self, node: Node, batch: Sequence[Request]) -> None:
        """Write one layer per request: its queries against its caches, to its rows of the result."""
        p, sizes = self._spec.precision, self._sizes
        qkv, key, value = node.inputs
        size, row = sizes.head_size * p, 0
        if sizes.heads % sizes.kv_heads:
            raise SimulationError("heads that do not divide")
        for request in batch:
            slot = self._slots[request.number] * self._cache_bytes
            line = sizes.qkv_width * p
            problem = AttentionProblem(
                AttentionSizes(
                    batch=1,
                    kv_heads=sizes.kv_heads,
                    group=sizes.heads // sizes.kv_heads,
                    queries=request.tokens,
                    keys=request.length + request.tokens,
                    features=sizes.head_size,
                    value_features=sizes.head_size,
                    item=p,
                ),
                HeadsOperand(qkv, 0, size, line, row * line),
                HeadsOperand(key, 0, size, sizes.kv_width * p, slot),
                HeadsOperand(value, 0, size, sizes.kv_width * p, slot),
                HeadsOperand(node.outputs[0], 0, size, sizes.attention * p, row * sizes.attention * p),
                scale=sizes.head_size**-0.5,
                causal=request.length,
            )
            write_attention(self._lowering, node, problem)
            row += request.tokens
