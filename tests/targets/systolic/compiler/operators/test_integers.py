"""Integers, conditions and what is quantised at run time against ONNX Runtime, value by value."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.compiler.compile import compile_true
from npuviz.targets.systolic.values.engine import ValueEngine
from tests.targets.systolic.slow_simulator import SlowSimulator
from tests.targets.systolic.true_cases import Compiled, assert_sound, chip

Arrays = Mapping[str, np.ndarray]


def compiled(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    results: Sequence[str],
    known: Arrays,
    precision: int = 4,
) -> Compiled:
    def info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    graph = helper.make_graph(
        list(nodes),
        "model",
        [info(name, array) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path = folder / "model.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    spec = chip(side=8, cores=3, spad=16, acc=8, precision=precision)
    read = read_model(path, optimize=False)
    case = Compiled(read, spec, compile_true(read, spec))
    assert_sound(case)
    return case


def assert_equal(case: Compiled, inputs: Arrays) -> None:
    """Every result of the machine is that of ONNX Runtime, to the bit."""
    assert set(case.compiled.placement.values()) == {"Core"}
    assert SlowSimulator(case.compiled.tables, case.spec).run(3_000_000) > 0
    engine = ValueEngine(case.compiled.tables, case.graph, case.spec, draw_inputs(case.graph, inputs, 0))
    made = [index for node in case.graph.nodes for index in node.outputs if index >= 0]
    expected = run_reference(case.graph, inputs, made)
    for index in made:
        found = engine.tensor(index)
        name = case.graph.tensors[index].name
        np.testing.assert_array_equal(found.astype(expected[index].dtype), expected[index], name)


LARGE = np.array([[2**30 + 1, -(2**30) - 3, 7], [2**31 - 1, -(2**31), 0]], np.int32)
OTHER = np.array([[2**30, -(2**30) - 3, 9], [1, -1, 0]], np.int32)
FLOATS = np.array([[1.5, -0.0, np.inf], [np.nan, -7.25, 3e9]], np.float32)
TRUTHS = np.array([[True, False, True], [False, False, True]])


@pytest.mark.parametrize("name", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize("kind", ["whole", "float"])
def test_comparisons(name: str, kind: str, tmp_path) -> None:
    first, second = (LARGE, OTHER) if kind == "whole" else (FLOATS, FLOATS[:, ::-1].copy())
    node = helper.make_node(name, ["x", "z"], ["y"], "node")
    case = compiled(tmp_path, [node], {"x": first, "z": second}, ["y"], {})
    assert_equal(case, {"x": first, "z": second})


def test_logic(tmp_path) -> None:
    nodes = [
        helper.make_node("And", ["x", "row"], ["a"], "and"),
        helper.make_node("Or", ["a", "x"], ["b"], "or"),
        helper.make_node("Xor", ["b", "row"], ["c"], "xor"),
        helper.make_node("Not", ["c"], ["y"], "not"),
        helper.make_node("IsNaN", ["f"], ["z"], "nan"),
    ]
    inputs = {"x": TRUTHS, "row": TRUTHS[:1], "f": FLOATS}
    assert_equal(compiled(tmp_path, nodes, inputs, ["y", "z"], {}), inputs)


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Max", "Min"])
def test_whole_numbers_keep_all_bits(name: str, tmp_path) -> None:
    inputs = {"x": LARGE, "z": OTHER}
    node = helper.make_node(name, ["x", "z"], ["y"], "node")
    assert_equal(compiled(tmp_path, [node], inputs, ["y"], {}), inputs)


def test_a_choice_of_whole_numbers(tmp_path) -> None:
    inputs = {"c": TRUTHS, "x": LARGE, "z": OTHER}
    node = helper.make_node("Where", ["c", "x", "z"], ["y"], "node")
    assert_equal(compiled(tmp_path, [node], inputs, ["y"], {}), inputs)


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("int32", "float32"),
        ("int32", "int8"),
        ("int32", "uint8"),
        ("int32", "bool"),
        ("float32", "int32"),
        ("float32", "uint8"),
        ("float32", "bool"),
        ("bool", "float32"),
        ("bool", "int32"),
        ("uint8", "float32"),
        ("int8", "uint8"),
        ("float32", "float16"),
        ("int64", "int32"),
        ("int64", "uint8"),
        ("uint64", "int16"),
    ],
)
def test_casts(source: str, to: str, tmp_path) -> None:
    values = {
        "int32": LARGE,
        "float32": np.array([[1.5, -0.0, 2.5], [0.99, 200.7, 17]], np.float32),
        "int64": np.array([[1, -1, 1 << 40], [(5 << 32) - 7, -(1 << 63), 300]], np.int64),
        "uint64": np.array([[1, 2, 1 << 63], [(5 << 32) - 7, 70000, 300]], np.uint64),
        "bool": TRUTHS,
        "uint8": np.array([[0, 127, 128], [255, 1, 2]], np.uint8),
        "int8": np.array([[0, 127, -128], [-1, 1, 2]], np.int8),
    }[source]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    node = helper.make_node("Cast", ["x"], ["y"], "node", to=kind)
    assert_equal(compiled(tmp_path, [node], {"x": values}, ["y"], {}), {"x": values})


@pytest.mark.parametrize("shift", [0.0, 30.0, -30.0])
@pytest.mark.parametrize("product", ["matrix", "two activations", "convolution"])
def test_products_that_are_quantised_at_run_time(product: str, shift: float, tmp_path) -> None:
    generator = np.random.default_rng(5)
    shape = (1, 12, 9, 6) if product == "convolution" else (3, 10, 25)
    x = (generator.standard_normal(shape) + shift).astype(np.float32)
    inputs, known = {"x": x}, {"wz": np.array(3, np.int8)}
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantise")]
    if product == "convolution":
        # 7 bits: ONNX Runtime saturates uint8 x int8 sums on processors without VNNI.
        known["w"] = generator.integers(-60, 60, (10, 12, 3, 3)).astype(np.int8)
        nodes.append(helper.make_node("ConvInteger", ["q", "w", "z", "wz"], ["i"], "conv", pads=[1] * 4))
    elif product == "matrix":
        known["w"] = generator.integers(-60, 60, (25, 40)).astype(np.int8)
        nodes.append(helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["i"], "product"))
    else:
        inputs["t"] = generator.standard_normal((3, 25, 8)).astype(np.float32)
        nodes.append(helper.make_node("DynamicQuantizeLinear", ["t"], ["tq", "ts", "tz"], "quantise_other"))
        nodes.append(helper.make_node("MatMulInteger", ["q", "tq", "z", "tz"], ["i"], "product"))
    nodes.append(helper.make_node("Cast", ["i"], ["f"], "widen", to=onnx.TensorProto.FLOAT))
    nodes.append(helper.make_node("Mul", ["f", "s"], ["y"], "scale"))
    case = compiled(tmp_path, nodes, inputs, ["y"], known)
    assert_equal(case, inputs)


@pytest.mark.parametrize("points", [[0] * 40, [3] * 40, [0] * 39 + [1]], ids=["zeros", "alike", "unlike"])
def test_a_zero_point_for_each_column_is_one_where_they_are_alike(points: list[int], tmp_path) -> None:
    """As ONNX Runtime's quantiser writes symmetric weights."""
    generator = np.random.default_rng(6)
    inputs = {"q": generator.integers(0, 255, (3, 10, 25)).astype(np.uint8)}
    known = {
        "w": generator.integers(-60, 60, (25, 40)).astype(np.int8),
        "z": np.array(7, np.uint8),
        "wz": np.array(points, np.int8),
    }
    node = helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["i"], "product")
    case = compiled(tmp_path, [node], inputs, ["i"], known)
    if len(set(points)) > 1:
        assert case.compiled.placement[0] == "Host"
    else:
        assert_equal(case, inputs)


def test_zeros_alone_have_the_scale_of_onnx_runtime(tmp_path) -> None:
    inputs = {"x": np.zeros((4, 5), np.float32)}
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantise")
    assert_equal(compiled(tmp_path, [node], inputs, ["q", "s", "z"], {}), inputs)


def test_a_scale_made_at_run_time_keeps_its_type(tmp_path) -> None:
    inputs = {"x": np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)}
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantise")
    case = compiled(tmp_path, [node], inputs, ["q", "s", "z"], {}, precision=2)
    stored = [case.plan.storages[index].dtype for index in (*case.graph.inputs, *case.graph.nodes[0].outputs)]
    assert stored == ["bfloat16", "uint8", "float32", "uint8"]


def test_a_tensor_larger_than_an_accumulator_is_quantised_on_the_host(tmp_path) -> None:
    inputs = {"x": np.random.default_rng(1).standard_normal((40, 60)).astype(np.float32)}
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantise")
    case = compiled(tmp_path, [node], inputs, ["q", "s", "z"], {})
    assert case.compiled.placement[0] == "Host"
    assert check(case.engine(), case.graph).num_failed == 0


LONGS = np.array(
    [[2**32 - 1, -(2**32) - 3, 7, -1, 2**31], [2**63 - 1, -(2**63), 0, -(2**31), 2**40 + 5]], np.int64
)
LONG_ROW = np.array([[1, -(2**32), 2**62, 2**32 - 1, 2**31]], np.int64)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("name", ["Add", "Sub"])
def test_sums_of_64_bits(name: str, kind: type, tmp_path) -> None:
    inputs = {"x": LONGS.astype(kind), "z": LONG_ROW.astype(kind)}
    nodes = [helper.make_node(name, ["x", "z"], ["y"], "a"), helper.make_node(name, ["z", "y"], ["u"], "b")]
    assert_equal(compiled(tmp_path, nodes, inputs, ["u"], {}), inputs)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("name", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparisons_of_64_bits(name: str, kind: type, tmp_path) -> None:
    other = np.where(np.arange(10).reshape(2, 5) % 3 == 0, LONGS, LONG_ROW)
    inputs = {"x": LONGS.astype(kind), "z": other.astype(kind), "row": LONG_ROW.astype(kind)}
    nodes = [
        helper.make_node(name, ["x", "z"], ["y"], "full"),
        helper.make_node(name, ["row", "x"], ["u"], "broadcast"),
    ]
    assert_equal(compiled(tmp_path, nodes, inputs, ["y", "u"], {}), inputs)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int32, np.uint64, np.float32])
def test_casts_from_64_bits(kind: type, tmp_path) -> None:
    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    inputs = {"x": LONGS}
    case = compiled(tmp_path, [helper.make_node("Cast", ["x"], ["y"], "node", to=to)], inputs, ["y"], {})
    assert_equal(case, inputs)


@pytest.mark.parametrize(
    "values",
    [
        TRUTHS,
        LARGE,
        LARGE.astype(np.int8),
        LARGE.view(np.uint32).astype(np.uint16),
        np.array([[1.5, -0.75, -5.0], [3e9, -3e9, -(2.0**60) - 2.0**40]], np.float32),
    ],
    ids=["bool", "int32", "int8", "uint16", "float32"],
)
def test_casts_to_64_bits(values: np.ndarray, tmp_path) -> None:
    inputs = {"x": values}
    node = helper.make_node("Cast", ["x"], ["y"], "node", to=onnx.TensorProto.INT64)
    assert_equal(compiled(tmp_path, [node], inputs, ["y"], {}), inputs)


def test_choice_of_64_bits(tmp_path) -> None:
    inputs = {"c": TRUTHS[:, :1], "x": LONGS, "z": LONG_ROW}
    node = helper.make_node("Where", ["c", "x", "z"], ["y"], "node")
    assert_equal(compiled(tmp_path, [node], inputs, ["y"], {}), inputs)


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_sums_of_rows_of_integers(kind: type, axes: list[int], tmp_path) -> None:
    # ONNX Runtime sums integers as float64.
    limit = min(np.iinfo(kind).max, 2**50) // 60
    values = np.random.default_rng(3).integers(-limit, limit, (3, 4, 5), kind)
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], "node", keepdims=len(axes) % 2)
    known = {"axes": np.array(axes, np.int64)}
    assert_equal(compiled(tmp_path, [node], {"x": values}, ["y"], known), {"x": values})


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_largest_of_rows_of_integers(name: str, axis: int, tmp_path) -> None:
    node = helper.make_node(name, ["x", "axes"], ["y"], "node")
    known = {"axes": np.array([axis], np.int64)}
    assert_equal(compiled(tmp_path, [node], {"x": LARGE}, ["y"], known), {"x": LARGE})


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_places_of_extremes(name: str, axis: int, last: int, tmp_path) -> None:
    values = np.random.default_rng(5).integers(-3, 3, (3, 4, 7)).astype(np.float32)
    nodes = [
        helper.make_node(name, ["x"], ["y"], "kept", axis=axis, select_last_index=last),
        helper.make_node(name, ["x"], ["z"], "dropped", axis=axis, select_last_index=last, keepdims=0),
    ]
    assert_equal(compiled(tmp_path, nodes, {"x": values}, ["y", "z"], {}), {"x": values})


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_marks_of_places(axis: int, kind: type, tmp_path) -> None:
    inputs = {"x": np.array([[0, 4, -1], [7, -5, 2]], np.int64)}
    known = {"depth": np.array(5, np.int64), "values": np.array([3, -2], kind)}
    node = helper.make_node("OneHot", ["x", "depth", "values"], ["y"], "node", axis=axis)
    assert_equal(compiled(tmp_path, [node], inputs, ["y"], known), inputs)
