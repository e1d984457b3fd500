"""Gathers and scatters with indices of the run and of the compiler, on the machine, against numpy."""

import numpy as np
import pytest

from tests.targets.neuroncore.compiler.on_machine import Ran, run_node
from tests.targets.neuroncore.compiler.onnx_models import check, model, node

RNG = np.random.default_rng(3)


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(int(np.prod(shape))) % 241).reshape(shape).astype(dtype)


def same(done: Ran, expected: np.ndarray) -> None:
    assert not done.host
    assert not done.hazards
    assert done.outputs[0].dtype == expected.dtype
    np.testing.assert_array_equal(done.outputs[0], expected)


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float64", "uint8"])
def test_gather(axis: int, dtype: str, is_constant: bool) -> None:
    x = data(5, 6, 7, dtype=dtype)
    indices = np.array([[0, -1, 2], [4, 4, -5]], np.int64)
    constants = (1,) if is_constant else ()
    same(run_node("Gather", [x, indices], axis=axis, constants=constants), np.take(x, indices, axis))


def test_gather_of_more_rows_than_partitions() -> None:
    x = data(300, 3)
    indices = RNG.integers(-300, 300, 200)
    same(run_node("Gather", [x, indices]), x[indices])


def test_gather_along_the_last_of_many_rows() -> None:
    x = data(40, 6)
    same(run_node("Gather", [x, np.array([5, 0], np.int32)], axis=1), x[:, [5, 0]])


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis: int, dtype: str, is_constant: bool) -> None:
    x = data(4, 5, dtype=dtype)
    indices = RNG.integers(-x.shape[axis], x.shape[axis], (3, 5) if axis == 0 else (4, 2))
    constants = (1,) if is_constant else ()
    done = run_node("GatherElements", [x, indices], axis=axis, constants=constants)
    same(done, np.take_along_axis(x, np.where(indices < 0, indices + x.shape[axis], indices), axis))


@pytest.mark.parametrize("is_constant", [False, True])
def test_gather_nd(is_constant: bool) -> None:
    x = data(3, 4, 5)
    indices = np.array([[0, 1], [2, -1], [1, 3]], np.int64)
    done = run_node("GatherND", [x, indices], constants=(1,) if is_constant else ())
    same(done, x[indices[:, 0], indices[:, 1]])
    batched = np.array([[1], [0], [3]], np.int64)
    same(run_node("GatherND", [x, batched], batch_dims=1), x[np.arange(3), batched[:, 0]])


@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("is_constant", [False, True])
def test_reverse_sequence(time_axis: int, is_constant: bool) -> None:
    x = data(4, 3, 2)
    batch = x.shape[1 - time_axis]
    lengths = np.array([2, 3, 1, 3][:batch], np.int64)
    expected = x.copy()
    for at, length in enumerate(lengths):
        if time_axis == 0:
            expected[:length, at] = x[:length, at][::-1]
        else:
            expected[at, :length] = x[at, :length][::-1]
    done = run_node(
        "ReverseSequence", [x, lengths], time_axis=time_axis, batch_axis=1 - time_axis,
        constants=(1,) if is_constant else (),
    )  # fmt: skip
    same(done, expected)


def test_scatter_elements() -> None:
    x, updates = data(4, 5), -data(2, 5) - 1
    indices = np.array([[0, 1, 2, 3, -1], [1, 0, 3, 2, 2]], np.int64)
    expected = x.copy()
    np.put_along_axis(expected, np.where(indices < 0, indices + 4, indices), updates, 0)
    same(run_node("ScatterElements", [x, indices, updates], axis=0), expected)


@pytest.mark.parametrize(("reduction", "apply"), [("add", np.add), ("mul", np.multiply), ("max", np.maximum)])
def test_equal_indices_reduce_one_after_the_other(reduction: str, apply: np.ufunc) -> None:
    x = data(6) + 1
    indices, updates = np.array([1, 3, 1, 1], np.int64), np.array([2, 3, 4, 5], np.float32)
    expected = x.copy()
    apply.at(expected, indices, updates)
    same(run_node("ScatterElements", [x, indices, updates], axis=0, reduction=reduction), expected)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_an_index_that_is_repeated_moves_whole_rows(reduction: str) -> None:
    """As graph networks sum what comes in along edges; elements would be added one after the other."""
    x, updates = data(5, 48), data(4, 48) + 1
    indices = np.array([[3], [-5], [3 if reduction == "add" else 1], [2]], np.int64)
    nodes = [
        node("Expand", "i shape", "wide"),
        node("ScatterElements", "x wide u", axis=0, reduction=reduction),
    ]
    inputs = {"x": x, "i": indices, "u": updates}
    rows = check(model(nodes, inputs, stored={"shape": np.array([4, 48])}), inputs, 0)
    inputs = {"x": x, "wide": indices.repeat(48, 1), "u": updates}
    elements = check(model(nodes[1:], inputs), inputs, 0)
    if reduction == "add":
        assert 4 * rows.cycles < elements.cycles


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_scatter_nd(dtype: str, is_constant: bool) -> None:
    x, updates = data(4, 5, 2, dtype=dtype), data(2, 5, 2, dtype=dtype) + 500
    expected = x.copy()
    expected[[3, 1]] = updates
    indices = np.array([[-1], [1]], np.int64)
    constants = (1,) if is_constant else ()
    same(run_node("ScatterND", [x, indices, updates], constants=constants), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(axis: int) -> None:
    indices = np.array([[0, 3], [-1, 7]], np.int64)
    on_off = np.array([2.5, -1.0], np.float32)
    hot = np.where(np.arange(5) == np.where(indices < 0, indices + 5, indices)[..., None], -1.0, 2.5)
    expected = np.moveaxis(hot.astype(np.float32), -1, axis)
    done = run_node("OneHot", [indices, np.array(5), on_off], axis=axis, constants=(1,))
    same(done, np.ascontiguousarray(expected))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_range(dtype: str) -> None:
    start, limit, step = (np.array(value, dtype) for value in (10, -3, -4))
    same(run_node("Range", [start, limit, step], constants=(0, 1, 2)), np.arange(10, -3, -4).astype(dtype))


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_eye_like(k: int) -> None:
    x = np.zeros((3, 4), np.int32)
    same(run_node("EyeLike", [x], k=k), np.eye(3, 4, k, np.int32))
