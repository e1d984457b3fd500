"""What operators on the Host ask of a processor."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.host_work import FUNCTION_OPERATIONS, HostWork, Processor, host_work
from npuviz.onnx.reader import read_model

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _works(tmp_path: Path, nodes: list, inputs: dict, outputs: dict, weights: dict) -> list[HostWork]:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [info(name, *kind) for name, kind in inputs.items()],
        [info(name, *kind) for name, kind in outputs.items()],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    made = read_model(path, optimize=False)
    return [host_work(made, node) for node in made.nodes]


def test_products_count_multiply_adds_and_functions_more_than_sums(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Tanh", ["p"], ["t"]),
        helper.make_node("Add", ["t", "t"], ["s"]),
        helper.make_node("Reshape", ["s", "form"], ["y"]),
    ]
    weights = {"w": np.zeros((8, 16), np.float32), "form": np.array([64])}
    product, function, total, view = _works(
        tmp_path, nodes, {"x": (FLOAT, [4, 8])}, {"y": (FLOAT, [64])}, weights
    )
    assert product == HostWork(2 * 4 * 16 * 8, 4 * (4 * 8 + 8 * 16 + 4 * 16), 1)
    assert function.operations == FUNCTION_OPERATIONS * total.operations == FUNCTION_OPERATIONS * 64
    assert total.num_bytes == 2 * 4 * 64  # one tensor read twice is read once
    assert view == HostWork(0, 0, 1)


def test_a_gather_reads_rows_not_the_table(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    table = {"table": np.zeros((5000, 16), np.float32)}
    (found,) = _works(tmp_path, nodes, {"ids": (INT64, [3])}, {"y": (FLOAT, [3, 16])}, table)
    assert found.num_bytes == 2 * 4 * 3 * 16 + 3 * 8
    assert found.operations == 3 * 16


@pytest.mark.parametrize("turns", [1, 200])
def test_a_loop_costs_its_turns(tmp_path: Path, turns: int) -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("MatMul", ["h", "w"], ["p"]),
            helper.make_node("Tanh", ["p"], ["k"]),
        ],
        "body",
        [info("i", INT64, []), info("go", BOOL, []), info("h", FLOAT, [1, 8])],
        [info("on", BOOL, []), info("k", FLOAT, [1, 8])],
    )
    nodes = [helper.make_node("Loop", ["m", "", "x"], ["y"], "turns", body=body)]
    weights = {"m": np.array(turns), "w": np.zeros((8, 8), np.float32)}
    (found,) = _works(tmp_path, nodes, {"x": (FLOAT, [1, 8])}, {"y": (FLOAT, [1, 8])}, weights)
    assert found.calls == 1 + 3 * turns
    assert found.operations == turns * (8 + 2 * 64 + FUNCTION_OPERATIONS * 8)


def test_the_slower_of_arithmetic_and_memory_counts() -> None:
    processor = Processor("P", 1000.0, 10.0, 4.0, 2.0)
    assert processor.nanoseconds(HostWork(4000, 20, 1)) == 2000
    assert processor.nanoseconds(HostWork(40, 2000, 1)) == 2000
    assert processor.nanoseconds(HostWork(0, 0, 101)) == 2000


def test_weights_beyond_the_cache_come_from_memory_at_every_step(tmp_path: Path) -> None:
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8, direction="bidirectional")]
    weights = {"w": np.zeros((2, 32, 4), np.float32), "r": np.zeros((2, 32, 8), np.float32)}
    (found,) = _works(tmp_path, nodes, {"x": (FLOAT, [5, 1, 4])}, {"y": (FLOAT, [5, 2, 1, 8])}, weights)
    assert (found.held_bytes, found.turns) == (32 * 8 * 4, 10)
    small, large = (Processor("P", 0.0, 0.0, 1e9, 2.0, size) for size in (1023, 1024))
    assert small.nanoseconds(found) - large.nanoseconds(found) == 9 * 1024 / 2


def test_an_attention_multiplies_with_all_keys_and_writes_the_new_rows_of_its_cache(tmp_path: Path) -> None:
    names = ["q", "k", "v", "pk", "pv", "lengths", "total"]
    node = helper.make_node(
        "GroupQueryAttention", names, ["y", "nk", "nv"], domain="com.microsoft", num_heads=4, kv_num_heads=2
    )
    cache = helper.make_tensor_value_info("pk", FLOAT, [1, 2, 16, 8])
    inputs = [
        helper.make_tensor_value_info(name, FLOAT, [1, 1, size])
        for name, size in zip("qkv", (32, 16, 16), strict=True)
    ]
    inputs += [cache, helper.make_tensor_value_info("pv", FLOAT, [1, 2, 16, 8])]
    inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [1]))
    outputs = [helper.make_tensor_value_info("y", FLOAT, [1, 1, 32])]
    outputs += [helper.make_tensor_value_info(name, FLOAT, [1, 2, 16, 8]) for name in ("nk", "nv")]
    total = numpy_helper.from_array(np.array(16, np.int32), "total")
    graph = helper.make_graph([node], "g", inputs, outputs, [total])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)
    made = read_model(path, optimize=False)
    work = host_work(made, made.nodes[0])
    assert work.operations == 4 * 32 * 16
    rows, whole = 2 * 2 * 8 * 4, 2 * 2 * 16 * 8 * 4
    assert work.num_bytes == (32 + 16 + 16 + 32) * 4 + 4 + 4 + whole + rows
