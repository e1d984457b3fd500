"""Pooling from registers, against sums and maxima over windows."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.rk3588_streams import pack_weights
from npuviz.formats.rk3588.tensor_layout import pack_features, unpack_features
from npuviz.targets.rk3588.values.ppu import reciprocal
from tests.targets.rk3588.hand_tasks import (
    FEATURES,
    OPERAND,
    OUTPUT,
    WEIGHTS,
    buffer,
    convolution_registers,
    engine_of,
    log_of,
    task_of,
)
from tests.targets.rk3588.values.test_core import expected_dense, windows

PPU = 0x60
AVERAGE, MAX, MIN = 0, 1, 2


def pooling(
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    method: int,
    precision: int = 0,
) -> dict[int, int]:
    """Registers of a pooling task; pads top, left, bottom, right."""
    channels, height, width = size
    out_height = (height + pads[0] + pads[2] - kernel[0]) // stride[0] + 1
    out_width = (width + pads[1] + pads[3] - kernel[1]) // stride[1] + 1
    return {
        0x600C: width - 1,
        0x6010: height - 1,
        0x6014: channels - 1,
        0x6018: out_width - 1,
        0x601C: out_height - 1,
        0x6020: channels - 1,
        0x6024: 0x10 | method,
        0x6034: (stride[0] - 1) << 20 | (stride[1] - 1) << 16 | (kernel[0] - 1) << 8 | kernel[1] - 1,
        0x6038: round(65536 / kernel[1]),
        0x603C: round(65536 / kernel[0]),
        0x6040: pads[2] << 12 | pads[3] << 8 | pads[0] << 4 | pads[1],
        0x6070: OUTPUT,
        0x607C: out_height * out_width << 4,
        0x6084: precision,
        0x701C: FEATURES,
        0x7024: width << 4,
        0x7028: width * height << 4,
        0x7030: precision,
    }


def run(cube: np.ndarray, registers: dict[int, int], enable: int = PPU) -> np.ndarray:
    channels = len(cube)
    height, width = registers[0x601C] + 1, registers[0x6018] + 1
    group = 16 // cube.itemsize
    size = -(-channels // group) * height * width * 16
    engine = engine_of(
        [task_of(registers, enable)],
        [buffer("features", FEATURES, pack_features(cube, group)), buffer("output", OUTPUT, size)],
    )
    data = engine.read_at(log_of(0), (), OUTPUT, size)
    assert engine.hazards == []
    return unpack_features(np.frombuffer(data, cube.dtype), channels, height, width, group)


SHAPES = [
    ((3, 3), (2, 2), (1, 1, 1, 1)),
    ((2, 5), (1, 3), (0, 2, 1, 2)),
    ((1, 1), (1, 1), (0, 0, 0, 0)),
    ((7, 7), (1, 1), (0, 0, 0, 0)),
]


@pytest.mark.parametrize(("kernel", "stride", "pads"), SHAPES)
@pytest.mark.parametrize("method", [MAX, MIN])
@pytest.mark.parametrize("dtype", [np.int8, np.float16])
def test_maximum_and_minimum(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    method: int,
    dtype: type,
) -> None:
    cube = np.random.default_rng(1).integers(-128, 128, (40, 8, 9)).astype(dtype)
    fill = -1000 if method == MAX else 1000
    padded = np.pad(
        cube.astype(np.int64), ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill
    )
    seen = windows(padded, kernel, stride, (1, 1))
    expected = seen.max((3, 4)) if method == MAX else seen.min((3, 4))
    found = run(cube, pooling(cube.shape, kernel, stride, pads, method, 0 if dtype == np.int8 else 2))
    assert np.array_equal(found, expected.astype(dtype))


@pytest.mark.parametrize(("kernel", "stride", "pads"), SHAPES)
def test_average_of_integers_is_rounded_twice(
    kernel: tuple[int, int], stride: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    cube = np.random.default_rng(2).integers(-128, 128, (16, 8, 9)).astype(np.int8)
    registers = pooling(cube.shape, kernel, stride, pads, AVERAGE)
    registers[0x6044] = -7 & 0xFFFFFFFF
    padded = np.pad(
        cube.astype(np.int64), ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=-7
    )
    sums = windows(padded, kernel, stride, (1, 1)).sum((3, 4))
    found = run(cube, registers)

    def away(value: Fraction) -> int:
        return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)

    across = [away(Fraction(int(value) * registers[0x6038], 65536)) for value in sums.reshape(-1)]
    expected = [away(Fraction(value * registers[0x603C], 65536)) for value in across]
    assert found.reshape(-1).tolist() == np.clip(expected, -128, 127).tolist()
    assert np.abs(found - sums / (kernel[0] * kernel[1])).max() < 0.5 + 0.5 / kernel[0] + 0.01


def test_average_of_halves() -> None:
    cube = np.random.default_rng(3).standard_normal((8, 6, 6)).astype(np.float16)
    registers = pooling(cube.shape, (2, 2), (2, 2), (0, 0, 0, 0), AVERAGE, 2)
    expected = windows(cube.astype(np.float32), (2, 2), (2, 2), (1, 1)).sum((3, 4), dtype=np.float32) / 4
    assert np.abs(run(cube, registers) - expected).max() < 1e-3
    registers[0x6038] = registers[0x603C] = 0x7800
    assert np.abs(run(cube, registers) - expected).max() < 1e-3


def test_reciprocals_by_both_readings() -> None:
    assert reciprocal(0x8000, 2, True) == 0.5
    assert reciprocal(0x7800, 2, True) == 0.5
    assert reciprocal(0x10000, 1, True) == 1.0
    assert reciprocal(21845, 3, True) == pytest.approx(1 / 3, rel=1e-4)
    assert reciprocal(0x7800, 2, False) == 0x7800 / 65536


def test_pooling_behind_a_convolution() -> None:
    """CORE, DPU and PPU of one task: the DPU's results go to memory and to the PPU."""
    generator = np.random.default_rng(4)
    cube = generator.integers(-8, 8, (32, 8, 8)).astype(np.int8)
    kernels = generator.integers(-3, 4, (32, 32, 1, 1)).astype(np.int8)
    registers = convolution_registers(kernels.shape, (8, 8), out=0)
    registers[0x400C] = 0x1E0 | 6
    registers[0x4020] = OPERAND
    after = pooling((32, 8, 8), (2, 2), (2, 2), (0, 0, 0, 0), MAX)
    after[0x6024] = MAX
    engine = engine_of(
        [task_of(registers | after, 0x2D)],
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 32)),
            buffer("between", OPERAND, 2048),
            buffer("output", OUTPUT, 512),
        ],
    )
    engine.advance_to(log_of(0))
    assert engine.hazards == []
    full = np.clip(expected_dense(cube, kernels, (1, 1), (0, 0, 0, 0), (1, 1)), -128, 127)
    between = unpack_features(np.frombuffer(engine.read(OPERAND, 2048), np.int8), 32, 8, 8, 16)
    assert np.array_equal(between, full)
    found = unpack_features(np.frombuffer(engine.read(OUTPUT, 512), np.int8), 32, 4, 4, 16)
    assert np.array_equal(found, windows(full, (2, 2), (2, 2), (1, 1)).max((3, 4)))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({0x6024: 0x13}, "method 3"),
        ({0x6024: 1 << 30 | 0x11}, "positions of the maxima"),
        ({0x600C: 2}, "2 x 2 windows reach over 4 x 4"),
        ({0x601C: 9}, "the input with its padding has fewer"),
        ({0x701C: 4}, "pooling input at 0x4"),
        ({0x6070: 4}, "PPU output at 0x4"),
        ({0x7028: 0xFFFFFFF0}, "leave"),
    ],
)
def test_wild_registers_are_faults(changes: dict[int, int], word: str) -> None:
    registers = pooling((32, 4, 4), (2, 2), (2, 2), (0, 0, 0, 0), MAX) | changes
    engine = engine_of(
        [task_of(registers, PPU)], [buffer("features", FEATURES, 512), buffer("output", OUTPUT, 128)]
    )
    engine.advance_to(log_of(0))
    (hazard,) = engine.hazards
    assert word in hazard.text
