"""Ensembles of trees: their long lists are no burden while a model is read, and all there when it runs."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from npuviz.onnx.draft import read_draft
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.onnx.semantics.long_lists import LONG

TREES = LONG // 2


def _save(path: Path) -> onnx.ModelProto:
    """Store a model of many trees of one decision each, whose leaves differ."""
    generator = np.random.default_rng(2)
    number, leaf = list(range(TREES)), [0.0] * (3 * TREES)
    values = leaf.copy()
    values[::3] = generator.standard_normal(TREES).tolist()
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["same"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[tree for tree in number for _ in range(3)],
        nodes_nodeids=[0, 1, 2] * TREES,
        nodes_featureids=[each % 4 for each in range(3 * TREES)],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * TREES,
        nodes_values=values,
        nodes_truenodeids=[1, 0, 0] * TREES,
        nodes_falsenodeids=[2, 0, 0] * TREES,
        target_treeids=[tree for tree in number for _ in range(2)],
        target_nodeids=[1, 2] * TREES,
        target_ids=[0] * (2 * TREES),
        target_weights=generator.standard_normal(2 * TREES).tolist(),
    )
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["same"]), node],
        "trees",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 1])],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, path)
    return model


def test_long_lists_are_taken_out_while_a_model_is_read(tmp_path: Path) -> None:
    model = _save(tmp_path / "trees.onnx")
    draft = read_draft(tmp_path / "trees.onnx")
    lists = [
        each for each in model.graph.node[1].attribute if len(each.ints or each.floats or each.strings) > 1
    ]
    assert len(draft.lists) == len(lists) == 11
    assert draft.proto.ByteSize() < 2000 < model.ByteSize()


def test_a_model_runs_with_all_of_its_trees(tmp_path: Path) -> None:
    model = _save(tmp_path / "trees.onnx")
    graph = read_model(tmp_path / "trees.onnx")
    x = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = np.asarray(session.run(None, {"x": x})[0])
    found = run_reference(graph, {"x": x}, graph.outputs)[graph.outputs[0]]
    assert np.array_equal(found, expected)
    assert np.ptp(expected) > 1
