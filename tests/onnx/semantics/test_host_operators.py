"""Why operators stay on the Host, and what a model can do about it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npuviz.onnx.semantics.host_operators import lacking
from npuviz.onnx.semantics.trees import TreeCost, tree_cost
from npuviz.program.graph import Node


def node(op_type: str, domain: str = "") -> Node:
    values: dict[str, Any] = {"id": 0, "name": "n", "op_type": op_type, "domain": domain}
    return Node(**values, inputs=(), outputs=(), attributes={})


@pytest.mark.parametrize(
    ("op_type", "change"),
    [
        ("Loop", "a constant number of turns, at most 64"),
        ("If", "both branches, and Where to choose between them"),
        ("RandomNormalLike", "the numbers as an input of the model"),
    ],
)
def test_what_no_chip_runs_says_what_to_do(op_type: str, change: str) -> None:
    found = lacking(node(op_type), "the cores have")
    assert (found.found, found.change) == (op_type, change)


def test_other_operators_lack_a_lowering_on_this_machine() -> None:
    assert str(lacking(node("Tan"), "the cores have")) == "the cores have no lowering for it (Tan)"
    assert str(lacking(node("Loop", "ai.company"), "the NPU has")) == "the NPU has no lowering for it (Loop)"


def test_trees_tell_what_they_would_cost_as_products() -> None:
    """Two trees in both forms: one of depth 2 with a leaf early, one of depth 1."""
    newest = {
        "tree_roots": [0, 2],
        "nodes_truenodeids": [1, 0, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 4],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_weights": np.ones(5, np.float32),
    }
    older = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
    }
    for kind, attributes in (("TreeEnsemble", newest), ("TreeEnsembleRegressor", older)):
        trees = replace(node(kind, "ai.onnx.ml"), attributes=attributes)
        assert tree_cost(trees) == TreeCost(trees=2, conditions=3, leaves=5, walked=3)
        text = str(lacking(trees, "the cores have"))
        assert "15 multiplications a row, 5 times the at most 3 comparisons" in text


def test_what_is_no_tree_has_no_cost() -> None:
    """Attributes that lack, and a way that leads back to where it came from."""
    rounds = {
        "tree_roots": [0],
        "nodes_truenodeids": [0],
        "nodes_trueleafs": [0],
        "nodes_falsenodeids": [0],
        "nodes_falseleafs": [1],
        "leaf_weights": [1.0],
    }
    for attributes in ({}, rounds):
        trees = replace(node("TreeEnsemble", "ai.onnx.ml"), attributes=attributes)
        assert tree_cost(trees) is None
        assert "the cores have no lowering for it" in str(lacking(trees, "the cores have"))
