"""The operator graph that stands for one iteration of a language model, for people to read along.

Its nodes and tensors are shared by all iterations; shapes are those of the first one.
"""

from dataclasses import dataclass, field

import numpy as np

from npuviz.formats.onnxim.workloads import LanguageModel
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor, TensorKind
from npuviz.targets.systolic.compiler.language.sizes import LanguageSizes

_DTYPE = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}


@dataclass
class GraphSketch:
    """Collects nodes and tensors; `tensors` and `nodes` give ids by name."""

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
        """Add an operator with one output, called as the node unless `out` names it."""
        number = self.nodes[name] = len(self._nodes)
        output = self._add(out or f"{name}.out", shape, "activation", number)
        sources = tuple(self.tensors[source] for source in inputs)
        self._nodes.append(Node(number, name, op_type, "npuviz.language", sources, (output,)))

    def finish(self, name: str) -> Graph:
        """The graph; its last tensor is the output."""
        last = self._tensors[-1]
        self._tensors[-1] = Tensor(last.id, last.name, last.shape, last.dtype, "output", last.producer)
        zero = np.zeros((), dtype=np.float32)
        constants = {t.id: np.broadcast_to(zero, t.shape) for t in self._tensors if t.kind == "weight"}
        inputs = tuple(tensor.id for tensor in self._tensors if tensor.kind == "input")
        return Graph(name, tuple(self._nodes), tuple(self._tensors), inputs, (last.id,), constants)


def sketch_language_graph(
    name: str, model: LanguageModel, sizes: LanguageSizes, tokens: int, precision: int
) -> tuple[Graph, GraphSketch]:
    """The graph of an iteration over `tokens` tokens, and the ids of its parts by name."""
    sketch = GraphSketch(precision)
    h, seq = sizes.hidden, model.max_seq_length
    source = "input"
    sketch.tensor(source, (tokens, h), "input")
    for number in range(sizes.num_simulated):
        at = f"layer{number}."
        for weight, shape in sizes.weight_shapes().items():
            sketch.tensor(at + weight, shape, "weight")
        sketch.tensor(at + "k_cache", (seq, sizes.cache_width), "input")
        sketch.tensor(at + "v_cache", (seq, sizes.cache_width), "input")
        caches = (at + "k_cache", at + "v_cache")
        steps = (
            ("qkv", "Gemm", (source, at + "qkv.weight", at + "qkv.bias"), (tokens, sizes.qkv_width)),
            ("kv_append", "KVAppend", (at + "qkv.out", *caches), (tokens, h)),
            ("attention", "Attention", (at + "kv_append.out", *caches), (tokens, sizes.attention)),
            ("concat", "Concat", (at + "attention.out",), (tokens, sizes.attention)),
            (
                "projection",
                "Gemm",
                (at + "concat.out", at + "projection.weight", at + "projection.bias"),
                (tokens, h),
            ),
            ("ln1", "SkipLayerNormalization", (source, at + "projection.out"), (tokens, h)),
            ("fc1", "MatMul", (at + "ln1.out", at + "fc1.weight"), (tokens, sizes.ffn_width)),
            (
                "activation",
                "BiasActivation",
                (at + "fc1.out", at + "fc1.bias"),
                (tokens, sizes.ffn_inner),
            ),
            ("fc2", "Gemm", (at + "activation.out", at + "fc2.weight", at + "fc2.bias"), (tokens, h)),
            ("ln2", "SkipLayerNormalization", (at + "ln1.out", at + "fc2.out"), (tokens, h)),
        )
        for step, op_type, inputs, shape in steps:
            sketch.node(at + step, op_type, inputs, shape)
        source = at + "ln2.out"
    return sketch.finish(name), sketch
