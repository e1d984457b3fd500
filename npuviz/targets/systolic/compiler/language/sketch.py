"""The operators and tensors of a language model in true mode, shared by all iterations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from npuviz.formats.onnxim.workloads import LanguageModel
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor, TensorKind
from npuviz.targets.systolic.compiler.language.sizes import LanguageSizes

_DTYPE = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}

Step = tuple[str, str, tuple[str, ...], int]
"""Name inside its layer, operator, names of its inputs, and features of its output."""

Steps = Callable[[str, str, LanguageModel, LanguageSizes], Sequence[Step]]
"""Returns the steps of a layer in order, from the prefix of its names, the name of its input, and the
sizes."""

ACTIVATIONS = {"relu": "Relu", "gelu": "Gelu", "swish": "Silu"}
"""Activation of a model file -> ONNX operator."""


@dataclass
class GraphSketch:
    """Collects nodes and tensors; `tensors` and `nodes` map names to ids."""

    precision: int
    tensors: dict[str, int] = field(default_factory=dict[str, int])
    nodes: dict[str, int] = field(default_factory=dict[str, int])
    _tensors: list[Tensor] = field(default_factory=list[Tensor])
    _nodes: list[Node] = field(default_factory=list[Node])

    def tensor(self, name: str, shape: tuple[int, ...], kind: TensorKind = "activation") -> int:
        """Add a tensor that no node makes, and return its id."""
        return self._add(name, shape, kind, -1)

    def _add(self, name: str, shape: tuple[int, ...], kind: TensorKind, producer: int) -> int:
        self.tensors[name] = len(self._tensors)
        self._tensors.append(Tensor(len(self._tensors), name, shape, _DTYPE[self.precision], kind, producer))
        return self.tensors[name]

    def node(
        self, name: str, op_type: str, inputs: tuple[str, ...], shape: tuple[int, ...], out: str = ""
    ) -> None:
        """Add an operator with one output, which is named `out`, or after the node."""
        number = self.nodes[name] = len(self._nodes)
        output = self._add(out or f"{name}.out", shape, "activation", number)
        sources = tuple(self.tensors[source] for source in inputs)
        self._nodes.append(Node(number, name, op_type, "npuviz.language", sources, (output,)))

    def finish(self, name: str) -> Graph:
        """Return the graph; its last tensor is the output."""
        last = self._tensors[-1]
        self._tensors[-1] = Tensor(last.id, last.name, last.shape, last.dtype, "output", last.producer)
        zero = np.zeros((), dtype=np.float32)
        constants = {t.id: np.broadcast_to(zero, t.shape) for t in self._tensors if t.kind == "weight"}
        inputs = tuple(tensor.id for tensor in self._tensors if tensor.kind == "input")
        return Graph(name, tuple(self._nodes), tuple(self._tensors), inputs, (last.id,), constants)


@dataclass(frozen=True)
class LanguageSketch:
    """The graph, ids by name, and which of its dimensions are tokens.

    per_token  tensor id -> features of a token, for tensors whose first dimension is the iteration's tokens
    """

    graph: Graph
    tensors: dict[str, int]
    nodes: dict[str, int]
    per_token: dict[int, int]


def sketch_language(
    name: str, model: LanguageModel, sizes: LanguageSizes, tokens: int, precision: int
) -> LanguageSketch:
    """Make the graph of an iteration over `tokens` tokens."""
    return sketch_steps(name, model, sizes, tokens, precision, sizes.kv_width, _steps)


def sketch_steps(
    name: str,
    model: LanguageModel,
    sizes: LanguageSizes,
    tokens: int,
    precision: int,
    cache_width: int,
    steps: Steps,
) -> LanguageSketch:
    """Make a graph whose layers consist of steps; the last step of a layer is called ln2."""
    sketch = GraphSketch(precision)
    widths: dict[str, int] = {"input": sizes.hidden}
    sketch.tensor("input", (tokens, sizes.hidden), "input")
    source = "input"
    for number in range(sizes.num_simulated):
        at = f"layer{number}."
        for weight, shape in sizes.weight_shapes().items():
            sketch.tensor(at + weight, shape, "weight")
        for cache in ("k_cache", "v_cache"):
            sketch.tensor(at + cache, (model.max_seq_length, cache_width), "input")
        for step, op_type, inputs, width in steps(at, source, model, sizes):
            sketch.node(at + step, op_type, inputs, (tokens, width))
            widths[f"{at}{step}.out"] = width
        source = at + "ln2.out"
    graph = sketch.finish(name)
    nodes = tuple(
        replace(node, attributes={"activation": ACTIVATIONS[model.activation_function]})
        if node.op_type == "FusedGemm"
        else node
        for node in graph.nodes
    )
    per_token = {sketch.tensors[tensor]: width for tensor, width in widths.items()}
    return LanguageSketch(replace(graph, nodes=nodes), sketch.tensors, sketch.nodes, per_token)


def _steps(at: str, source: str, model: LanguageModel, sizes: LanguageSizes) -> list[Step]:
    """Return the steps of one layer, in order."""
    is_gated = model.ffn_type == "llama"
    found: list[Step] = [
        ("qkv", "Gemm", (source, at + "qkv.weight", at + "qkv.bias"), sizes.qkv_width),
        ("kv_append", "KVAppend", (at + "qkv.out", at + "k_cache", at + "v_cache"), sizes.kv_width),
        ("attention", "Attention", (at + "qkv.out", at + "k_cache", at + "v_cache"), sizes.attention),
        (
            "projection",
            "Gemm",
            (at + "attention.out", at + "projection.weight", at + "projection.bias"),
            sizes.hidden,
        ),
        (
            "ln1",
            "SkipLayerNormalization",
            (source, at + "projection.out", at + "ln1.weight", at + "ln1.bias"),
            sizes.hidden,
        ),
        (
            "fc1",
            "Gemm" if is_gated else "FusedGemm",
            (at + "ln1.out", at + "fc1.weight", at + "fc1.bias"),
            sizes.ffn_width,
        ),
    ]
    if is_gated:
        found.append(("activation", "GatedActivation", (at + "fc1.out",), sizes.ffn_inner))
    middle = at + ("activation.out" if is_gated else "fc1.out")
    found += [
        ("fc2", "Gemm", (middle, at + "fc2.weight", at + "fc2.bias"), sizes.hidden),
        (
            "ln2",
            "SkipLayerNormalization",
            (at + "ln1.out", at + "fc2.out", at + "ln2.weight", at + "ln2.bias"),
            sizes.hidden,
        ),
    ]
    return found
