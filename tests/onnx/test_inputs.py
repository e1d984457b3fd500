"""Inputs that are given or drawn, and single nodes in ONNX Runtime."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.onnx import inputs as drawing
from npuviz.onnx.inputs import User, draw_inputs, index_limits
from npuviz.onnx.semantics.usual_inputs import usual_texts
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
    ("name", "value"),
    [
        ("attention_mask", 1),
        ("decoderAttentionMask", 1),
        ("input_mask:0", 1),
        ("masks.1", 1),
        ("src_key_padding_mask", 0),
        ("token_type_ids", None),
        ("damasked_ids", None),
        ("mask_index", None),
        ("7", None),
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_masks_that_nobody_gave_let_everything_through(name: str, value: int | None, dtype: str) -> None:
    def graph(called: str) -> Graph:
        tensors = (Tensor(0, called, (3, 40), dtype, "input"), Tensor(1, "x", (5,), "float32", "input"))
        return Graph("g", (), tensors, (0, 1), ())

    found, plain = draw_inputs(graph(name), {}, 3), draw_inputs(graph("ids"), {}, 3)
    wanted = plain["ids"] if value is None else np.full((3, 40), value)
    np.testing.assert_array_equal(found[name], wanted.astype(found[name].dtype))
    np.testing.assert_array_equal(found["x"], plain["x"])
    assert bool(list(usual_texts({name: (3, 40)}, {}))) == (value is not None)
    own = np.zeros((3, 40), found[name].dtype)
    np.testing.assert_array_equal(draw_inputs(graph(name), {name: own})[name], own)


@pytest.mark.parametrize(("past", "total"), [((1, 2, 7, 16), 12), ((1, 2, 0, 16), 5), ((), 5)])
def test_numbers_of_tokens_follow_the_shapes(past: tuple[int, ...], total: int) -> None:
    shapes = {
        "input_ids": (1, 5),
        "past_key_values.0.key": past,
        "seqlens_k": (1,),
        "total_sequence_length": (),
        "past_sequence_length": (1,),
        "current_sequence_length": (),
    }
    tensors = [Tensor(at, name, shape, "int32", "input") for at, (name, shape) in enumerate(shapes.items())]
    found = draw_inputs(Graph("g", (), tuple(tensors), tuple(range(len(tensors))), ()), {}, 3)
    wanted = {
        "seqlens_k": total - 1,
        "total_sequence_length": total,
        "past_sequence_length": total - 5,
        "current_sequence_length": 5,
    }
    assert {name: int(found[name].reshape(-1)[0]) for name in wanted} == wanted
    own = {"seqlens_k": np.zeros(1, np.int32)}
    told = list(usual_texts(shapes, own))
    assert [text.split()[1] for text in told] == list(wanted)[1:]
    assert f"total_sequence_length is {total}," in told[0]
    assert not list(usual_texts({"seqlens_k": (1,), "x": (3,)}, {}))  # nothing tells how many


def at_once(seed: int) -> dict[str, np.ndarray]:
    """What the inputs hold: drawn whole, one after the other."""
    generator = np.random.default_rng(seed)
    return {
        "rows": generator.integers(0, 7, (4,)),
        "x": generator.standard_normal((4, 3)).astype(np.float32),
        "flag": np.ones(2, np.bool_),
    }


@pytest.mark.parametrize("part", [1, 3, 5, 1 << 20])
@pytest.mark.parametrize("order", [("x", "rows", "flag"), ("rows", "x"), ("x",), ("flag", "x")])
def test_parts_and_the_order_of_looks_change_no_number(
    part: int, order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "DRAWN_AT_ONCE", part)
    drawn = draw_inputs(GRAPH, {}, 5)
    for name in order:
        np.testing.assert_array_equal(drawn[name], at_once(5)[name])
    given = draw_inputs(GRAPH, {"rows": np.zeros(4, np.int64)}, 5)
    np.testing.assert_array_equal(given["x"], at_once(5)["x"])


def test_nothing_is_drawn_that_nobody_looks_at() -> None:
    """An input of 2 TiB stands in the way of none before it."""
    tensors = (*TENSORS[:3], Tensor(3, "flag", (1 << 20, 1 << 19), "float32", "input"), *TENSORS[4:])
    drawn = draw_inputs(Graph("g", GRAPH.nodes, tensors, (1, 2, 3), (5,), {0: TABLE}, {"": 20}), {}, 5)
    assert list(drawn) == ["rows", "x", "flag"]
    np.testing.assert_array_equal(drawn["x"], at_once(5)["x"])
    assert "y" not in drawn
    with pytest.raises(KeyError):
        _ = drawn["y"]


def test_an_interrupted_look_changes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "DRAWN_AT_ONCE", 5)
    drawn = draw_inputs(GRAPH, {}, 5)
    whole, parts = drawing._draw, list[np.ndarray]()

    def interrupted(*arguments: Any) -> Iterator[np.ndarray]:
        for part in whole(*arguments):
            parts.append(part)
            if len(parts) == 3:
                raise KeyboardInterrupt
            yield part

    monkeypatch.setattr(drawing, "_draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _ = drawn["x"]
    np.testing.assert_array_equal(drawn["x"], at_once(5)["x"])


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


@pytest.mark.parametrize(
    ("users", "limit"),
    [
        ([User("Unsqueeze", ("ids", "axes"), ("a",)), User("Gather", ("table", "a"), ("y",))], 7),
        (
            [
                User("Expand", ("ids", "shape"), ("a",)),
                User("ScatterElements", ("table", "a", "u"), ("y",), 1),
            ],
            3,
        ),
        ([User("GatherElements", ("table", "ids"), ("y",))], 7),
        ([User("Gather", ("table", "ids"), ("y",), 1)], 3),
        ([User("Gather", ("table", "ids"), ("y",), 5)], None),
        ([User("GatherBlockQuantized", ("table", "ids", "scales"), ("y",))], 7),
        ([User("EmbedLayerNormalization", ("ids", "", "table", "more", "", "g", "b"), ("y",))], 7),
        ([User("EmbedLayerNormalization", ("w", "ids", "more", "more", "table", "g", "b"), ("y",))], 7),
        ([User("EmbedLayerNormalization", ("w", "", "more", "table", "", "", "", "", "ids"), ("y",))], 7),
        ([User("RotaryEmbedding", ("x", "ids", "table", "sines"), ("y",))], 7),
        ([User("RotaryEmbedding", ("x", "table", "sines", "ids"), ("y",))], 7),
        ([User("RotaryEmbedding", ("ids", "table", "sines"), ("y",))], None),
        ([User("OneHot", ("ids", "depth", "values"), ("y",))], 11),
        ([User("OneHot", ("ids", "nothing", "values"), ("y",))], None),
        ([User("Expand", ("ids", "shape"), ("a",)), User("Equal", ("a", "counting"), ("y",))], 257),
        ([User("Equal", ("other", "ids"), ("y",))], None),
        ([User("Add", ("ids", "ids"), ("a",)), User("Gather", ("table", "a"), ("y",))], None),
    ],
)
def test_integers_are_drawn_from_all_that_their_readers_tell_apart(
    users: list[User], limit: int | None
) -> None:
    constants = {"depth": np.array(11), "counting": np.arange(257, dtype=np.int32), "other": np.array([3, 5])}
    constants["nothing"] = np.zeros(0, np.int64)
    assert index_limits(users, {"table": (7, 3), "more": (9, 3)}, constants).get("ids") == limit
