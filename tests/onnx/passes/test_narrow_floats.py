"""float64 tensors become float32, but for what float32 cannot hold."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from npuviz.onnx.passes.narrow_floats import beyond_range, narrow_floats
from tests.targets.neuroncore.compiler.graphs import make_graph

DOUBLES = ((4,), "float64")


def dtypes(**constants: np.ndarray) -> dict[str, str]:
    """Element types by name after narrowing x * c + d = y and x * x = z."""
    graph = make_graph(
        {"x": DOUBLES},
        {"y": DOUBLES, "z": DOUBLES},
        [("Mul", ["x", "c"], ["t"], {}), ("Add", ["t", "d"], ["y"], {}), ("Mul", ["x", "x"], ["z"], {})],
        constants,
        {"t": DOUBLES},
    )
    return {tensor.name: tensor.dtype for tensor in narrow_floats(graph).graph.tensors}


def test_all_become_narrow() -> None:
    found = dtypes(c=np.array(0.1), d=np.array([1.0, -np.inf, np.nan, 3e38]))
    assert set(found.values()) == {"float32"}


def test_what_is_computed_from_large_constants_stays_wide() -> None:
    """So does a constant that only such operators read, but not the input, which others read."""
    found = dtypes(c=np.array(1e300), d=np.array(0.1))
    assert found == {"x": "float32", "c": "float64", "t": "float64", "d": "float64", "y": "float64",
                     "z": "float32"}  # fmt: skip


def test_the_reason_names_the_constant() -> None:
    graph = make_graph(
        {"x": DOUBLES}, {"y": DOUBLES}, [("Add", ["x", "c"], ["y"], {})], {"c": np.array(1e-300)}
    )
    found = narrow_floats(graph)
    assert not found.held
    reason = found.reason(found.graph.nodes[0])
    assert reason is not None
    assert reason.limit == "it computes in float64, since float32 cannot hold 1e-300 of constant c"


def test_an_attribute_counts_as_a_constant() -> None:
    large: Mapping[str, Any] = {"value": np.array([1e39])}
    graph = make_graph({"n": ((1,), "int64")}, {"y": DOUBLES}, [("ConstantOfShape", ["n"], ["y"], large)], {})
    assert narrow_floats(graph).graph.tensors[1].dtype == "float64"


@pytest.mark.parametrize(
    ("values", "beyond"),
    [
        ([1.0, -4e38], -4e38),
        ([1e-50, 0.0], 1e-50),
        ([1e-50, 0.5], None),
        ([np.inf, -np.inf, np.nan, 0.0], None),
        ([-3.4e38], None),
        ([], None),
    ],
)
def test_numbers_beyond_the_range(values: list[float], beyond: float | None) -> None:
    assert beyond_range(np.array(values)) == beyond


def test_repeated_values_stay_one_value_in_memory() -> None:
    repeated = np.broadcast_to(np.float64(0.25), (1 << 20,))
    graph = make_graph(
        {"x": ((1 << 20,), "float64")}, {"y": ((1 << 20,), "float64")}, [("Add", ["x", "c"], ["y"], {})],
        {"c": repeated},
    )  # fmt: skip
    (narrow,) = narrow_floats(graph).graph.constants.values()
    assert narrow.dtype == np.float32
    assert not any(narrow.strides)


def test_bits_of_float64_stay() -> None:
    graph = make_graph(
        {"x": DOUBLES},
        {"y": ((4,), "int64"), "z": DOUBLES},
        [("BitCast", ["x"], ["y"], {"to": 7}), ("Exp", ["x"], ["z"], {})],
        opset=26,
    )
    assert narrow_floats(graph).graph.tensors[0].dtype == "float64"


def test_what_is_only_moved_stays() -> None:
    """What is moved to an operator that computes does not stay, nor does what is moved from there."""
    nodes = [
        ("Transpose", ["m"], ["n"], {}),
        ("Identity", ["a"], ["b"], {}),
        ("Reshape", ["b"], ["c"], {}),
        ("Exp", ["c"], ["d"], {}),
        ("Identity", ["d"], ["e"], {}),
    ]
    names = dict.fromkeys("bcd", DOUBLES)
    graph = make_graph({"m": DOUBLES, "a": DOUBLES}, {"n": DOUBLES, "e": DOUBLES}, nodes, {}, names)
    found = {tensor.name for tensor in narrow_floats(graph).graph.tensors if tensor.dtype == "float64"}
    assert found == {"m", "n"}


def test_other_types_are_left_alone() -> None:
    graph = make_graph({"x": ((4,), "float32")}, {"y": ((4,), "float32")}, [("Relu", ["x"], ["y"], {})])
    found = narrow_floats(graph)
    assert found.graph is graph
    assert not found.held
