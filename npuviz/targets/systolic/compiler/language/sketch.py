"""The operators and tensors of a language model in true mode, shared by all iterations."""

from dataclasses import dataclass, replace

from npuviz.formats.onnxim.workloads import LanguageModel
from npuviz.program.graph import Graph
from npuviz.targets.systolic.compiler.language.sizes import LanguageSizes
from npuviz.targets.systolic.compiler.parity.language_graph import GraphSketch

ACTIVATIONS = {"relu": "Relu", "gelu": "Gelu", "swish": "Silu"}
"""Activation of a model file -> the name of the operator that is it."""


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
    """The graph of an iteration over `tokens` tokens."""
    sketch = GraphSketch(precision)
    widths: dict[str, int] = {"input": sizes.hidden}
    sketch.tensor("input", (tokens, sizes.hidden), "input")
    source = "input"
    for number in range(sizes.num_simulated):
        at = f"layer{number}."
        for weight, shape in sizes.weight_shapes().items():
            sketch.tensor(at + weight, shape, "weight")
        for cache in ("k_cache", "v_cache"):
            sketch.tensor(at + cache, (model.max_seq_length, sizes.kv_width), "input")
        for step, op_type, inputs, width in _steps(at, source, model, sizes):
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


def _steps(
    at: str, source: str, model: LanguageModel, sizes: LanguageSizes
) -> list[tuple[str, str, tuple[str, ...], int]]:
    """(step, operator, inputs, features of its output) of one layer, in order."""
    is_gated = model.ffn_type == "llama"
    found: list[tuple[str, str, tuple[str, ...], int]] = [
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
