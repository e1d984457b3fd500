"""Language mode: a request trace becomes iterations, each of them a launch. Ref: systolic.md section 14."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from npuviz.base.errors import TargetError
from npuviz.base.progress import NoProgress, Progress
from npuviz.formats.onnxim.mapping import LayerMapping, Loops
from npuviz.formats.onnxim.workloads import LanguageModel, ModelEntry, TraceRow
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.language.admission import SCHEDULERS, Admission, Request
from npuviz.targets.systolic.compiler.language.memory import LanguageMemory
from npuviz.targets.systolic.compiler.language.serving import serve
from npuviz.targets.systolic.compiler.language.sizes import LanguageSizes
from npuviz.targets.systolic.compiler.language.sketch import LanguageSketch, Step, sketch_steps
from npuviz.targets.systolic.compiler.parity.addresses import BumpAllocator
from npuviz.targets.systolic.compiler.parity.attention import AttentionShape, FlashEmitter
from npuviz.targets.systolic.compiler.parity.compile import PARITY_NOTE, check_geometry
from npuviz.targets.systolic.compiler.parity.fitting import check_fits
from npuviz.targets.systolic.compiler.parity.gemm import GemmEmitter, GemmOperands
from npuviz.targets.systolic.compiler.parity.tiling import Geometry, tile_gemm
from npuviz.targets.systolic.compiler.parity.tokenwise import (
    Activation,
    TokenShape,
    emit_bias_activation,
    emit_skip_layernorm,
)
from npuviz.targets.systolic.compiler.tiling.resources import ceil_div
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec

_FREE = ("KVAppend", "Concat")
_ACTIVATIONS = {"relu": tk.OP_COMP, "gelu": tk.OP_GELU, "swish": tk.OP_SWISH}


@dataclass
class _Addresses:
    """Addresses of one layer of one iteration, by tensor name; `queries` and `outputs` per request."""

    by_name: dict[str, int] = field(default_factory=dict[str, int])
    queries: list[int] = field(default_factory=list[int])
    outputs: list[int] = field(default_factory=list[int])


class LanguageCompiler:
    """Compiles one language model with its request trace; writes iterations for `serving`."""

    def __init__(self, model: LanguageModel, spec: SystolicSpec, entry: ModelEntry) -> None:
        self._model = model
        self._spec = spec
        self._entry = entry
        self._allocator = BumpAllocator()
        self.builder = ProgramBuilder()
        self._geometry = Geometry.of_core(spec, entry.target_core)
        self._tilings: dict[Loops, LayerMapping] = {}
        self._weights: list[dict[str, int]] = []
        self._written: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
        self._iterations = 0
        self._sizes = LanguageSizes.of(model)
        self._memory = LanguageMemory(entry, model, self._sizes, spec)
        self._sketch: LanguageSketch

    def compile(self, trace: Sequence[TraceRow], dram: int, progress: Progress) -> Compiled:
        """Compile all iterations of all requests. Raises TargetError."""
        self._register()
        self._sketch = sketch_steps(
            self._entry.name,
            self._model,
            self._sizes,
            trace[0].prompt_length,
            self._spec.precision,
            self._sizes.cache_width,
            _steps,
        )
        graph = self._sketch.graph
        admission = Admission(trace, self._entry.scheduler, self._entry.max_batch_size, is_exact=False)
        requests = serve(admission, self, self._spec, self._memory, progress)
        tables = self.builder.finish()
        check_fits(tables, self._spec)
        placement = {node.id: "Free" if node.op_type in _FREE else "Core" for node in graph.nodes}
        notes = (Note("info", "parity", PARITY_NOTE), *self._memory.notes)
        return Compiled(tables, graph, self._memory_map(dram), notes, placement, requests)

    def _register(self) -> None:
        for number in range(self._sizes.num_simulated):
            addresses: dict[str, int] = {}
            for name, shape in self._sizes.weight_shapes().items():
                addresses[name] = self._allocate(f"layer{number}.{name}", *shape)
            self._weights.append(addresses)
        self._allocate("lm_head", self._model.hidden_size, self._model.vocab_size)

    def _allocate(self, name: str, *shape: int) -> int:
        size = self._spec.precision
        for dim in shape:
            size *= dim
        return self._allocator.allocate(name, size)

    def admit(self, request: Request) -> None:
        """Allocate the K and V caches of a request."""
        for number in range(self._sizes.num_simulated):
            width = (self._model.max_seq_length, self._sizes.cache_width)
            key = self._allocate(f"layer{number}.k_cache", *width)
            request.caches.append((key, self._allocate(f"layer{number}.v_cache", *width)))

    def write(self, batch: Sequence[Request], number: int) -> None:
        """Write the layers of one iteration."""
        self._iterations = number
        tokens = sum(request.tokens for request in batch)
        source = self._allocate("input", tokens, self._model.hidden_size)
        places: list[_Addresses] = []
        for layer in range(self._sizes.num_simulated):
            place = self._place_layer(layer, source, tokens, batch)
            places.append(place)
            source = place.by_name["ln2.out"]
        for layer, place in enumerate(places):
            self._emit_layer(layer, place, tokens, batch)

    def _place_layer(self, number: int, source: int, tokens: int, active: Sequence[Request]) -> _Addresses:
        """Allocate the tensors of one layer in ONNXim's order."""
        sizes, at, place = self._sizes, f"layer{number}.", _Addresses({"source": source})
        h = sizes.hidden
        place.by_name["qkv.out"] = self._allocate(at + "qkv.out", tokens, sizes.qkv_width)
        for request in active:
            place.queries.append(self._allocate(at + "kv_append.out", request.tokens, h))
        for request in active:
            place.outputs.append(self._allocate(at + "attention.out", request.tokens, sizes.attention))
        for name, width in (
            ("concat.out", sizes.attention),
            ("projection.out", h),
            ("ln1.out", h),
            ("fc1.out", sizes.ffn_width),
            ("activation.out", sizes.ffn_inner),
            ("fc2.out", h),
            ("ln2.out", h),
        ):
            place.by_name[name] = self._allocate(at + name, tokens, width)
        return place

    def _emit_layer(self, number: int, place: _Addresses, tokens: int, active: Sequence[Request]) -> None:
        sizes, spec, core, names = self._sizes, self._spec, self._entry.target_core, place.by_name
        h, builder, shape = sizes.hidden, self.builder, TokenShape(tokens, 1, sizes.hidden)
        at = f"layer{number}."
        self._emit_gemm(
            at, "qkv", (names["source"], names["qkv.out"]), (tokens, sizes.qkv_width, h), "source"
        )
        qkv_bytes = tokens * sizes.append_width * spec.precision
        self._open(at + "kv_append")
        builder.add_skip_tiles(ceil_div(qkv_bytes, spec.spad_half_bytes(core)))
        builder.end_layer()
        for index, request in enumerate(active):
            self._emit_attention(at, number, place, index, request)
        self._open(at + "concat")
        builder.add_skip_tiles()
        builder.end_layer()
        gemm = (names["concat.out"], names["projection.out"])
        self._emit_gemm(at, "projection", gemm, (tokens, h, sizes.attention), "concat.out")
        self._emit_norm(at, "ln1", shape, ("source", "projection.out"), names)
        self._emit_gemm(
            at, "fc1", (names["ln1.out"], names["fc1.out"]), (tokens, sizes.ffn_width, h), "ln1.out"
        )
        self._emit_activation(at, number, tokens, names)
        gemm = (names["activation.out"], names["fc2.out"])
        self._emit_gemm(at, "fc2", gemm, (tokens, h, sizes.ffn_inner), "activation.out")
        self._emit_norm(at, "ln2", shape, ("ln1.out", "fc2.out"), names)

    def _repeats(self, node: str, tokens: int, places: tuple[int, ...]) -> bool:
        """Repeat a layer that was written before for as many tokens, with other addresses; else remember it,
        and return False.

        places  addresses by base of its tiles. All are multiples of 256, so requests begin alike.
        """
        known = self._written.get((node, tokens))
        if known is None:
            self._written[node, tokens] = self.builder.num_layers, places
            return False
        shifts = [new - old for new, old in zip(places, known[1], strict=True)]
        name = f"{node} of iteration {self._iterations}"
        self.builder.repeat_layer(known[0], name, self._sketch.nodes[node], shifts)
        return True

    def _open(self, node: str) -> None:
        self.builder.begin_layer(f"{node} of iteration {self._iterations}", self._sketch.nodes[node])

    def _tensor(self, at: str, name: str) -> int:
        if name == "source":
            before = int(at.removeprefix("layer").removesuffix(".")) - 1
            return self._sketch.tensors["input" if before < 0 else f"layer{before}.ln2.out"]
        return self._sketch.tensors[at + name]

    def _emit_gemm(
        self, at: str, step: str, ends: tuple[int, int], sizes: tuple[int, int, int], source: str
    ) -> None:
        """Add the layer of a product of `sizes` (rows, outputs, reduction) from and to the addresses
        `ends`."""
        rows, outputs, reduction = sizes
        key = Loops(n=rows, c=reduction, m=outputs)
        if key not in self._tilings:
            self._tilings[key] = tile_gemm(rows, outputs, reduction, self._geometry)
        weights = self._weights[int(at.removeprefix("layer").removesuffix("."))]
        bias = None if step == "fc1" else weights[f"{step}.bias"]
        if self._repeats(at + step, rows, (ends[0], weights[f"{step}.weight"], bias or 0, ends[1])):
            return
        tensors = tuple(
            self._tensor(at, name) for name in (source, f"{step}.weight", f"{step}.bias", f"{step}.out")
        )
        operands = GemmOperands(
            ends[0],
            weights[f"{step}.weight"],
            bias,
            ends[1],
            (tensors[0], tensors[1], tensors[2], tensors[3]),
        )
        self._open(at + step)
        GemmEmitter(self.builder, self._spec, self._tilings[key], operands, self._entry.target_core).emit()
        self.builder.end_layer()

    def _emit_attention(self, at: str, number: int, place: _Addresses, index: int, request: Request) -> None:
        sizes = self._sizes
        shape = AttentionShape(
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            queries=request.tokens,
            keys=request.length + request.tokens,
            features=sizes.head_size,
        )
        names = ("kv_append.out", "k_cache", "v_cache", "attention.out")
        tensors = [self._tensor(at, name) for name in names]
        self._open(at + "attention")
        FlashEmitter(
            self.builder,
            self._spec,
            shape,
            (place.queries[index], *request.caches[number], place.outputs[index]),
            (tensors[0], tensors[1], tensors[2], tensors[3]),
            self._entry.target_core,
        ).emit()
        self.builder.end_layer()

    def _emit_norm(
        self, at: str, step: str, shape: TokenShape, sources: tuple[str, str], names: dict[str, int]
    ) -> None:
        if self._repeats(at + step, shape.rows, (names[sources[0]], names[sources[1]])):
            return
        self._open(at + step)
        emit_skip_layernorm(
            self.builder,
            self._spec,
            shape,
            (names[sources[0]], names[sources[1]]),
            (self._tensor(at, sources[0]), self._tensor(at, sources[1])),
            self._entry.target_core,
        )
        self.builder.end_layer()

    def _emit_activation(self, at: str, number: int, tokens: int, names: dict[str, int]) -> None:
        model = self._model
        is_gated = model.ffn_type == "llama"
        width = self._sizes.ffn_width
        out_features = width // 2 if is_gated else width
        places = names["fc1.out"], self._weights[number]["fc1.bias"], names["activation.out"]
        if self._repeats(at + "activation", tokens, places):
            return
        self._open(at + "activation")
        emit_bias_activation(
            self.builder,
            self._spec,
            TokenShape(tokens, 1, width),
            Activation(_ACTIVATIONS[model.activation_function], out_features, is_gated),
            places,
            (self._tensor(at, "fc1.out"), self._tensor(at, "fc1.bias"), self._tensor(at, "activation.out")),
            is_spread=True,
            core=self._entry.target_core,
        )
        self.builder.end_layer()

    def _memory_map(self, dram: int) -> MemoryMap:
        """Return the places of weights, and the first place of every other tensor."""
        found: dict[int, Allocation] = {}
        end = 0
        for name, address, size in self._allocator.places:
            tensor = self._sketch.tensors.get(name)
            if tensor is not None and tensor not in found and address >= end:
                found[tensor] = Allocation(tensor, dram, address, size)
            end = max(end, address + size)
        return MemoryMap(tuple(found.values()))


def _steps(at: str, source: str, model: LanguageModel, sizes: LanguageSizes) -> Sequence[Step]:
    """Return the steps of one layer as ONNXim runs it, for the operator graph that people read."""
    h = sizes.hidden
    caches = (at + "k_cache", at + "v_cache")
    return (
        ("qkv", "Gemm", (source, at + "qkv.weight", at + "qkv.bias"), sizes.qkv_width),
        ("kv_append", "KVAppend", (at + "qkv.out", *caches), h),
        ("attention", "Attention", (at + "kv_append.out", *caches), sizes.attention),
        ("concat", "Concat", (at + "attention.out",), sizes.attention),
        ("projection", "Gemm", (at + "concat.out", at + "projection.weight", at + "projection.bias"), h),
        ("ln1", "SkipLayerNormalization", (source, at + "projection.out"), h),
        ("fc1", "MatMul", (at + "ln1.out", at + "fc1.weight"), sizes.ffn_width),
        ("activation", "BiasActivation", (at + "fc1.out", at + "fc1.bias"), sizes.ffn_inner),
        ("fc2", "Gemm", (at + "activation.out", at + "fc2.weight", at + "fc2.bias"), h),
        ("ln2", "SkipLayerNormalization", (at + "ln1.out", at + "fc2.out"), h),
    )


def compile_language(
    model: LanguageModel,
    spec: SystolicSpec,
    entry: ModelEntry,
    trace: Sequence[TraceRow],
    *,
    dram: int = 0,
    progress: Progress | None = None,
) -> Compiled:
    """Compile a language model and its request trace; `dram` is the DRAM's memory id.

    Raises TargetError.
    """
    check_geometry(spec, entry.target_core)
    check_language_entry(entry)
    if spec.config.scheduler != "simple":
        raise TargetError(
            f"under scheduler {spec.config.scheduler} ONNXim's language mode never ends (flaw F21); "
            "--set scheduler=simple or --set mode=true runs it"
        )
    return LanguageCompiler(model, spec, entry).compile(trace, dram, progress or NoProgress())


def check_language_entry(entry: ModelEntry) -> None:
    """Raise TargetError for request schedulers that do not exist."""
    if entry.scheduler not in SCHEDULERS:
        raise TargetError(
            f"model {entry.name!r} asks for request scheduler {entry.scheduler[:40]!r}; "
            f"there are {', '.join(SCHEDULERS)}"
        )
