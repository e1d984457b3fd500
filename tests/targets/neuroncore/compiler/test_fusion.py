"""Which nodes become one loop, and that such loops compute what the nodes do."""

import numpy as np
import pytest
from onnx import helper

from npuviz.targets.neuroncore.compiler.fusion import MAX_NODES, plan_groups
from tests.targets.neuroncore.compiler.graphs import make_graph
from tests.targets.neuroncore.compiler.on_machine import assert_matches, make_model, reference, run

F = ((4, 8), "float32")
ROW = ((1, 8), "float32")


def _plan(
    nodes: list[tuple[str, list[str], list[str]]],
    outputs: list[str],
    rows: tuple[str, ...] = (),
) -> list[list[int]]:
    """Node ids of every group; tensors are 4 x 8, those of `rows` 1 x 8."""
    made = [name for _, _, written in nodes for name in written]
    shapes = {name: ROW if name in rows else F for name in made}
    graph = make_graph(
        {"x": F, "z": F, "row": ROW},
        {name: shapes[name] for name in outputs},
        [(op, reads, writes, {}) for op, reads, writes in nodes],
        inner={name: shape for name, shape in shapes.items() if name not in outputs},
    )
    return [[node.id for node in group.nodes] for group in plan_groups(graph)]


def test_a_chain_is_one_group() -> None:
    nodes = [("Relu", ["x"], ["a"]), ("Add", ["a", "z"], ["b"]), ("Tanh", ["b"], ["y"])]
    assert _plan(nodes, ["y"]) == [[0, 1, 2]]


def test_a_diamond_is_one_group() -> None:
    nodes = [
        ("Sigmoid", ["x"], ["a"]),
        ("Tanh", ["a"], ["b"]),
        ("Exp", ["a"], ["c"]),
        ("Mul", ["b", "c"], ["y"]),
    ]
    assert _plan(nodes, ["y"]) == [[0, 1, 2, 3]]


def test_a_tensor_that_is_read_elsewhere_ends_a_group() -> None:
    nodes = [("Relu", ["x"], ["a"]), ("Tanh", ["a"], ["y"]), ("Transpose", ["a"], ["t"])]
    groups = _plan(nodes, ["y", "t"])
    assert [0] in groups
    assert [1] in groups


def test_a_graph_output_ends_a_group() -> None:
    assert _plan([("Relu", ["x"], ["a"]), ("Tanh", ["a"], ["y"])], ["y", "a"]) == [[0], [1]]


def test_another_shape_ends_a_group() -> None:
    nodes = [("Relu", ["row"], ["a"]), ("Add", ["x", "a"], ["y"])]
    assert _plan(nodes, ["y"], rows=("a",)) == [[0], [1]]


def test_groups_are_bounded() -> None:
    names = ["x", *(f"t{i}" for i in range(30)), "y"]
    nodes = [("Relu", [names[i]], [names[i + 1]]) for i in range(31)]
    groups = _plan(nodes, ["y"])
    assert max(len(group) for group in groups) == MAX_NODES
    assert sorted(node for group in groups for node in group) == list(range(31))


def test_only_followers_of_a_product_become_its_epilogue() -> None:
    nodes = [("MatMul", ["x", "w"], ["a"]), ("Add", ["a", "z"], ["b"]), ("Relu", ["b"], ["y"])]
    graph = make_graph(
        {"x": F, "z": F},
        {"y": F},
        [(op, reads, writes, {}) for op, reads, writes in nodes],
        {"w": np.ones((8, 8), np.float32)},
        inner={"a": F, "b": F},
    )
    (group,) = plan_groups(graph)
    assert (group.kind, group.head.id, group.result) == ("epilogue", 0, graph.nodes[2].outputs[0])
    apart = plan_groups(graph, epilogues=False)
    assert [each.kind for each in apart] == ["single", "elementwise"]


@pytest.mark.parametrize("preset", ["trn1", "trn2"])
def test_a_fused_loop_computes_and_stores_what_others_read(preset: str) -> None:
    rng = np.random.default_rng(2)
    inputs = {
        "x": rng.standard_normal((2, 3, 40, 50)).astype(np.float32),
        "z": rng.standard_normal((3, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("Add", ["c", "z"], ["d"]),
        helper.make_node("Greater", ["d", "z"], ["m"]),
        helper.make_node("Where", ["m", "d", "x"], ["y"]),
        helper.make_node("ReduceSum", ["b"], ["r"], keepdims=0),
    ]
    model = make_model(nodes, inputs, ["y", "a", "r"])
    ran = run(model, inputs, preset)
    assert_matches(ran, reference(model, inputs), 1e-4, 1e-5)


def test_fusing_saves_transfers() -> None:
    inputs = {"x": np.linspace(-3, 3, 70000).astype(np.float32)}
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    together = run(make_model(nodes, inputs, ["y"]), inputs)
    apart = run(make_model(nodes, inputs, ["y", "a", "b"]), inputs)
    assert len(together.program.payload.tables.transfers) < len(apart.program.payload.tables.transfers)
    assert together.cycles < apart.cycles
    np.testing.assert_array_equal(together.outputs[0], apart.outputs[0])
