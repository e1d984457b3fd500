"""Operators of language models written out compute what ONNX Runtime computes of them whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.passes.contrib import recurrent
from npuviz.onnx.passes.contrib.expand import WRITERS
from npuviz.onnx.passes.contrib.selection import WRITERS as SELECTION
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.onnx.runtime import onnxruntime
from tests.onnx.cases import save, value
from tests.sweeps import quick

Arrays = Mapping[str, np.ndarray]
_GENERATOR = np.random.default_rng(5)
_TABLE = np.arange(32)[:, None] / 10.0 ** np.arange(0, 1, 0.125)


@pytest.fixture(autouse=True)
def same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ran before, a test has its own."""
    monkeypatch.setattr(f"{__name__}._GENERATOR", np.random.default_rng(5))


def floats(*shape: int) -> np.ndarray:
    return _GENERATOR.standard_normal(shape).astype(np.float32)


def model(
    path: Path, node: Any, arrays: Arrays, weights: Arrays, outputs: int, opset: int = 21
) -> tuple[Path, dict[str, np.ndarray]]:
    """A file with one operator, and what ONNX Runtime makes of it."""
    inputs = [
        value(name, list(array.shape), helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in arrays.items()
    ]
    names = [name for name in node.output if name]
    assert len(names) == outputs
    made = [value(name, None, TensorProto.FLOAT) for name in names]
    file = save(
        path / "m.onnx", [node], inputs, made, dict(weights), opset=opset, domains={"com.microsoft": 1}
    )
    options = onnxruntime.SessionOptions()
    # With more threads, a quantised LSTM rounds the state of each of a batch by itself.
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    results = session.run(None, dict(arrays))
    return file, {name: np.asarray(result) for name, result in zip(names, results, strict=True)}


def compare(path: Path, node: Any, arrays: Arrays, weights: Arrays | None = None, opset: int = 21) -> None:
    file, expected = model(path, node, arrays, weights or {}, len([n for n in node.output if n]), opset)
    graph = read_model(file, given=Given(arrays))
    assert not {each.op_type for each in graph.nodes} & (WRITERS.keys() - SELECTION.keys())
    found = run_reference(graph, dict(arrays), graph.outputs)
    for tensor in graph.outputs:
        name = graph.tensors[tensor].name
        pairs = [(found[tensor], expected[name])]
        if name.startswith("present") and "lengths" in arrays:
            # What lies behind the rows in use is nobody's: the runtime leaves zeros there.
            ends = np.asarray(arrays["lengths"]) + 1
            pairs = [(found[tensor][i, :, :end], expected[name][i, :, :end]) for i, end in enumerate(ends)]
        for mine, wanted in pairs:
            assert mine.shape == wanted.shape
            np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=2e-5, err_msg=name)


def group_query(**attributes: Any) -> Any:
    inputs = ["q", "k", "v", "pk", "pv", "lengths", "total", "cos", "sin"]
    outputs = ["y", "present_k", "present_v"]
    return helper.make_node(
        "GroupQueryAttention", inputs, outputs, "att", domain="com.microsoft",
        num_heads=4, kv_num_heads=2, **attributes,
    )  # fmt: skip


@quick(every=3)
@pytest.mark.parametrize(
    ("rows", "cached", "used", "attributes"),
    [
        (5, 0, 0, {"do_rotary": 1}),
        (1, 12, 7, {"do_rotary": 1}),
        (1, 12, 7, {"do_rotary": 1, "rotary_interleaved": 1, "softcap": 5.0}),
        (1, 7, 7, {"do_rotary": 1, "scale": 0.3}),
        (3, 7, 7, {"do_rotary": 1}),
        (3, 12, 6, {"do_rotary": 0}),
        (6, 0, 0, {"do_rotary": 1, "local_window_size": 3}),
        (1, 12, 9, {"do_rotary": 1, "local_window_size": 4}),
        (3, 12, 6, {"do_rotary": 1, "local_window_size": 4}),
    ],
)
def test_grouped_heads_with_a_cache(
    tmp_path: Path, rows: int, cached: int, used: int, attributes: dict[str, Any]
) -> None:
    total = used + rows
    arrays = {
        "q": floats(1, rows, 4 * 16), "k": floats(1, rows, 2 * 16), "v": floats(1, rows, 2 * 16),
        "pk": floats(1, 2, cached, 16), "pv": floats(1, 2, cached, 16),
        "lengths": np.array([total - 1], np.int32),
    }  # fmt: skip
    weights = {
        "total": np.array(max(total, cached), np.int32),
        "cos": np.cos(_TABLE).astype(np.float32),
        "sin": np.sin(_TABLE).astype(np.float32),
    }
    compare(tmp_path, group_query(**attributes), arrays, weights)


def test_sequences_of_unlike_length(tmp_path: Path) -> None:
    arrays = {
        "q": floats(2, 1, 64), "k": floats(2, 1, 32), "v": floats(2, 1, 32),
        "pk": floats(2, 2, 9, 16), "pv": floats(2, 2, 9, 16), "lengths": np.array([3, 6], np.int32),
    }  # fmt: skip
    weights = {
        "total": np.array(9, np.int32),
        "cos": np.cos(_TABLE).astype(np.float32),
        "sin": np.sin(_TABLE).astype(np.float32),
    }
    compare(tmp_path, group_query(do_rotary=1), arrays, weights)


def test_packed_queries_keys_and_values(tmp_path: Path) -> None:
    node = helper.make_node(
        "GroupQueryAttention", ["q", "", "", "pk", "pv", "lengths", "total"], ["y", "present_k", "present_v"],
        domain="com.microsoft", num_heads=4, kv_num_heads=2,
    )  # fmt: skip
    arrays = {
        "q": floats(1, 4, 64), "pk": floats(1, 2, 0, 8), "pv": floats(1, 2, 0, 8),
        "lengths": np.array([3], np.int32),
    }  # fmt: skip
    compare(tmp_path, node, arrays, {"total": np.array(4, np.int32)})


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"),
    [
        (["q", "k", "v"], 1, {}),
        (["q", "k", "v", "bias", "", "mask"], 1, {"unidirectional": 1}),
        (["q", "k", "v", "", "", "mask_all", "pk", "pv"], 3, {"scale": 0.2}),
        (["q", "k", "v", "", "", "", "pk", "pv"], 3, {"unidirectional": 1}),
    ],
)
def test_many_heads(tmp_path: Path, inputs: list[str], outputs: int, attributes: dict[str, Any]) -> None:
    names = ["y", "present_k", "present_v"][:outputs]
    node = helper.make_node(
        "MultiHeadAttention", inputs, names, domain="com.microsoft", num_heads=4, **attributes
    )
    known = {
        "q": floats(2, 5, 32), "k": floats(2, 5, 32), "v": floats(2, 5, 32), "bias": floats(96),
        "mask": floats(1, 1, 5, 5), "mask_all": floats(2, 4, 5, 11), "pk": floats(2, 4, 6, 8),
        "pv": floats(2, 4, 6, 8),
    }  # fmt: skip
    compare(tmp_path, node, {name: known[name] for name in inputs if name})


@pytest.mark.parametrize(
    ("bits", "depth", "points"),
    [(4, 64, ""), (4, 64, "packed"), (8, 48, ""), (4, 48, "floats"), (8, 64, "packed")],
)
def test_weights_of_few_bits(tmp_path: Path, bits: int, depth: int, points: str) -> None:
    columns, block = 24, 32
    blocks = -(-depth // block)
    generator = np.random.default_rng(3)
    weights = {
        "b": generator.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8),
        "s": floats(columns * blocks),
    }
    inputs = ["x", "b", "s"]
    if points:
        width = -(-blocks * bits // 8)
        packed = generator.integers(0, 256, (columns, width)).astype(np.uint8)
        weights["z"] = packed if points == "packed" else floats(columns, blocks)
        inputs.append("z")
    node = helper.make_node(
        "MatMulNBits", inputs, ["y"], domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=block
    )
    compare(tmp_path, node, {"x": floats(3, depth) / 8}, weights)


@quick(every=3)
@pytest.mark.parametrize("is_paired", [0, 1])
@pytest.mark.parametrize("partial", [0, 4])
@pytest.mark.parametrize("rank", [3, 4])
def test_turned_pairs(tmp_path: Path, is_paired: int, partial: int, rank: int) -> None:
    pairs = (partial or 8) // 2
    weights = {
        "cos": np.cos(_TABLE[:, :pairs]).astype(np.float32),
        "sin": np.sin(_TABLE[:, :pairs]).astype(np.float32),
    }
    x = floats(2, 5, 32) if rank == 3 else floats(2, 4, 5, 8)
    kept: dict[str, Any] = {"num_heads": 4, "rotary_embedding_dim": partial} if partial or rank == 3 else {}
    for positions in (np.array([3], np.int64), np.arange(10).reshape(2, 5)):
        node = helper.make_node(
            "RotaryEmbedding", ["x", "p", "cos", "sin"], ["y"], domain="com.microsoft",
            interleaved=is_paired, **kept,
        )  # fmt: skip
        compare(tmp_path, node, {"x": x, "p": positions}, weights)
    if rank == 4 and not partial:
        node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin", "p"], ["y"], interleaved=is_paired)
        compare(tmp_path, node, {"x": x, "p": np.arange(10).reshape(2, 5)}, weights, opset=23)


@pytest.mark.parametrize("operator", ["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"])
def test_sums_that_are_normalised(tmp_path: Path, operator: str) -> None:
    inputs = ["x", "skip", "gamma"] + (["beta"] if operator == "SkipLayerNormalization" else []) + ["bias"]
    node = helper.make_node(operator, inputs, ["y", "", "", "sum"], domain="com.microsoft", epsilon=1e-3)
    weights = {"gamma": floats(16), "beta": floats(16), "bias": floats(16)}
    kept = {name: array for name, array in weights.items() if name in inputs}
    compare(tmp_path, node, {"x": floats(2, 3, 16), "skip": floats(2, 3, 16)}, kept)


@quick(every=5)
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("is_late", [0, 1])
@pytest.mark.parametrize("opset", [11, 21])
def test_recurrent_operators_step_by_step(
    tmp_path: Path, operator: str, direction: str, is_late: int, opset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(recurrent, "MIN_RNN_WEIGHTS", 0)
    gates, directions = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator], (2 if direction == "bidirectional" else 1)
    weights = {
        "w": floats(directions, gates * 6, 5),
        "r": floats(directions, gates * 6, 6),
        "b": floats(directions, 2 * gates * 6),
    }
    arrays = {"x": floats(4, 2, 5)}
    inputs = ["x", "w", "r"]
    if is_late:
        arrays["h"] = floats(directions, 2, 6)
        inputs += ["b", "", "h"]
        if operator == "LSTM":
            arrays["c"] = floats(directions, 2, 6)
            inputs.append("c")
    kept = {name: array for name, array in weights.items() if name in inputs}
    more: dict[str, Any] = {"linear_before_reset": is_late} if operator == "GRU" else {}
    outputs = ["y", "y_h", "y_c"] if operator == "LSTM" else ["y", "y_h"]
    node = helper.make_node(operator, inputs, outputs, direction=direction, hidden_size=6, **more)
    file, expected = model(tmp_path, node, arrays, kept, len(outputs), opset)
    graph = read_model(file, given=Given(arrays), form=ModelForm(whole=lambda _: False))
    assert operator not in {each.op_type for each in graph.nodes}
    found = run_reference(graph, arrays, graph.outputs)
    for tensor in graph.outputs:
        name = graph.tensors[tensor].name
        np.testing.assert_allclose(found[tensor], expected[name], rtol=2e-5, atol=2e-5, err_msg=name)
    assert [each.op_type for each in read_model(file, given=Given(arrays)).nodes] == [operator]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("size", [1, 5])
def test_a_scaler_of_tables(tmp_path: Path, kind: type, size: int) -> None:
    node = helper.make_node(
        "Scaler", ["x"], ["y"], domain="ai.onnx.ml",
        offset=[float(n) for n in range(size)], scale=[0.5 + n for n in range(size)],
    )  # fmt: skip
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), [3, 5])
    made = helper.make_tensor_value_info("y", 1, [3, 5])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    proto = helper.make_model(
        helper.make_graph([node], "g", [given], [made]), opset_imports=imports, ir_version=9
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    arrays = {"x": (10 * floats(3, 5)).astype(kind)}
    graph = read_model(path, given=Given(arrays))
    assert [each.op_type for each in graph.nodes if each.op_type != "Cast"] == ["Sub", "Mul"]
    (found,) = run_reference(graph, arrays, graph.outputs).values()
    offset, scale = np.arange(size), 0.5 + np.arange(size)
    np.testing.assert_allclose(found, (arrays["x"] - offset) * scale, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("operator", "steps", "is_written"), [("GRU", 4, True), ("GRU", 5, False)])
def test_few_steps_are_written_out_whatever_their_weights(
    tmp_path: Path, operator: str, steps: int, is_written: bool
) -> None:
    node = helper.make_node(operator, ["x", "w", "r"], ["y"], hidden_size=6)
    weights = {"w": floats(1, 18, 5), "r": floats(1, 18, 6)}
    arrays = {"x": floats(steps, 1, 5)}
    file, _ = model(tmp_path, node, arrays, weights, 1)
    graph = read_model(file, given=Given(arrays), form=ModelForm(whole=lambda _: False))
    assert (operator not in {each.op_type for each in graph.nodes}) == is_written


@pytest.mark.parametrize("is_by_column", [False, True])
def test_quantised_recurrent_operators_in_floats(tmp_path: Path, is_by_column: bool) -> None:
    """Weights become what they stand for, and the operator says that nothing is rounded at run time."""
    generator, shape = np.random.default_rng(6), (2, 24) if is_by_column else (2,)
    codes = [generator.integers(0, 255, (2, rows, 24)).astype(np.uint8) for rows in (5, 6)]
    weights = {
        "w": codes[0], "r": codes[1], "b": floats(2, 48),
        "ws": generator.uniform(0.005, 0.01, shape).astype(np.float32), "wz": np.full(shape, 128, np.uint8),
        "rs": generator.uniform(0.005, 0.01, shape).astype(np.float32), "rz": np.full(shape, 120, np.uint8),
    }  # fmt: skip
    arrays = {"x": floats(4, 2, 5)}
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"],
        ["y", "y_h", "y_c"], domain="com.microsoft", direction="bidirectional", hidden_size=6,
    )  # fmt: skip
    file, expected = model(tmp_path, node, arrays, weights, 3)
    graph = read_model(file, given=Given(arrays), form=ModelForm(float_recurrence=1 << 20))
    assert [each.op_type for each in graph.nodes] == ["LSTM"]
    assert "not rounded to 8 bits" in graph.assumptions[-1]
    found = run_reference(graph, arrays, graph.outputs)
    for tensor in graph.outputs:
        name = graph.tensors[tensor].name
        np.testing.assert_allclose(found[tensor], expected[name], atol=0.02, err_msg=name)
    larger = read_model(file, given=Given(arrays), form=ModelForm(float_recurrence=100))
    assert [each.op_type for each in larger.nodes] == [node.op_type]


@quick("False-forward", "True-bidirectional")
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("is_signed", [False, True])
def test_quantised_recurrent_operators_step_by_step(tmp_path: Path, direction: str, is_signed: bool) -> None:
    """The inputs of all steps are rounded with one scale, the state before each step with its own."""
    directions = 2 if direction == "bidirectional" else 1
    kind = np.int8 if is_signed else np.uint8
    middle = 0 if is_signed else 128
    codes = np.random.default_rng(5).integers(-100, 100, (2, directions, 6, 24)) + middle
    weights = {
        "w": codes[0, :, :5].astype(kind), "r": codes[1].astype(kind), "b": floats(directions, 48),
        "ws": np.linspace(0.01, 0.02, directions, dtype=np.float32),
        "wz": np.full(directions, middle, kind),
        "rs": np.linspace(0.02, 0.01, directions, dtype=np.float32),
        "rz": np.full(directions, middle, kind),
    }  # fmt: skip
    arrays = {"x": floats(4, 2, 5), "h": floats(directions, 2, 6), "c": floats(directions, 2, 6)}
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"],
        ["y", "y_h", "y_c"], domain="com.microsoft", direction=direction, hidden_size=6,
    )  # fmt: skip
    file, expected = model(tmp_path, node, arrays, weights, 3)
    graph = read_model(file, given=Given(arrays), form=ModelForm(dynamic_weights=0))
    assert "MatMulInteger" in {each.op_type for each in graph.nodes}
    assert node.op_type not in {each.op_type for each in graph.nodes}
    found = run_reference(graph, arrays, graph.outputs)
    for tensor in graph.outputs:
        name = graph.tensors[tensor].name
        np.testing.assert_allclose(found[tensor], expected[name], rtol=2e-5, atol=2e-5, err_msg=name)
    assert [each.op_type for each in read_model(file, given=Given(arrays)).nodes] == [node.op_type]


def test_an_operator_in_a_form_that_is_not_known_stays_whole(tmp_path: Path) -> None:
    node = helper.make_node(
        "MatMulNBits",
        ["x", "b", "s"],
        ["y"],
        "product",
        domain="com.microsoft",
        K=32,
        N=8,
        bits=4,
        block_size=32,
    )
    arrays = {
        "x": floats(2, 32), "b": np.zeros((8, 1, 16), np.uint8), "s": np.ones(8, np.float32),
    }  # fmt: skip
    file, _ = model(tmp_path, node, arrays, {}, 1)
    assert [each.op_type for each in read_model(file, given=Given(arrays)).nodes] == ["MatMulNBits"]
