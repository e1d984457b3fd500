# Reading and rewriting must not change a model: the check runs the file as it is, too.
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.passes.expansion import expand_nodes
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult
from tests.onnx.check.machine import checked, make_graph

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


def _graph(tmp_path) -> Graph:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("ArgMax", ["y"], ["i"], axis=-1)]
    return make_graph(tmp_path, nodes, {"x": [2, 4]}, {"y": FLOAT, "i": INT64}, {"w": WEIGHT})


def _with_weight(graph: Graph, weight: np.ndarray) -> None:
    assert graph.file is not None
    model = onnx.load(graph.file)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight.astype(np.float32), "w"))
    onnx.save(model, graph.file)


def _texts(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.tensor, finding.text) for finding in result.findings]


def test_a_graph_that_is_the_file_passes(tmp_path) -> None:
    result = checked(_graph(tmp_path), {"x": X})
    assert result.is_passed
    assert not result.findings
    assert not result.not_compared


@pytest.mark.parametrize(("change", "is_passed"), [(1e-9, True), (1e-3, False)])
def test_a_graph_that_is_not_the_file_fails(tmp_path, change: float, is_passed: bool) -> None:
    """The machine computes the graph rightly; but the graph has other weights than the file."""
    graph = _graph(tmp_path)
    _with_weight(graph, WEIGHT * (1 + change))
    result = checked(graph, {"x": X})
    assert result.is_passed == is_passed
    if not is_passed:
        ((tensor, text),) = _texts(result)
        assert tensor == "y"
        assert "off by" in text
        assert text.endswith("from what the file puts out")


@pytest.mark.parametrize(("change", "is_passed"), [(1e-9, True), (1e-3, False)])
def test_a_graph_whose_operators_were_replaced_by_bodies_is_held_against_the_file(
    tmp_path, change: float, is_passed: bool
) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("LeakyRelu", ["m"], ["y"])]
    graph = make_graph(tmp_path, nodes, {"x": [2, 4]}, {"y": FLOAT}, {"w": WEIGHT})
    expanded = expand_nodes(graph, [1])
    assert expanded is not None
    _with_weight(graph, WEIGHT * (1 + change))
    result = checked(expanded, {"x": X})
    assert result.is_passed == is_passed
    assert not result.not_compared


def test_an_output_that_is_text_is_left_out(tmp_path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Cast", ["y"], ["t"], to=onnx.TensorProto.STRING),
    ]
    outputs = {"y": FLOAT, "t": onnx.TensorProto.STRING}
    result = checked(make_graph(tmp_path, nodes, {"x": [2, 4]}, outputs, {"w": WEIGHT}), {"x": X})
    assert result.is_passed
    assert any("text" in reason and "t" in names for reason, names in result.not_compared.items())


def test_another_choice_fails(tmp_path) -> None:
    graph = _graph(tmp_path)
    _with_weight(graph, -WEIGHT)
    assert [tensor for tensor, _ in _texts(checked(graph, {"x": X}))] == ["y", "i"]


def test_another_shape_fails(tmp_path) -> None:
    graph = _graph(tmp_path)
    _with_weight(graph, np.ones((4, 5)))
    assert ("y", "has shape (2, 3) in the graph that was compiled and (2, 5) in the file") in _texts(
        checked(graph, {"x": X})
    )


def test_a_file_that_does_not_run_is_said(tmp_path) -> None:
    graph = _graph(tmp_path)
    assert graph.file is not None
    graph.file.write_bytes(b"no model")
    result = checked(graph, {"x": X})
    assert result.is_passed
    ((reason, names),) = result.not_compared.items()
    assert reason.startswith("not compared with the file as it is")
    assert set(names) == {"y", "i"}


@pytest.mark.parametrize(("factor", "is_passed"), [(1.0, True), (300.0, False)])
def test_roundings_that_the_graph_leaves_out_may_not_decide(tmp_path, factor: float, is_passed: bool) -> None:
    """A row of small numbers is one step of its scale away from zero; where it is enlarged, outputs tell."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "point"]),
        helper.make_node("MatMulInteger", ["codes", "w", "point"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=FLOAT),
        helper.make_node("Mul", ["real", "scale"], ["p"]),
        helper.make_node("Mul", ["p", "rows"], ["y"]),
    ]
    weights = {"w": np.ones((1, 4), np.int8), "rows": np.array([[1], [factor]], np.float32)}
    path = make_graph(tmp_path, nodes, {"x": [2, 1]}, {"y": FLOAT}, weights).file
    assert path is not None
    x = np.array([[100], [0.3]], np.float32)
    graph = read_model(path, given=Given({"x": x}), form=ModelForm(float_products=True))
    result = checked(graph, {"x": x})
    assert result.is_passed == is_passed
    assert [finding.cause.split(",")[0] for finding in result.findings] == (
        [] if is_passed else ["the file rounds operands to 8 bits at run time"]
    )


@pytest.mark.parametrize("is_linked", [False, True])
def test_products_that_the_runtime_may_round_are_compared_unrounded(tmp_path, is_linked: bool) -> None:
    """As onnxruntime-genai's builder writes them, with data beside the file, or behind links of a cache."""
    random = np.random.default_rng(0)
    weights = {
        "q": random.integers(0, 256, (64, 8, 16), np.uint8),
        "s": random.random((64, 8)).astype(np.float32),
    }
    node = helper.make_node(
        "MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", K=256, N=64, bits=4, block_size=32,
        accuracy_level=4,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [3, 256])],
        [helper.make_tensor_value_info("y", FLOAT, [3, 64])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    if is_linked:
        (tmp_path / "blobs").mkdir()
        for name in ("m.onnx", "w.bin"):
            (tmp_path / name).symlink_to((tmp_path / name).rename(tmp_path / "blobs" / f"3f{name}"))
    read = read_model(path)
    assert any("round to 8 bits" in text for text in read.assumptions)
    result = checked(read, {"x": random.standard_normal((3, 256)).astype(np.float32)})
    assert result.is_passed
    assert not result.findings
    assert not result.not_compared
