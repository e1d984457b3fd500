"""Pad: zeros around a tensor, and parts of it that are cut off."""

from pathlib import Path

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu


@quick(every=2)
@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((2, 20, 5, 7), (0, 0, 1, 2, 0, 0, 3, 0)),
        ((1, 16, 40, 40), (0, 8, 1, 2, 0, 16, 3, 0)),
        ((1, 300, 30, 9), (0, 3, 0, 1, 0, 2, -4, 0)),
        ((1, 37, 300), (0, 0, 0, 0, 7, 11)),
        ((2, 10, 400), (0, 0, 9, 0, 0, -30)),
        ((70, 90), (3, 0, 0, 5)),
        ((1, 9000, 3), (0, 0, 1, 0, 0, 1)),
        # The kernels of the third core are read with the others, half of their rows at a time.
        ((2, 64, 300), (0, 1, 1, 0, 2, 0)),
    ],
)
def test_zeros_around_a_tensor(
    tmp_path: Path, shape: tuple[int, ...], pads: tuple[int, ...], cores: str
) -> None:
    model = Model(*shape)
    made = model.add("Sigmoid", "x")  # what fills up its channels is no zero
    model.add("Sigmoid", model.add("Pad", made, model.constant(np.array(pads))))
    on_npu(model.save(tmp_path), {"cores": cores, **SLOW_HOST})


@pytest.mark.parametrize("pads", [(0, 2, 0, 0, 9, 0), (1, 0, 3, 0, 0, 2), (0, -1, 0, 2, 0, 0)])
def test_rows_of_products_are_padded_along_any_axis(tmp_path: Path, pads: tuple[int, ...]) -> None:
    model = Model(8, 12, 150)
    product = model.add("MatMul", "x", model.weight(150, 45))
    padded = model.add("Pad", product, model.constant(np.array(pads)))
    model.add("Relu", model.add("MatMul", padded, model.weight(45 + pads[2] + pads[5], 4)))
    on_npu(model.save(tmp_path), SLOW_HOST)


def test_only_some_axes_are_named(tmp_path: Path) -> None:
    model = Model(1, 64, 30, 20)
    pads, axes = model.constant(np.array([2, 1])), model.constant(np.array([-2]))
    model.add("Relu", model.add("Pad", model.add("Relu", "x"), pads, "", axes))
    on_npu(model.save(tmp_path), SLOW_HOST)


@quick(every=3)
@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((2, 20, 9, 7), (0, 0, 3, 2, 0, 0, 1, 4)),
        ((1, 40, 30), (0, 0, 5, 0, 0, 0)),
        ((1, 9, 12, 11), (0, 0, 0, 0, 0, 0, 11, 0)),
    ],
)
def test_edges_are_written_again(
    tmp_path: Path, shape: tuple[int, ...], pads: tuple[int, ...], mode: str, cores: str
) -> None:
    model = Model(*shape)
    padded = model.add("Pad", model.add("Sigmoid", "x"), model.constant(np.array(pads)), mode=mode)
    model.add("Sigmoid", padded)
    on_npu(model.save(tmp_path), {"cores": cores, **SLOW_HOST})


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_rows_of_products_are_written_again_along_other_axes(tmp_path: Path, mode: str) -> None:
    model = Model(8, 12, 150)
    product = model.add("MatMul", "x", model.weight(150, 45))
    padded = model.add("Pad", product, model.constant(np.array([1, 2, 0, 3, 0, 0])), mode=mode)
    model.add("Relu", model.add("MatMul", padded, model.weight(45, 4)))
    on_npu(model.save(tmp_path), SLOW_HOST)


@quick(every=5)
@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize("lines", [1, 3])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("length", "pads"), [(700, (64, 64)), (576, (0, 64)), (705, (13, 200)), (701, (130, 0))]
)
def test_a_signal_that_long_windows_are_taken_of_is_padded_as_a_line(
    tmp_path: Path, length: int, pads: tuple[int, int], mode: str, lines: int, cores: str
) -> None:
    model = Model(lines, length)
    filling = [model.constant(np.float32(0.75))] if mode == "constant" else []
    padded = model.add("Pad", "x", model.constant(np.array([0, pads[0], 0, pads[1]])), *filling, mode=mode)
    signal = model.add("Unsqueeze", padded, model.constant(np.array([1])))
    model.add("Relu", model.conv(signal, 1, 130, 256, strides=[128]))
    on_npu(model.save(tmp_path), {"cores": cores, **SLOW_HOST})


def test_a_signal_that_comes_from_a_cube_is_padded_on_the_host(tmp_path: Path) -> None:
    """It fills a line as well as a cube, and the convolution needs the line."""
    model = Model(1, 64, 700)
    signal = model.conv("x", 64, 1, 3)
    padded = model.add("Pad", signal, model.constant(np.array([0, 0, 64, 0, 0, 64])), mode="reflect")
    model.add("Relu", model.conv(padded, 1, 130, 256, strides=[128]))
    assert checked(model.save(tmp_path)).nodes_on_host() <= {"Pad"}


@pytest.mark.parametrize("pads", [(0, 3, 0, 0, 0, 9, 0, 0), (0, 1, 2, 0, 0, 0, 0, 5)])
def test_channels_are_repeated_by_a_product(tmp_path: Path, pads: tuple[int, ...]) -> None:
    model = Model(1, 40, 30, 20)
    padded = model.add("Pad", model.add("Sigmoid", "x"), model.constant(np.array(pads)), mode="reflect")
    model.add("Sigmoid", padded)
    on_npu(model.save(tmp_path), SLOW_HOST)


def test_images_are_not_repeated(tmp_path: Path) -> None:
    model = Model(2, 64, 30, 20)
    pads = model.constant(np.array([1, 0, 0, 0, 0, 0, 0, 0]))
    model.add("Relu", model.add("Pad", model.add("Relu", "x"), pads, mode="edge"))
    finished = checked(model.save(tmp_path))
    assert "Pad" in finished.nodes_on_host()
    assert any("images that are repeated" in note.text for note in finished.program.notes)


@pytest.mark.parametrize(
    ("mode", "value", "reason"),
    [("constant", 1.5, "not stored as zero")],
)
def test_what_stays_on_the_host_says_why(tmp_path: Path, mode: str, value: float, reason: str) -> None:
    model = Model(1, 64, 30, 20)
    pads = model.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    filling = [model.constant(np.float32(value))] if value else []
    model.add("Relu", model.add("Pad", model.add("Relu", "x"), pads, *filling, mode=mode))
    finished = checked(model.save(tmp_path))
    assert "Pad" in finished.nodes_on_host()
    assert any(reason in each for each in finished.host_reasons)
