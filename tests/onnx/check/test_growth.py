# The tolerance end to end: it follows from the types and the depth, and stays small.
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.onnx.check.growth import (
    LARGEST_SHARE,
    SAFETY,
    UNITS,
    Precision,
    allowed_errors,
    step_floors,
    table_floors,
)
from npuviz.onnx.check.records import float_deviation
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph


def _chain(tmp_path, operators: list[str], size: int = 4) -> Graph:
    nodes = [helper.make_node(op, [f"t{n}"], [f"t{n + 1}"], op) for n, op in enumerate(operators)]
    return _read(tmp_path, nodes, ("t0", f"t{len(operators)}"), size)


def _read(tmp_path, nodes, names: tuple[str, str], size: int = 4, constants=()) -> Graph:
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size]) for name in names]
    made = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:], constants),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    return read_model(path, optimize=False)


def _shares(graph: Graph, dtype: str) -> list[float]:
    return [each.share for each in allowed_errors(graph, Precision(lambda tensor: dtype))]


def test_errors_grow_with_the_root_of_the_roundings(tmp_path) -> None:
    shares = _shares(_chain(tmp_path, ["Exp"] * 15), "float16")
    assert shares[0] == SAFETY * UNITS["float16"]
    assert shares[15] == pytest.approx(4 * shares[0], rel=1e-3)


def test_moving_elements_rounds_nothing(tmp_path) -> None:
    shares = _shares(_chain(tmp_path, ["Relu", "Neg", "Exp", "Relu"]), "float16")
    assert shares[0] == shares[1] == shares[2] < shares[3] == shares[4]


def test_a_coarser_type_counts_from_where_it_begins(tmp_path) -> None:
    graph = _chain(tmp_path, ["Exp", "Exp", "Exp"])
    found = allowed_errors(graph, Precision(lambda tensor: "bfloat16" if tensor == 2 else "float32"))
    assert [each.dtype for each in found] == ["float32", "float32", "bfloat16", "bfloat16"]
    assert found[1].share < 1e-6 < SAFETY * UNITS["bfloat16"] <= found[2].share


def test_nothing_deep_may_be_off_by_much(tmp_path) -> None:
    graph = _chain(tmp_path, ["Exp"] * 400)
    assert _shares(graph, "bfloat16")[-1] == LARGEST_SHARE
    assert _shares(graph, "float32")[-1] < 1e-4
    assert _shares(graph, "")[-1] == 0


def test_long_sums_count(tmp_path) -> None:
    short, long = (_shares(_chain(tmp_path, ["Softmax"], size), "float32")[1] for size in (4, 4096))
    assert 10 * short < long < 100 * short
    assert np.isclose(_shares(_chain(tmp_path, ["Softmax"], 4096), "bfloat16")[1] / short, 2**16, rtol=0.7)


def test_an_activation_table_is_as_coarse_where_its_function_is_small(tmp_path) -> None:
    graph = _chain(tmp_path, ["Exp", "Sigmoid", "Neg", "Exp"])
    assert table_floors(graph, {0: 0.5, 1: 2.0**-11}) == [0.0, 0.0, 2.0**-11, 2.0**-11, 0.0]
    precision = Precision(lambda tensor: "float16", {1: 2.0**-11})
    allowed = allowed_errors(graph, precision)[2]
    tiny = np.full(4, 3e-6)
    assert "activation table" in allowed.text
    assert not float_deviation(np.zeros(4), tiny, allowed.share, allowed.absolute).is_beyond
    assert float_deviation(np.zeros(4), tiny, allowed.share).is_beyond
    assert float_deviation(np.full(4, 1e-3), tiny, allowed.share, allowed.absolute).is_beyond


def test_steps_of_one_scale_stay_behind_another(tmp_path) -> None:
    """What is almost half way between two steps of 0.05 moves by 0.05, however fine the next scale is."""
    constants = []
    nodes, tensor = [], "x"
    for number, scale in enumerate((0.05, 0.02)):
        constants += [numpy_helper.from_array(np.array(scale, np.float32), f"s{number}")]
        constants += [numpy_helper.from_array(np.array(0, np.int8), f"z{number}")]
        for kind, out in (("QuantizeLinear", f"q{number}"), ("DequantizeLinear", f"d{number}")):
            nodes.append(helper.make_node(kind, [tensor, f"s{number}", f"z{number}"], [out]))
            tensor = out
    graph = _read(tmp_path, nodes, ("x", tensor), constants=constants)
    found = step_floors(graph, Precision(lambda _: "float16"))
    by_name = {each.name: found[each.id] for each in graph.tensors}
    assert by_name["d0"] == pytest.approx(0.05 * (1 + 128 * UNITS["float16"]))
    assert by_name["d1"] == pytest.approx(0.07 * (1 + 128 * UNITS["float16"]))
