"""Loops with known turns are written out when a model is read; others stay as they are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from npuviz.onnx.passes.optimization import KEEP_NODES
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from tests.onnx.cases import save, value


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def outputs(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(run_reference(graph, inputs, graph.outputs).values())


def doubling_loop(path: Path, count: int, condition: str = "given") -> Path:
    """Doubles x `count` times and returns all states. condition: what the body says about going on."""
    goes_on = {
        "given": [helper.make_node("Identity", ["c"], ["d"])],
        "computed": [helper.make_node("Less", ["n", "few"], ["d"])],
        "of values": [
            helper.make_node("ReduceMax", ["v"], ["largest"], keepdims=0),
            helper.make_node("Less", ["largest", "bound"], ["d"]),
        ],
        "true": [helper.make_node("Constant", [], ["d"], value=numpy_helper.from_array(np.array(True)))],
    }[condition]
    body = helper.make_graph(
        [*goes_on, helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["w"], ["o"])],
        "body",
        [value("n", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("v", [2])],
        [value("d", [], TensorProto.BOOL), value("w", [2]), value("o", [2])],
        [
            numpy_helper.from_array(np.array(1), "few"),
            numpy_helper.from_array(np.array(9, np.float32), "bound"),
        ],
    )
    node = helper.make_node("Loop", ["m", "", "x"], ["y", "all"], name="loop", body=body)
    ends = [value("y", [2]), value("all", [2 if condition == "computed" else count, 2])]
    return save(path / "m.onnx", [node], [value("x", [2])], ends, {"m": np.array(count)})


@pytest.mark.parametrize("condition", ["given", "true"])
def test_a_loop_with_a_known_count(tmp_path: Path, condition: str) -> None:
    graph = read_model(doubling_loop(tmp_path, 3, condition))
    assert "Loop" not in operators(graph)
    assert operators(graph).count("Add") == 3
    assert all(node.name.startswith("loop/") for node in graph.nodes)
    last, states = outputs(graph, {"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(last, [8, 16])
    np.testing.assert_array_equal(states, [[2, 4], [4, 8], [8, 16]])


def counting_loop(
    path: Path, begin: int, end: int, most: int | None = None, *, of_data: bool = False
) -> Path:
    """Doubles x while i < end, as converters of TensorFlow write it: i and end are states, the body compares.

    of_data  the end comes from the input "e"
    """
    body = helper.make_graph(
        [
            helper.make_node("Add", ["i", "one"], ["i_next"]),
            helper.make_node("Cast", ["i_next"], ["i_real"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["end_in"], ["end_real"], to=TensorProto.FLOAT),
            helper.make_node("Less", ["i_real", "end_real"], ["d"]),
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("Identity", ["w"], ["o"]),
        ],
        "body",
        [
            value("n", [], TensorProto.INT64),
            value("c", [], TensorProto.BOOL),
            value("i", [], TensorProto.INT32),
            value("end_in", [], TensorProto.INT32),
            value("v", [2]),
        ],
        [
            value("d", [], TensorProto.BOOL),
            value("i_next", [], TensorProto.INT32),
            value("end_in", [], TensorProto.INT32),
            value("w", [2]),
            value("o", [2]),
        ],
        [numpy_helper.from_array(np.array(1, np.int32), "one")],
    )
    read = ["m" if most is not None else "", "begins", "begin", "e" if of_data else "end", "x"]
    node = helper.make_node("Loop", read, ["i_end", "end_end", "y", "all"], name="loop", body=body)
    given = [value("x", [2]), *([value("e", [], TensorProto.INT32)] if of_data else [])]
    weights = {"begins": np.array(True), "begin": np.array(begin, np.int32), "end": np.array(end, np.int32)}
    if most is not None:
        weights["m"] = np.array(most)
    ends = [value("y", [2]), value("all", [min(end - begin, most or end), 2])]
    return save(path / "m.onnx", [node], given, ends, weights)


@pytest.mark.parametrize(
    ("numbers", "turns"), [((2, 5), 3), ((2, 5, 2), 2), ((2, 5, 9), 3), ((4, 5), 1)]
)  # fmt: skip
def test_a_condition_that_counts_is_counted(tmp_path: Path, numbers: tuple[int, ...], turns: int) -> None:
    graph = read_model(counting_loop(tmp_path, *numbers))
    assert operators(graph).count("Add") == turns
    assert "Loop" not in operators(graph)
    last, states = outputs(graph, {"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(last, np.array([1, 2]) * 2**turns)
    np.testing.assert_array_equal(states, [np.array([1, 2]) * 2**turn for turn in range(1, turns + 1)])


def test_a_condition_of_the_turns_number_is_counted(tmp_path: Path) -> None:
    assert operators(read_model(doubling_loop(tmp_path, 3, "computed"))).count("Add") == 2


def test_a_loop_that_values_end_stays(tmp_path: Path) -> None:
    assert "Loop" in operators(read_model(counting_loop(tmp_path, begin=0, end=3, of_data=True)))
    assert "Loop" in operators(read_model(doubling_loop(tmp_path, 3, "of values")))


_CHANCE = (
    helper.make_node("RandomUniform", [], ["r"], shape=[1]),
    helper.make_node("Less", ["r", "half"], ["less"]),
    helper.make_node("Squeeze", ["less"], ["go"]),
)
_LARGE = (
    helper.make_node("ConstantOfShape", ["side"], ["z"]),
    helper.make_node("MatMul", ["z", "z"], ["square"]),
    helper.make_node("ReduceMax", ["square"], ["most"], keepdims=0),
    helper.make_node("Cast", ["most"], ["go"], to=TensorProto.BOOL),
)
_NOTHING = (helper.make_node("Div", ["n", "zero"], ["q"]), helper.make_node("Cast", ["q"], ["go"], to=9))
_MIXED = (helper.make_node("Less", ["n", "half"], ["go"]),)


@pytest.mark.parametrize(
    "nodes", [_CHANCE, _LARGE, _NOTHING, _MIXED], ids=["random", "large", "zero", "types"]
)
def test_a_condition_that_is_no_count_is_left_to_the_run(tmp_path: Path, nodes: Sequence[NodeProto]) -> None:
    body = helper.make_graph(
        [*nodes, helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [value("n", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("v", [2])],
        [value("go", [], TensorProto.BOOL), value("w", [2])],
        [
            numpy_helper.from_array(np.array(0.5, np.float32), "half"),
            numpy_helper.from_array(np.array(0), "zero"),
            numpy_helper.from_array(np.array([20_000, 20_000]), "side"),
        ],
    )
    loop = helper.make_node("Loop", ["", "begins", "x"], ["y"], name="loop", body=body)
    weights = {"begins": np.array(True)}
    path = save(tmp_path / "m.onnx", [loop], [value("x", [2])], [value("y", [2])], weights)
    assert operators(read_model(path)) == ["Loop"]


def test_a_count_that_never_ends_stays(tmp_path: Path) -> None:
    assert "Loop" in operators(read_model(counting_loop(tmp_path, begin=0, end=5000)))


def test_a_long_loop_stays(tmp_path: Path) -> None:
    assert operators(read_model(doubling_loop(tmp_path, 5000))) == ["Loop"]


def scan(path: Path, turns: int, direction: int, axis: int) -> Path:
    """Running sums of x along an axis, doubled."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "e"], ["t"]),
            helper.make_node("Mul", ["t", "two"], ["o"]),
            helper.make_node("Identity", ["t"], ["n"]),
        ],
        "body",
        [value("s", [2]), value("e", [2])],
        [value("n", [2]), value("o", [2])],
        [numpy_helper.from_array(np.array(2, np.float32), "two")],
    )
    node = helper.make_node(
        "Scan", ["i", "x"], ["f", "y"], name="scan", num_scan_inputs=1, body=body,
        scan_input_directions=[direction], scan_input_axes=[axis], scan_output_axes=[axis],
    )  # fmt: skip
    shape: list[int | str | None] = [turns, 2] if axis == 0 else [2, turns]
    return save(
        path / "m.onnx", [node], [value("i", [2]), value("x", shape)], [value("f", [2]), value("y", shape)]
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan(tmp_path: Path, direction: int, axis: int) -> None:
    graph = read_model(scan(tmp_path, 4, direction, axis))
    assert "Scan" not in operators(graph)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    start = np.array([1, 2], np.float32)
    last, sums = outputs(graph, {"i": start, "x": x if axis == 0 else np.ascontiguousarray(x.T)})
    expected = start + np.cumsum(x[::-1] if direction else x, axis=0)
    np.testing.assert_allclose(last, expected[-1])
    np.testing.assert_allclose(sums if axis == 0 else sums.T, 2 * expected)


def test_a_model_that_asks_for_it_keeps_its_nodes(tmp_path: Path) -> None:
    path = scan(tmp_path, 4, 0, 0)
    model = onnx.load(path)
    model.metadata_props.add(key=KEEP_NODES[0], value=KEEP_NODES[1])
    onnx.save(model, path)
    assert operators(read_model(path)) == ["Scan"]


def test_known_splits_and_ranges_are_folded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["sizes"], ["a", "b"], axis=0),
        helper.make_node("Squeeze", ["b"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["r"]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    weights = {"sizes": np.array([7, 5]), "zero": np.array(0), "one": np.array(1)}
    x = value("x", [5], TensorProto.INT64)
    graph = read_model(save(tmp_path / "m.onnx", nodes, [x], [value("y", [5], TensorProto.INT64)], weights))
    assert operators(graph) == ["Add"]
    np.testing.assert_array_equal(outputs(graph, {"x": np.zeros(5, np.int64)})[0], np.arange(5))


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("batches", [1, 3])
def test_a_scan_of_batches(tmp_path: Path, direction: int, batches: int) -> None:
    """Scan of version 8 has a batch axis; here it adds up and returns the products with the sums."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "r"], ["t"]), helper.make_node("Mul", ["t", "r"], ["p"])],
        "body",
        [value("s", [2]), value("r", [2])],
        [value("t", [2]), value("p", [2])],
    )
    node = helper.make_node(
        "Scan", ["", "i", "x"], ["f", "y"], name="scan", num_scan_inputs=1, body=body, directions=[direction]
    )
    ends = [value("f", [batches, 2]), value("y", [batches, 4, 2])]
    graph = helper.make_graph([node], "scan", [value("i", [batches, 2]), value("x", [batches, 4, 2])], ends)
    path = tmp_path / "scan.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=6), path)
    found = read_model(path)
    assert "Scan" not in operators(found)
    draw = np.random.default_rng(2)
    given = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in
             (("i", (batches, 2)), ("x", (batches, 4, 2)))}  # fmt: skip
    rows = given["x"][:, ::-1] if direction else given["x"]
    sums = given["i"][:, None] + np.cumsum(rows, 1)
    last, products = outputs(found, given)
    np.testing.assert_allclose(last, sums[:, -1], 1e-5)
    np.testing.assert_allclose(products, sums * rows, 1e-5)
