"""The operator graph that stands for one iteration of a language model, for people to read along.

Its nodes and tensors are shared by all iterations; shapes are those of the first one.
"""

from npuviz.formats.onnxim.workloads import LanguageModel
from npuviz.program.graph import Graph
from npuviz.targets.systolic.compiler.language.sizes import LanguageSizes
from npuviz.targets.systolic.compiler.language.sketch import GraphSketch


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
