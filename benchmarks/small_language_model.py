"""Writes a small language model in the form of onnxruntime-genai's exporter, with random weights.

`python -m benchmarks.small_language_model FOLDER [int4] [MultiHeadAttention|Attention]` writes model.onnx,
genai_config.json and prompt.npy. The weights are random but similar to trained ones: singular values that
fall off, a head that shares its table with the embedding, and attention to earlier tokens, so that tokens
depend on the cache.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Shape:
    """Sizes of the model.

    bits       4 for weights in blocks of 32 with scales (MatMulNBits), 32 for floats
    attention  GroupQueryAttention, MultiHeadAttention (as many key heads as heads),
               or the standard's Attention
    """

    layers: int = 2
    hidden: int = 128
    heads: int = 4
    kv_heads: int = 2
    features: int = 32
    inner: int = 256
    vocabulary: int = 512
    context: int = 64
    bits: int = 32
    attention: str = "GroupQueryAttention"


class _Model:
    """Nodes and weights under construction."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.generator = np.random.default_rng(7)

    def weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        name = output.removesuffix("/output_0")
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def matrix(self, rows: int, columns: int, gain: float) -> np.ndarray:
        """Draw a matrix similar to a trained one: singular values fall off as a power of their index."""
        left = np.linalg.qr(self.generator.standard_normal((rows, rows)))[0]
        right = np.linalg.qr(self.generator.standard_normal((columns, columns)))[0]
        rank = min(rows, columns)
        values = gain * (1 + np.arange(rank)) ** -0.4
        return ((left[:, :rank] * values) @ right[:rank]).astype(np.float32)

    def product(self, source: str, name: str, matrix: np.ndarray) -> str:
        output = f"{name}/output_0"
        if self.shape.bits == 32:
            return self.add("MatMul", [source, self.weight(f"{name}.weight", matrix)], output)
        depth, columns = matrix.shape
        blocks = matrix.T.reshape(columns, depth // 32, 32)
        scales = np.abs(blocks).max(-1, keepdims=True) / 7
        levels = np.clip(np.round(blocks / scales) + 8, 0, 15).astype(np.uint8)
        packed = levels[..., 0::2] | (levels[..., 1::2] << 4)
        inputs = [
            source,
            self.weight(f"{name}.weight_Q4", packed),
            self.weight(f"{name}.weight_scales", scales.reshape(-1).astype(np.float32)),
        ]
        return self.add(
            "MatMulNBits", inputs, output, domain="com.microsoft", K=depth, N=columns, bits=4, block_size=32
        )


def _lengths(model: _Model) -> None:
    """Add the nodes that compute the rows in use from the attention mask."""
    at = "/model/attn_mask_reformat/attn_mask_subgraph"
    one = model.weight("/model/constants/one", np.array([1], np.int64))
    first = model.weight("/model/constants/first", np.array(1, np.int64))
    total = model.add("ReduceSum", ["attention_mask", one], f"{at}/ReduceSum/output_0")
    last = model.add("Sub", [total, one], f"{at}/Sub/output_0")
    model.add("Cast", [last], f"{at}/Sub/Cast/output_0", to=TensorProto.INT32)
    size = model.add("Shape", ["attention_mask"], f"{at}/Shape/output_0")
    length = model.add("Gather", [size, first], f"{at}/Gather/output_0", axis=0)
    model.add("Cast", [length], f"{at}/Gather/Cast/output_0", to=TensorProto.INT32)


def _layer(model: _Model, number: int, normal: str, residual: str) -> tuple[str, str]:
    """Add one layer. Returns its normalised output and the residual sum."""
    shape, at = model.shape, f"/model/layers.{number}"
    wide, narrow = shape.heads * shape.features, shape.kv_heads * shape.features
    query, key, value = (
        model.product(normal, f"{at}/attn/{name}_proj/MatMul", model.matrix(shape.hidden, width, gain))
        for name, width, gain in (("q", wide, 4.0), ("k", narrow, 4.0), ("v", narrow, 3.0))
    )
    attention = _attention(model, number, (query, key, value))
    mixed = model.product(attention, f"{at}/attn/o_proj/MatMul", model.matrix(wide, shape.hidden, 3.0))
    normal, residual = _normalised(model, f"{at}/post_attention_layernorm", residual, mixed)
    gate = model.product(normal, f"{at}/mlp/gate_proj/MatMul", model.matrix(shape.hidden, shape.inner, 3.0))
    up = model.product(normal, f"{at}/mlp/up_proj/MatMul", model.matrix(shape.hidden, shape.inner, 3.0))
    sigmoid = model.add("Sigmoid", [gate], f"{at}/mlp/act_fn/Sigmoid/output_0")
    silu = model.add("Mul", [gate, sigmoid], f"{at}/mlp/act_fn/Mul/output_0")
    both = model.add("Mul", [silu, up], f"{at}/mlp/Mul/output_0")
    down = model.product(both, f"{at}/mlp/down_proj/MatMul", model.matrix(shape.inner, shape.hidden, 2.0))
    is_last = number == shape.layers - 1
    following = f"/model/layers.{shape.layers}/final_norm_layernorm" if is_last else (
        f"/model/layers.{number + 1}/input_layernorm"
    )  # fmt: skip
    return _normalised(model, following, residual, down)


def _attention(model: _Model, number: int, operands: tuple[str, str, str]) -> str:
    """Add one attention with its part of the cache. Returns its result."""
    shape, operator = model.shape, model.shape.attention
    at = f"/model/layers.{number}/attn"
    past = [f"past_key_values.{number}.key", f"past_key_values.{number}.value"]
    outputs = [f"{at}/{operator}/output_0", f"present.{number}.key", f"present.{number}.value"]
    scale = 1 / np.sqrt(shape.features)
    if operator == "GroupQueryAttention":
        lengths = "/model/attn_mask_reformat/attn_mask_subgraph"
        counts = [f"{lengths}/Sub/Cast/output_0", f"{lengths}/Gather/Cast/output_0"]
        made = helper.make_node(
            operator, [*operands, *past, *counts, "cos_cache", "sin_cache"], outputs, name=f"{at}/{operator}",
            domain="com.microsoft", num_heads=shape.heads, kv_num_heads=shape.kv_heads, do_rotary=1,
            rotary_interleaved=0, local_window_size=-1, scale=scale,
        )  # fmt: skip
        model.nodes.append(made)
        return outputs[0]
    is_standard = operator == "Attention"
    turned: list[str] = []
    for name, source, heads in zip("qk", operands[:2], (shape.heads, shape.kv_heads), strict=True):
        places = ["cos_cache", "sin_cache", "position_ids"] if is_standard else (
            ["position_ids", "cos_cache", "sin_cache"]
        )  # fmt: skip
        model.nodes.append(
            helper.make_node(
                "RotaryEmbedding", [source, *places], [f"{at}/{name}_rotary/output_0"],
                name=f"{at}/{name}_rotary", domain="" if is_standard else "com.microsoft", num_heads=heads,
            )
        )  # fmt: skip
        turned.append(f"{at}/{name}_rotary/output_0")
    if is_standard:
        made = helper.make_node(
            operator, [*turned, operands[2], "", *past], outputs, name=f"{at}/{operator}", is_causal=1,
            q_num_heads=shape.heads, kv_num_heads=shape.kv_heads, scale=scale,
        )  # fmt: skip
    else:
        made = helper.make_node(
            operator, [*turned, operands[2], "", "", "", *past], outputs, name=f"{at}/{operator}",
            domain="com.microsoft", num_heads=shape.heads, unidirectional=1, scale=scale,
        )  # fmt: skip
    model.nodes.append(made)
    return outputs[0]


def _normalised(model: _Model, name: str, residual: str, added: str) -> tuple[str, str]:
    scale = 1 + 0.2 * model.generator.standard_normal(model.shape.hidden)
    inputs = [residual, added, model.weight(f"{name}.weight", scale.astype(np.float32))]
    outputs = [f"{name}/output_0", "", "", f"{name}/output_3"]
    model.nodes.append(
        helper.make_node(
            "SkipSimplifiedLayerNormalization", inputs, outputs, name=f"{name}/SkipLayerNorm",
            domain="com.microsoft", epsilon=1e-5,
        )
    )  # fmt: skip
    return outputs[0], outputs[3]


def make_model(shape: Shape) -> onnx.ModelProto:
    """Make the model; its inputs and outputs have the names of onnxruntime-genai."""
    model = _Model(shape)
    is_grouped = shape.attention == "GroupQueryAttention"
    if is_grouped:
        _lengths(model)
    pairs = shape.features // 2
    angles = np.arange(shape.context)[:, None] * 10000.0 ** -(np.arange(pairs) / pairs)
    model.weight("cos_cache", np.cos(angles).astype(np.float32))
    model.weight("sin_cache", np.sin(angles).astype(np.float32))
    table = 0.25 * model.generator.standard_normal((shape.vocabulary, shape.hidden)).astype(np.float32)
    model.weight("model.embed_tokens.weight", table)
    name = "/model/embed_tokens/Gather"
    residual = model.add("Gather", ["model.embed_tokens.weight", "input_ids"], f"{name}/output_0")
    scale = model.weight("model.layers.0.input_layernorm.weight", np.ones(shape.hidden, np.float32))
    normal = model.add(
        "SimplifiedLayerNormalization", [residual, scale], "/model/layers.0/input_layernorm/output_0",
        axis=-1, epsilon=1e-5, stash_type=1,
    )  # fmt: skip
    for number in range(shape.layers):
        normal, residual = _layer(model, number, normal, residual)
    order = model.generator.permutation(shape.vocabulary)
    model.product(normal, "/lm_head/MatMul", np.ascontiguousarray(table[order].T) / 2)
    model.nodes[-1].output[0] = "logits"
    past = ["batch_size", shape.kv_heads, "past_sequence_length", shape.features]
    total = ["batch_size", shape.kv_heads, "total_sequence_length", shape.features]
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
    ]
    sizes = ["batch_size", "total_sequence_length" if is_grouped else "sequence_length"]
    name = "attention_mask" if is_grouped else "position_ids"
    inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, sizes))
    outputs = [
        helper.make_tensor_value_info(
            "logits", TensorProto.FLOAT, ["batch_size", "sequence_length", shape.vocabulary]
        )
    ]
    for number in range(shape.layers):
        for part in ("key", "value"):
            inputs.append(
                helper.make_tensor_value_info(f"past_key_values.{number}.{part}", TensorProto.FLOAT, past)
            )
            outputs.append(
                helper.make_tensor_value_info(f"present.{number}.{part}", TensorProto.FLOAT, total)
            )
    graph = helper.make_graph(model.nodes, "main_graph", inputs, outputs, model.weights)
    imports = [
        helper.make_opsetid("", 23 if shape.attention == "Attention" else 21),
        helper.make_opsetid("com.microsoft", 1),
    ]
    made = helper.make_model(graph, opset_imports=imports)
    made.ir_version = 10
    return made


def write_model(folder: Path, shape: Shape | None = None, prompt: int = 12) -> Path:
    """Write the model, its genai_config.json and a prompt of `prompt` tokens. Returns the model's path."""
    chosen = shape or Shape()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    onnx.save(make_model(chosen), path)
    decoder = {
        "filename": "model.onnx", "head_size": chosen.features, "hidden_size": chosen.hidden,
        "num_attention_heads": chosen.heads, "num_hidden_layers": chosen.layers,
        "num_key_value_heads": chosen.kv_heads,
        "inputs": {
            "input_ids": "input_ids", "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits", "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }  # fmt: skip
    config = {
        "model": {"context_length": chosen.context, "decoder": decoder, "vocab_size": chosen.vocabulary}
    }
    (folder / "genai_config.json").write_text(json.dumps(config, indent=1))
    ids = np.random.default_rng(6).integers(0, chosen.vocabulary, (1, prompt))
    np.save(folder / "prompt.npy", ids)
    return path


if __name__ == "__main__":
    wanted = sys.argv[2:]
    operators = [name for name in wanted if name.endswith("Attention")] or ["GroupQueryAttention"]
    heads = 4 if operators[0] == "MultiHeadAttention" else 2
    chosen = Shape(bits=4 if "int4" in wanted else 32, kv_heads=heads, attention=operators[0])
    print(write_model(Path(sys.argv[1]), chosen))
