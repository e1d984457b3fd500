"""Pools and recurrent operators: values against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.neuroncore.compiler.onnx_models import check, model, node, values

WINDOWS = [
    ((1, 5, 12, 12), {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ((1, 5, 12, 12), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((2, 70, 9, 8), {"kernel_shape": [2, 3], "pads": [0, 1, 1, 0]}),
    ((1, 3, 10, 10), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 3, 9, 9), {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 3, 9, 9), {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ((1, 4, 20), {"kernel_shape": [4], "strides": [3]}),
    ((1, 4, 6, 7, 8), {"kernel_shape": [2, 3, 3], "strides": [1, 2, 2]}),
    ((1, 6, 7, 7), {"kernel_shape": [7, 7]}),
]


@pytest.mark.parametrize(("shape", "attributes"), WINDOWS)
def test_max_pool(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    inputs = {"x": values(*shape)}
    check(model([node("MaxPool", "x", **attributes)], inputs), inputs, tolerance=0)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(("shape", "attributes"), [WINDOWS[1], WINDOWS[2], WINDOWS[6]])
def test_max_pool_indices(shape: tuple[int, ...], attributes: dict[str, Any], order: int) -> None:
    if order and len(shape) != 4:
        return
    inputs = {"x": values(*shape)}
    nodes = [node("MaxPool", "x", "y i", storage_order=order, **attributes)]
    check(model(nodes, inputs, outputs=["y", "i"]), inputs, tolerance=0)


def test_max_pool_of_bytes_with_dilation() -> None:
    inputs = {"x": values(1, 4, 9, 9, dtype="uint8")}
    check(model([node("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 3])], inputs), inputs, tolerance=0)


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(("shape", "attributes"), WINDOWS)
def test_average_pool(shape: tuple[int, ...], attributes: dict[str, Any], include: int) -> None:
    inputs = {"x": values(*shape)}
    nodes = [node("AveragePool", "x", count_include_pad=include, **attributes)]
    check(model(nodes, inputs), inputs)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_lp_pool(power: int) -> None:
    inputs = {"x": values(1, 3, 8, 8)}
    check(model([node("LpPool", "x", kernel_shape=[3, 2], p=power)], inputs), inputs)


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize("shape", [(2, 70, 5, 6), (1, 3, 50), (1, 2, 3, 4, 5), (1, 2, 300, 210)])
def test_global_pools(kind: str, shape: tuple[int, ...]) -> None:
    inputs = {"x": values(*shape)}
    check(model([node(kind, "x")], inputs), inputs)


MANY = [
    ("MaxPool", (2101, 2, 4, 4), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", (2101, 2, 5), {"kernel_shape": [3], "pads": [1, 1]}),
    ("AveragePool", (4200, 1, 3, 3), {"kernel_shape": [3, 3]}),
    ("LpPool", (1, 4200, 4), {"kernel_shape": [2], "strides": [2]}),
    ("GlobalAveragePool", (2101, 2, 3), {}),
    ("GlobalMaxPool", (2101, 2, 3, 2), {}),
    ("GlobalLpPool", (2101, 2, 3), {}),
]


@pytest.mark.parametrize(("kind", "shape", "attributes"), MANY)
def test_small_images_share_partitions(kind: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    inputs = {"x": values(*shape)}
    done = check(model([node(kind, "x", **attributes)], inputs), inputs)
    few = {"x": inputs["x"].reshape(-1, 1, *shape[2:])[:1000]}
    assert done.cycles < 1.8 * check(model([node(kind, "x", **attributes)], few), few).cycles


@pytest.mark.parametrize("order", [0, 1])
def test_indices_of_images_that_share_partitions(order: int) -> None:
    inputs = {"x": values(2101, 2, 4, 3)}
    nodes = [node("MaxPool", "x", "y i", kernel_shape=[2, 2], storage_order=order)]
    check(model(nodes, inputs, outputs=["y", "i"]), inputs, tolerance=0)


def test_a_plane_that_does_not_fit_goes_by_rows() -> None:
    inputs = {"x": values(1, 2, 300, 210)}
    nodes = [node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])]
    check(model(nodes, inputs), inputs, tolerance=0)


def test_a_signal_that_does_not_fit_goes_by_parts() -> None:
    inputs = {"x": values(1, 2, 90000)}
    nodes = [node("MaxPool", "x", kernel_shape=[5], strides=[3], pads=[2, 1])]
    check(model(nodes, inputs), inputs, tolerance=0)


def test_max_unpool_undoes_a_pool() -> None:
    inputs = {"x": values(1, 2, 6, 6)}
    nodes = [
        node("MaxPool", "x", "p i", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "p i", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    check(model(nodes, inputs), inputs, tolerance=0)


@quick(every=3)
@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("units", [5, 140])
def test_recurrent(op: str, gates: int, direction: str, units: int) -> None:
    count = 2 if direction == "bidirectional" else 1
    inputs = {"x": values(3, 2, 7), "h": values(count, 2, units, seed=1)}
    stored = {
        "w": values(count, gates * units, 7, seed=2) * 0.3,
        "r": values(count, gates * units, units, seed=3) * 0.05,
        "b": values(count, 2 * gates * units, seed=4),
    }
    stored = {name: array.astype(np.float32) for name, array in stored.items()}
    outputs = ["y", "yh"] if op != "LSTM" else ["y", "yh", "yc"]
    nodes = [node(op, "x w r b - h", " ".join(outputs), hidden_size=units, direction=direction)]
    check(model(nodes, inputs, stored, outputs), inputs, tolerance=1e-3)


@pytest.mark.parametrize("after", [0, 1])
def test_gru_resets_before_or_after_its_product(after: int) -> None:
    inputs = {"x": values(4, 3, 6)}
    stored = {"w": values(1, 15, 6, seed=1), "r": values(1, 15, 5, seed=2), "b": values(1, 30, seed=3)}
    nodes = [node("GRU", "x w r b", "y yh", hidden_size=5, linear_before_reset=after)]
    check(model(nodes, inputs, stored, ["y", "yh"]), inputs, tolerance=1e-3)


def test_sequences_of_different_lengths() -> None:
    inputs = {"x": values(4, 3, 6), "n": np.array([4, 2, 1], np.int32)}
    stored = {"w": values(1, 20, 6, seed=1), "r": values(1, 20, 5, seed=2), "b": values(1, 40, seed=3)}
    nodes = [node("LSTM", "x w r b n", "y yh yc", hidden_size=5)]
    check(model(nodes, inputs, stored, ["y", "yh", "yc"]), inputs, tolerance=1e-3)
