"""Reductions and operators along an axis, on the machine."""

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.neuroncore.compiler.on_machine import check_node, run_node

OPERATORS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp")
CASES = [
    ((2, 3, 4, 5, 6), (0, 2, 4)),
    ((2, 3, 4, 5, 6), (1, 3)),
    ((2, 3, 4, 5, 6), (0, 1, 2, 3, 4)),
    ((20011,), (0,)),
    ((300, 40), (0,)),
    ((300, 40), (1,)),
    ((1, 64, 20, 20), (2, 3)),
    ((3, 9000), (1,)),
    ((5000, 3), (0,)),
    ((20, 7, 30, 9), (0, 2)),
    ((1, 1, 1), (1,)),
]


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(5)


@pytest.mark.parametrize(("index", "case"), list(enumerate(CASES)))
def test_reductions_over_any_axes(
    index: int, case: tuple[tuple[int, ...], tuple[int, ...]], rng: np.random.Generator
) -> None:
    shape, axes = case
    x = rng.standard_normal(shape).astype(np.float32)
    for op_type in (OPERATORS[index % 7], OPERATORS[(index + 3) % 7]):
        check_node(op_type, [x, np.array(axes)], constants=(1,), keepdims=index % 2, rtol=1e-4, atol=1e-4)


def test_reductions_of_nothing_give_the_neutral_element() -> None:
    x = np.zeros((2, 0, 4), np.float32)
    for op_type, value in (
        ("ReduceSum", 0.0),
        ("ReduceProd", 1.0),
        ("ReduceMax", -np.inf),
        ("ReduceMin", np.inf),
    ):
        expected = np.full((2, 1, 4), value, np.float32)
        check_node(op_type, [x, np.array([1])], constants=(1,), expected=[expected])


def test_integer_sums_are_exact() -> None:
    x = np.array([[2**24 + 1, 1, 1], [2**30, -(2**30), 7]], np.int32)
    check_node("ReduceSum", [x, np.array([1])], constants=(1,))
    check_node("ReduceSum", [np.array([[16777217]], np.int32), np.array([0])], constants=(1,))


def test_axes_known_only_at_run_time_are_refused() -> None:
    """Compiled without the axes the node runs on the host, and says why."""
    ran = run_node("ReduceSum", [np.ones((2, 3), np.float32), np.array([1])], keepdims=1, constants=())
    assert ran.host == ["ReduceSum"]
    assert any("not known at compile time" in note.text for note in ran.program.notes)


AXES = [
    ((7, 9), 1),
    ((300, 600), 1),
    ((4, 200, 50), 1),
    ((1, 21, 20, 20), 1),
    ((3, 4, 5, 6), 0),
    ((1000,), 0),
]


@quick(but=["shape1-1"])
@pytest.mark.parametrize(("shape", "axis"), AXES)
def test_operators_along_an_axis(shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(np.float32) * 5
    check_node("Softmax", [x], axis=axis, rtol=1e-4)
    check_node("LogSoftmax", [x], axis=axis, rtol=1e-4, atol=2e-5)
    steps = np.round(x)
    check_node("Hardmax", [steps], axis=axis)
    check_node("ArgMax", [steps], axis=axis)
    check_node("ArgMin", [steps], axis=axis, select_last_index=1, keepdims=0)
    check_node("CumSum", [x, np.array(axis)], constants=(1,), rtol=1e-4, atol=1e-3)
    check_node("CumSum", [x, np.array(axis)], constants=(1,), exclusive=1, reverse=1, rtol=1e-4, atol=1e-3)
    count = np.array([min(5, shape[axis])])
    for largest in (0, 1):
        check_node("TopK", [steps, count], num_outputs=2, constants=(1,), axis=axis, largest=largest)


def test_softmax_before_opset_13_takes_all_further_axes_together() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4, 1) / 7
    shifted = np.exp(x - x.max(axis=(1, 2, 3), keepdims=True))
    expected = shifted / shifted.sum(axis=(1, 2, 3), keepdims=True)
    check_node("Softmax", [x], expected=[expected], opset=9)


def test_softmax_of_large_numbers_is_stable() -> None:
    x = np.array([[1e4, 1e4 + 1, -1e30], [-1e4, 0, 88]], np.float32)
    check_node("Softmax", [x], axis=-1)


@pytest.mark.parametrize(
    ("op_type", "size"), [("Softmax", 18710), ("LogSoftmax", 18710), ("Softmax", 60_000)]
)
def test_softmax_of_rows_that_no_partition_holds(op_type: str, size: int, rng: np.random.Generator) -> None:
    """Classes of a large alphabet; the largest lies in another part than the others."""
    x = rng.standard_normal((2, 65, size)).astype(np.float32) * 3
    x[:, :, -1] = 40
    ran = check_node(op_type, [x], axis=-1, rtol=1e-4, atol=2e-5 if op_type == "LogSoftmax" else 1e-12)
    assert [node.op_type for node in ran.program.graph.nodes] == [op_type]


def test_top_k_and_extremes_of_wide_integers_are_exact() -> None:
    x = np.array([[2**24, 2**24 + 1, -(2**31), 2**31 - 1, 2**24 + 1]], np.int32)
    check_node("TopK", [x, np.array([5])], num_outputs=2, constants=(1,))
    check_node("ArgMax", [x[:, :3]], axis=1)


def test_cumulative_integers_are_exact() -> None:
    x = np.array([2**24, 1, 1, 1, 2**30], np.int32)
    check_node("CumSum", [x, np.array(0)], constants=(1,))


def test_long_axes_are_ranked_in_two_stages(rng: np.random.Generator) -> None:
    x = np.round(rng.standard_normal((2, 9001)).astype(np.float32) * 50)
    check_node("ArgMax", [x], axis=1)
    check_node("ArgMin", [x], axis=1, select_last_index=1)
    check_node("TopK", [x, np.array([3])], num_outputs=2, constants=(1,))


def test_an_axis_longer_than_a_partition_is_refused_with_the_limit() -> None:
    ran = run_node("ArgMax", [np.zeros((1, 9000, 2), np.float32)], axis=1)
    assert ran.host == ["ArgMax"]
    assert any("an axis of 9000 elements" in note.text for note in ran.program.notes)
