"""Resize, DFT and other constant matrices, on the machine."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from npuviz.onnx.semantics.resize_weights import AxisResize
from npuviz.targets.neuroncore.compiler.operators.spectral import dft_matrix
from tests.targets.neuroncore.compiler.on_machine import run_node

RNG = np.random.default_rng(1)


def reference(x: np.ndarray, scales: list[float], **attributes: Any) -> np.ndarray:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [helper.make_tensor("scales", TensorProto.FLOAT, [len(scales)], scales)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    result: Any = ReferenceEvaluator(model).run(None, {"x": x})
    return np.asarray(result[0])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("scales", [[1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 0.6, 0.5]])
def test_resize(mode: str, coordinates: str, scales: list[float]) -> None:
    x = RNG.standard_normal((1, 2, 5, 6)).astype(np.float32)
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    done = run_node("Resize", [x, None, np.array(scales, np.float32)], constants=(2,), opset=19, **attributes)
    assert not done.host
    np.testing.assert_allclose(done.outputs[0], reference(x, scales, **attributes), rtol=1e-4, atol=1e-5)


def test_upsampling_by_whole_numbers_is_one_movement() -> None:
    x = RNG.standard_normal((1, 2, 3, 3)).astype(np.float32)
    done = run_node("Resize", [x, None, np.array([1, 1, 2, 2], np.float32)], constants=(2,), mode="nearest")
    np.testing.assert_array_equal(done.outputs[0], x.repeat(2, 2).repeat(2, 3))
    assert len(done.program.payload.tables.transfers) <= 4


def test_antialiased_weights_sum_to_one() -> None:
    axis = AxisResize(9, 4, 4 / 9, "cubic", is_antialiased=True)
    np.testing.assert_allclose(axis.weights().sum(axis=1), 1.0)


def test_what_lies_outside_of_the_region_is_extrapolated() -> None:
    axis = AxisResize(4, 4, 1.0, "linear", "tf_crop_and_resize", roi=(0.5, 1.5))
    assert axis.outside().tolist() == [False, False, True, True]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("is_onesided", [0, 1])
def test_dft(axis: int, is_onesided: int) -> None:
    x = RNG.standard_normal((6, 8, 1)).astype(np.float32)
    done = run_node("DFT", [x, None, np.array(axis)], constants=(2,), onesided=is_onesided)
    assert not done.host
    transform = np.fft.rfft if is_onesided else np.fft.fft
    expected = transform(x[..., 0], axis=axis)
    np.testing.assert_allclose(
        done.outputs[0], np.stack([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("length", [7, 8])
def test_a_real_signal_comes_back_from_one_side(length: int) -> None:
    x = RNG.standard_normal(length)
    half = np.fft.rfft(x)
    pairs = np.stack([half.real, half.imag], -1).reshape(-1)
    matrix = dft_matrix(length, len(half), length, (2, 1), is_inverse=True)
    np.testing.assert_allclose(matrix @ pairs, x, atol=1e-12)


def test_col2im_adds_overlapping_blocks() -> None:
    x = RNG.integers(0, 9, (1, 4, 9)).astype(np.float32)
    shapes = [np.array([4, 4], np.int64), np.array([2, 2], np.int64)]
    done = run_node("Col2Im", [x, *shapes], constants=(1, 2))
    expected = np.zeros((1, 1, 4, 4), np.float32)
    for tap in range(4):
        row, column = divmod(tap, 2)
        expected[0, 0, row : row + 3, column : column + 3] += x[0, tap].reshape(3, 3)
    assert not done.host
    np.testing.assert_array_equal(done.outputs[0], expected)
