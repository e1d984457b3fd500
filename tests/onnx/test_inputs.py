"""Inputs that are given or drawn, and single nodes in ONNX Runtime."""

import numpy as np
import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.single_node import computed_from, run_node
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

TENSORS = (
    Tensor(0, "table", (7, 3), "float32", "weight"),
    Tensor(1, "rows", (4,), "int64", "input"),
    Tensor(2, "x", (4, 3), "float32", "input"),
    Tensor(3, "flag", (2,), "bool", "input"),
    Tensor(4, "picked", (4, 3), "float32", "activation", 0),
    Tensor(5, "sum", (4, 3), "float32", "output", 1),
)
TABLE = np.arange(21, dtype=np.float32).reshape(7, 3)
GRAPH = Graph(
    "g",
    (Node(0, "pick", "Gather", "", (0, 1), (4,)), Node(1, "add", "Add", "", (4, 2), (5,))),
    TENSORS,
    (1, 2, 3),
    (5,),
    {0: TABLE},
    {"": 20},
)


def test_drawn_inputs_follow_the_seed_and_the_graph() -> None:
    first, again, other = draw_inputs(GRAPH, {}, 1), draw_inputs(GRAPH, {}, 1), draw_inputs(GRAPH, {}, 2)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["x"], other["x"])
    assert first["rows"].dtype == np.int64
    assert ((first["rows"] >= 0) & (first["rows"] < 7)).all()
    assert first["flag"].all()


def test_given_inputs_replace_drawn_ones_only() -> None:
    drawn = draw_inputs(GRAPH, {}, 1)
    given = draw_inputs(GRAPH, {"rows": np.array([6, 5, 4, 3], np.int32)}, 1)
    assert given["rows"].tolist() == [6, 5, 4, 3]
    assert given["rows"].dtype == np.int64
    np.testing.assert_array_equal(given["x"], drawn["x"])


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"y": np.zeros(1)}, "no such input"),
        ({"x": np.zeros((4, 4))}, "expected shape"),
        ({"rows": np.zeros(4)}, "expected values of type int64"),
    ],
)
def test_wrong_inputs_are_refused(given: dict[str, np.ndarray], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        draw_inputs(GRAPH, given)


def test_a_node_runs_on_its_own() -> None:
    rows = np.array([1, 0, 6, 2])
    found = run_node(GRAPH, GRAPH.nodes[0], {0: TABLE, 1: rows})
    np.testing.assert_array_equal(found[4], TABLE[rows])


def test_a_node_that_onnx_runtime_refuses_says_why() -> None:
    with pytest.raises(FormatError, match="out of data bounds"):
        run_node(GRAPH, GRAPH.nodes[0], {0: TABLE, 1: np.array([1, 0, 99, 2])})


def test_scalars_stay_scalars() -> None:
    """Constants and inputs of no dimensions are not made vectors of one element."""
    tensors = (
        Tensor(0, "x", (), "float32", "input"),
        Tensor(1, "depth", (), "int64", "weight"),
        Tensor(2, "y", (), "float32", "output", 0),
        Tensor(3, "z", (), "int64", "output", 1),
    )
    nodes = (Node(0, "neg", "Neg", "", (0,), (2,)), Node(1, "size", "Abs", "", (1,), (3,)))
    graph = Graph("g", nodes, tensors, (0,), (2, 3), {1: np.array(5)}, {"": 20})
    x = np.array(3.0, np.float32)
    assert run_node(graph, nodes[0], {0: x})[2].shape == ()
    assert run_node(graph, nodes[1], {1: np.array(5)})[3].shape == ()
    found = computed_from(graph, [2, 3], {0: x}.get)
    assert found is not None
    assert (found[2], found[3], found[3].shape) == (-3, 5, ())
