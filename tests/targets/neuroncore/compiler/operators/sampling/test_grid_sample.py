"""GridSample on the machine against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.sweeps import quick
from tests.targets.neuroncore.compiler.onnx_models import check

RNG = np.random.default_rng(5)


def sampling(x: np.ndarray, grid: np.ndarray, mode: str, padding: str, is_aligned: int) -> onnx.ModelProto:
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=is_aligned
    )
    shape = [*x.shape[:2], *grid.shape[1:-1]]
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
            helper.make_tensor_value_info("grid", TensorProto.FLOAT, grid.shape),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@quick(every=5)
@pytest.mark.parametrize("is_aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_places_inside_and_far_outside(mode: str, padding: str, is_aligned: int) -> None:
    x = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    grid = RNG.uniform(-3, 3, (2, 6, 7, 2)).astype(np.float32)
    check(sampling(x, grid, mode, padding, is_aligned), {"x": x, "grid": grid})


def test_more_places_than_partitions() -> None:
    x = RNG.standard_normal((1, 2, 8, 8)).astype(np.float32)
    grid = RNG.uniform(-1, 1, (1, 20, 15, 2)).astype(np.float32)
    check(sampling(x, grid, "linear", "zeros", 0), {"x": x, "grid": grid})


def test_a_volume() -> None:
    x = RNG.standard_normal((1, 2, 3, 4, 5)).astype(np.float32)
    grid = RNG.uniform(-1.2, 1.2, (1, 2, 3, 4, 3)).astype(np.float32)
    check(sampling(x, grid, "linear", "border", 1), {"x": x, "grid": grid})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_places_of_several_pictures_share_tiles(mode: str) -> None:
    x = RNG.standard_normal((5, 1, 6, 7)).astype(np.float32)
    grid = RNG.uniform(-1.5, 1.5, (5, 10, 11, 2)).astype(np.float32)
    check(sampling(x, grid, mode, "zeros", 1), {"x": x, "grid": grid})


def test_neighbours_of_a_cubic_in_a_picture_of_many_channels() -> None:
    x = RNG.standard_normal((1, 300, 5, 6)).astype(np.float32)
    grid = RNG.uniform(-1.5, 1.5, (1, 40, 50, 2)).astype(np.float32)
    check(sampling(x, grid, "cubic", "border", 0), {"x": x, "grid": grid})
