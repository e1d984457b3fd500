"""Normalisations on the machine, against onnx's reference."""

import numpy as np
import pytest

from tests.targets.neuroncore.compiler.on_machine import check_node, run_node


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(11)


@pytest.mark.parametrize(
    ("shape", "axis"), [((7, 9), 1), ((130, 768), 1), ((2, 3, 4, 5), 2), ((1000,), 0), ((3, 1), 1)]
)
def test_rows(shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(np.float32) * 3 + 1
    scale, shift = (rng.standard_normal(shape[axis:]).astype(np.float32) for _ in range(2))
    check_node("LayerNormalization", [x, scale, shift], num_outputs=3, axis=axis, rtol=2e-4, atol=2e-5)
    check_node("RMSNormalization", [x, scale], axis=axis, opset=23, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 6, 5), (1, 64, 14, 14), (3, 130, 7)])
def test_channels(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    channels = [rng.standard_normal(shape[1]).astype(np.float32) for _ in range(3)]
    variance = rng.random(shape[1]).astype(np.float32) + 0.1
    parameters = [*channels, variance]
    check_node("BatchNormalization", [x, *parameters], rtol=1e-4, atol=1e-5)
    check_node("BatchNormalization", [x, *parameters], constants=(1, 2, 3, 4), rtol=1e-4, atol=1e-5)
    check_node("BatchNormalization", [x, *parameters], num_outputs=3, training_mode=1, rtol=1e-3, atol=1e-4)
    check_node("InstanceNormalization", [x, *channels[:2]], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("shape", "groups"), [((2, 6, 5), 2), ((1, 256, 9), 32), ((1, 8, 50, 110), 4)])
def test_groups(shape: tuple[int, ...], groups: int, rng: np.random.Generator) -> None:
    """Planes longer than a piece, more channels than partitions."""
    x = rng.standard_normal(shape).astype(np.float32) * 2 + 1
    by_row = x.reshape(shape[0], groups, -1).astype(np.float64)
    normal = (by_row - by_row.mean(-1, keepdims=True)) / np.sqrt(by_row.var(-1, keepdims=True) + 1e-5)
    scale, shift = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))
    wide = [row.reshape(1, -1, *(1,) * (len(shape) - 2)) for row in (scale, shift)]
    expected = [(normal.reshape(shape) * wide[0] + wide[1]).astype(np.float32)]
    inputs = [x, scale, shift]
    check_node("GroupNormalization", inputs, expected=expected, num_groups=groups, rtol=1e-3, atol=1e-4)


def test_norms_and_zero_rows(rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 33)).astype(np.float32)
    x[2] = 0
    for power in (1, 2):
        size = (np.abs(x) ** power).sum(axis=1, keepdims=True) ** (1 / power)
        expected = x / np.where(size == 0, 1, size)
        check_node("LpNormalization", [x], expected=[expected.astype(np.float32)], p=power, axis=1, atol=1e-6)


def test_long_rows_run_by_their_function_body(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 20000)).astype(np.float32)
    scale = rng.standard_normal(20000).astype(np.float32)
    check_node("LayerNormalization", [x, scale], axis=1, rtol=1e-3, atol=1e-4)


def test_dropout_passes_everything_when_it_is_not_trained() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check_node("Dropout", [x], num_outputs=2, expected=[x, np.ones((2, 3), np.bool_)])
    ran = run_node("Dropout", [x, np.array(0.5, np.float32), np.array(True)], constants=(1, 2))
    assert ran.host == ["Dropout"]
