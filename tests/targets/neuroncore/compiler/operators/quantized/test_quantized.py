"""Quantization on the machine, against onnx's reference."""

import numpy as np
import pytest

from tests.targets.neuroncore.compiler.on_machine import check_node


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(13)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
def test_round_half_to_even_and_saturate(kind: type) -> None:
    scale, zero = np.array(2.0, np.float32), np.array(7, kind)
    x = np.array([-1e9, -3, -1, 0, 1, 3, 5, 7, 1e9], np.float32)
    check_node("QuantizeLinear", [x, scale, zero], atol=0, rtol=0)


@pytest.mark.parametrize("zero", [None, 0, 7, -100])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_known_scales_are_numbers_of_instructions(zero: int | None, dtype: type) -> None:
    """Halves are rounded to even and what is too large saturates, as with scales that are loaded."""
    x = np.array([-6e4, -257, -3, -1, 0, 1, 3, 5, 7, 253, 255, 6e4], dtype)
    codes = np.arange(-128, 128, dtype=np.int8)
    points = [] if zero is None else [np.array(zero, np.int8)]
    known = tuple(range(1, 2 + len(points)))
    scale = [np.array(2.0, dtype), *points]
    to_bytes = [x, scale[0], np.array(zero or 0, np.int8)]
    for name, inputs, stored in (
        ("QuantizeLinear", to_bytes, (1, 2)),
        ("DequantizeLinear", [codes, *scale], known),
    ):
        loaded = check_node(name, inputs, atol=0, rtol=0)
        ran = check_node(name, inputs, constants=stored, atol=0, rtol=0)
        np.testing.assert_array_equal(ran.outputs[0], loaded.outputs[0])
        assert ran.cycles < loaded.cycles


@pytest.mark.parametrize("shape", [(4,), (3, 300), (2, 8, 20, 20)])
def test_by_tensor_and_by_axis(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(np.float32) * 50
    codes = rng.integers(-128, 127, shape, np.int8)
    whole = [np.array(0.7, np.float32), np.array(-5, np.int8)]
    check_node("QuantizeLinear", [x, *whole], atol=0)
    check_node("DequantizeLinear", [codes, *whole])
    if len(shape) > 1:
        scales = rng.random(shape[1]).astype(np.float32) + 0.1
        zeros = rng.integers(-9, 9, shape[1], np.int8)
        check_node("QuantizeLinear", [x, scales, zeros], axis=1, atol=1)
        check_node("DequantizeLinear", [codes, scales, zeros], axis=1)


def test_blocks_share_a_scale(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 8, 5)).astype(np.float32) * 9
    scales = rng.random((3, 2, 5)).astype(np.float32) + 0.1
    zeros = rng.integers(100, 150, (3, 2, 5), np.uint8)
    ran = check_node("QuantizeLinear", [x, scales, zeros], axis=1, block_size=4, atol=1)
    check_node("DequantizeLinear", [ran.outputs[0], scales, zeros], axis=1, block_size=4)


def test_wide_sums_are_dequantized(rng: np.random.Generator) -> None:
    sums = rng.integers(-(2**30), 2**30, (3, 40), np.int32)
    check_node("DequantizeLinear", [sums, np.array(0.001, np.float32)])


def test_scales_are_found_at_run_time(rng: np.random.Generator) -> None:
    x = rng.standard_normal((20, 30)).astype(np.float32)
    check_node("DynamicQuantizeLinear", [x], num_outputs=3, atol=1e-6)
