"""Tables in 8 bits: a run makes floats of the rows that it looks up, not of the table."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

ROWS, WIDTH = 1000, 8


def _graph_of(folder: Path, scale: np.ndarray, *, puts_table_out: bool = False) -> tuple[Graph, np.ndarray]:
    table = np.random.default_rng(0).integers(-128, 128, (ROWS, WIDTH)).astype(np.int8)
    weights = {"t": table, "s": scale.astype(np.float32), "z": np.full(scale.shape, 3, np.int8)}
    nodes = [
        helper.make_node("DequantizeLinear", ["t", "s", "z"], ["f"], axis=1),
        helper.make_node("Gather", ["f", "i"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    if puts_table_out:
        outputs.append(helper.make_tensor_value_info("f", TensorProto.FLOAT, None))
    made = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("i", TensorProto.INT64, [4])], outputs,
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    path = folder / "model.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return read_model(path), (table.astype(np.float32) - 3) * scale.astype(np.float32)


def _rows(graph: Graph, places: np.ndarray) -> np.ndarray:
    return run_reference(graph, {"i": places}, [graph.outputs[0]])[graph.outputs[0]]


def test_rows_are_looked_up_before_they_are_floats(tmp_path: Path) -> None:
    graph, floats = _graph_of(tmp_path, np.array(0.01))
    assert [node.op_type for node in graph.nodes] == ["Gather", "DequantizeLinear"]
    assert all(tensor.num_elements <= 4 * WIDTH or tensor.producer < 0 for tensor in graph.tensors)
    places = np.array([0, 999, 5, 5])
    assert np.array_equal(_rows(graph, places), floats[places])


def test_a_table_that_somebody_else_reads_stays(tmp_path: Path) -> None:
    graph, floats = _graph_of(tmp_path, np.array(0.01), puts_table_out=True)
    assert [node.op_type for node in graph.nodes].count("DequantizeLinear") == 2
    assert np.array_equal(_rows(graph, np.arange(4)), floats[:4])


def test_a_scale_of_each_column_stays(tmp_path: Path) -> None:
    graph, floats = _graph_of(tmp_path, np.linspace(0.01, 0.02, WIDTH))
    assert [node.op_type for node in graph.nodes] == ["DequantizeLinear", "Gather"]
    assert np.array_equal(_rows(graph, np.arange(4)), floats[:4])
