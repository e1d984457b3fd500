"""Convolutions from registers, against sums over windows."""

import ml_dtypes
import numpy as np
import pytest

from benchmarks.rk3588_streams import pack_weights
from npuviz.formats.rk3588.tensor_layout import pack_depthwise, pack_features, unpack_features
from npuviz.targets.rk3588.values.engine import ValueEngine
from tests.targets.rk3588.hand_tasks import (
    BIAS,
    FEATURES,
    OUTPUT,
    WEIGHTS,
    buffer,
    convolution_registers,
    engine_of,
    log_of,
    task_of,
)

CONV = 0x0D


def windows(
    padded: np.ndarray, size: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> np.ndarray:
    """(C, OH, OW, R, S) of a padded cube."""
    reach = tuple((length - 1) * step + 1 for length, step in zip(size, dilation, strict=True))
    every = np.lib.stride_tricks.sliding_window_view(padded, reach, (1, 2))
    return every[:, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def expected_dense(
    cube: np.ndarray,
    weights: np.ndarray,
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilation: tuple[int, int],
    fill: int = 0,
) -> np.ndarray:
    padding = ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
    padded = np.pad(cube.astype(np.int64), padding, constant_values=fill)
    seen = windows(padded, weights.shape[2:], stride, dilation)
    return np.einsum("chwrs,kcrs->khw", seen, weights.astype(np.int64))


def output_of(
    engine: ValueEngine, shape: tuple[int, int, int], dtype: type = np.int32, entries: tuple[int, ...] = (0,)
) -> np.ndarray:
    channels, height, width = shape
    group = 16 // np.dtype(dtype).itemsize
    size = -(-channels // group) * height * width * 16
    data = engine.read_at(log_of(*entries), (), OUTPUT, size)
    assert engine.hazards == []
    return unpack_features(np.frombuffer(data, dtype), channels, height, width, group)


CASES = [
    ((32, 32, 1, 1), (5, 7), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((32, 64, 3, 3), (9, 11), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((64, 32, 3, 5), (12, 10), (2, 3), (1, 2, 0, 1), (1, 1)),
    ((32, 32, 3, 3), (13, 9), (1, 2), (2, 0, 2, 3), (2, 3)),
    ((96, 160, 2, 2), (4, 4), (2, 2), (0, 1, 1, 0), (1, 1)),
]


@pytest.mark.parametrize(("weights", "size", "stride", "pads", "dilation"), CASES)
def test_int8_convolution_is_exact(
    weights: tuple[int, int, int, int],
    size: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilation: tuple[int, int],
) -> None:
    generator = np.random.default_rng(1)
    cube = generator.integers(-128, 128, (weights[1], *size)).astype(np.int8)
    kernels = generator.integers(-128, 128, weights).astype(np.int8)
    registers = convolution_registers(weights, size, stride=stride, pads=pads, dilation=dilation)
    registers[0x1184] = -5 & 0xFFFF
    expected = expected_dense(cube, kernels, stride, pads, dilation, -5)
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 32)),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    assert np.array_equal(output_of(engine, expected.shape), expected)


def test_sums_beyond_float32_are_exact() -> None:
    # 3 * 3 * 2048 products of -128 * -128 are 302 million: float32 would round the odd one away.
    cube = np.full((2048, 3, 3), -128, np.int8)
    kernels = np.full((32, 2048, 3, 3), -128, np.int8)
    kernels[5, 100, 1, 1] = 127
    cube[100, 1, 1] = 1
    registers = convolution_registers(kernels.shape, (3, 3))
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 32)),
            buffer("output", OUTPUT, 32 * 4),
        ],
    )
    found = output_of(engine, (32, 1, 1)).reshape(-1)
    assert found[0] == 128 * 128 * (9 * 2048 - 1) - 128
    assert found[5] == 128 * 128 * (9 * 2048 - 1) + 127


@pytest.mark.parametrize("precision", [1, 2, 3])
def test_two_byte_types(precision: int) -> None:
    dtype = {1: np.int16, 2: np.float16, 3: ml_dtypes.bfloat16}[precision]
    generator = np.random.default_rng(2)
    limit = 20000 if precision == 1 else 9
    cube = generator.integers(-limit, limit, (32, 6, 5)).astype(dtype)
    kernels = generator.integers(-9, 9, (16, 32, 3, 3)).astype(dtype)
    out = 4 if precision == 1 else 5
    registers = convolution_registers(kernels.shape, (6, 5), precision=precision, pads=(1, 1, 1, 1), out=out)
    expected = expected_dense(cube.astype(np.int64), kernels.astype(np.int64), (1, 1), (1, 1, 1, 1), (1, 1))
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 8)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 16)),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    assert np.array_equal(output_of(engine, expected.shape, np.int32 if out == 4 else np.float32), expected)


def test_fp16_padding_is_a_float() -> None:
    cube = np.ones((8, 2, 2), np.float16)
    kernels = np.ones((16, 32, 3, 3), np.float16)
    registers = convolution_registers(kernels.shape, (2, 2), precision=2, pads=(1, 1, 1, 1), out=5)
    registers[0x1024] = 7 << 16 | 8
    registers[0x1184] = int(np.float16(0.5).view(np.uint16))
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 8)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 16)),
            buffer("output", OUTPUT, 16 * 4 * 4),
        ],
    )
    assert (output_of(engine, (16, 2, 2), np.float32) == 8 * (4 + 5 * 0.5)).all()


def test_zero_times_infinity_is_zero() -> None:
    """A kernel of ones and zeros hands on what its ones meet; a NaN spoils every kernel."""
    cube = np.arange(32 * 4, dtype=np.float16).reshape(32, 2, 2)
    cube[3, 0, 0], cube[4, 0, 1], cube[5, 1, 0] = np.inf, -np.inf, np.nan
    kernels = np.zeros((16, 32, 1, 1), np.float16)
    kernels[np.arange(16), np.arange(16)] = 1
    kernels[6, 3:5] = 1
    kernels[7, 2] = -np.inf
    registers = convolution_registers(kernels.shape, (2, 2), precision=2, out=5)
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 8)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 16)),
            buffer("output", OUTPUT, 16 * 4 * 4),
        ],
    )
    expected = cube[:16].astype(np.float32)
    expected[6] += cube[3] + cube[4]
    expected[7] = -np.inf
    expected[:, 1, 0] = np.nan
    assert np.array_equal(output_of(engine, (16, 2, 2), np.float32), expected, equal_nan=True)


def test_depthwise_zero_times_infinity_is_zero() -> None:
    cube = np.ones((32, 3, 3), np.float16)
    cube[0, 1, 1], cube[1, 1, 1] = np.inf, np.nan
    kernels = np.zeros((32, 3, 3), np.float16)
    kernels[:, 0, 0] = 2
    registers = convolution_registers(
        (32, 32, 3, 3), (3, 3), precision=2, pads=(1, 1, 1, 1), depthwise=True, out=5
    )
    registers[0x1024] = 31 << 16 | 32
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 8)),
            buffer("weights", WEIGHTS, pack_depthwise(kernels)),
            buffer("output", OUTPUT, 32 * 9 * 4),
        ],
    )
    expected = np.zeros((32, 3, 3), np.float32)
    expected[:, 1:, 1:] = 2 * cube[:, :2, :2]
    expected[1] = np.nan
    assert np.array_equal(output_of(engine, (32, 3, 3), np.float32), expected, equal_nan=True)


def test_depthwise() -> None:
    generator = np.random.default_rng(3)
    cube = generator.integers(-128, 128, (96, 7, 6)).astype(np.int8)
    kernels = generator.integers(-128, 128, (96, 3, 3)).astype(np.int8)
    packed = pack_depthwise(kernels)
    registers = convolution_registers(
        (96, 128, 3, 3), (7, 6), stride=(2, 1), pads=(1, 1, 1, 1), depthwise=True
    )
    registers[0x1024] = 95 << 16 | 96
    padded = np.pad(cube.astype(np.int64), ((0, 0), (1, 1), (1, 1)))
    expected = np.einsum("chwrs,crs->chw", windows(padded, (3, 3), (2, 1), (1, 1)), kernels.astype(np.int64))
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, packed),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    assert np.array_equal(output_of(engine, expected.shape), expected)


def test_kernels_and_channels_that_fill_no_group() -> None:
    """Narrow last group and block: 40 kernels of 48 channels, as WEIGHT_SIZE0 counts them."""
    generator = np.random.default_rng(4)
    cube = generator.integers(-128, 128, (48, 4, 4)).astype(np.int8)
    kernels = generator.integers(-128, 128, (40, 48, 2, 2)).astype(np.int8)
    parts = [
        kernels[k : k + 32, c : c + 32].transpose(2, 3, 0, 1).reshape(-1) for k in (0, 32) for c in (0, 32)
    ]
    registers = convolution_registers(kernels.shape, (4, 4))
    expected = expected_dense(cube, kernels, (1, 1), (0, 0, 0, 0), (1, 1))
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, np.concatenate(parts)),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    assert np.array_equal(output_of(engine, expected.shape), expected)


def test_row_and_kernel_tiles_make_the_whole_layer() -> None:
    """Four tasks: two row tiles with padding at their ends, two kernel tiles that keep what CBUF holds."""
    generator = np.random.default_rng(6)
    cube = generator.integers(-128, 128, (32, 10, 8)).astype(np.int8)
    kernels = generator.integers(-128, 128, (64, 32, 3, 3)).astype(np.int8)
    expected = expected_dense(cube, kernels, (1, 1), (1, 1, 1, 1), (1, 1))
    tasks = []
    # (first input row, rows, pad above, pad below, first output row)
    for y, rows, top, bottom, out_y in ((0, 6, 1, 0, 0), (4, 6, 0, 1, 5)):
        for kernel in (0, 32):
            registers = convolution_registers(
                (32, 32, 3, 3), (rows, 8), pads=(top, 1, bottom, 1), layer_height=10
            )
            registers[0x1070] = FEATURES + y * 8 * 16 if kernel == 0 else 0
            registers[0x1040] |= 0x1000 if kernel else 0
            registers[0x1110] += kernel * 288
            registers[0x4020] += out_y * 8 * 16 + kernel * 80 * 4
            registers[0x4024] = 80 << 4
            tasks.append(task_of(registers, CONV, len(tasks)))
    engine = engine_of(
        tasks,
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 32)),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    found = output_of(engine, expected.shape, entries=(0, 1, 2, 3))
    assert np.array_equal(found, expected)
    half = output_of(engine, expected.shape, entries=(0, 1))
    assert np.array_equal(half[:, :5], expected[:, :5])
    assert not half[:, 5:].any()
    kept = engine.operand_at(log_of(0), (), 1, "features")
    assert np.array_equal(kept, engine.operand_at(log_of(0), (), 0, "features"))
    assert len(kept) == 2 * 6 * 8 * 16


def test_input_convert_and_weight_zero_point() -> None:
    """Pixels 0..255 less 128, times 1; unsigned weights stored less 128 with zero point 120 (CPEND)."""
    generator = np.random.default_rng(7)
    pixels = generator.integers(0, 256, (32, 4, 4)).astype(np.uint8)
    stored = generator.integers(-128, 128, (32, 32, 3, 3)).astype(np.int8)
    registers = convolution_registers(stored.shape, (4, 4))
    registers[0x104C] = 0
    for lane in range(4):
        registers[0x1050 + 4 * lane] = 1 << 16 | (-128 & 0xFFFF)
    registers[0x4050] = 0
    registers[0x4054] = 128 - 120
    expected = expected_dense(
        pixels.astype(np.int64) - 128, stored.astype(np.int64) + 128 - 120, (1, 1), (0, 0, 0, 0), (1, 1)
    )
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(pixels, 16)),
            buffer("weights", WEIGHTS, pack_weights(stored, 32)),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    assert np.array_equal(output_of(engine, expected.shape), expected)


@pytest.mark.parametrize("depthwise", [False, True])
def test_weight_zero_points_of_each_kernel_from_memory(depthwise: bool) -> None:
    """As vendor int8 files: blocks of 8 channels with 8 biases, 8 CPEND and 8 factors; ALU and MUL unused."""
    generator = np.random.default_rng(8)
    cube = generator.integers(-128, 128, (64, 5, 5)).astype(np.int8)
    kernels = generator.integers(-128, 128, (64, 64, 3, 3)).astype(np.int8)
    offsets = generator.integers(-50, 50, 64).astype(np.int16)
    blocks = [
        np.concatenate([np.full(32, 1, np.uint8), part.view(np.uint8), np.full(16, 2, np.uint8)])
        for part in offsets.reshape(8, 8)
    ]
    registers = convolution_registers(kernels.shape, (5, 5), pads=(1, 1, 1, 1), depthwise=depthwise)
    registers |= {0x4050: 1, 0x501C: 0b0111 << 1, 0x5020: BIAS, 0x1184: -9 & 0xFFFF}
    pads, one = (1, 1, 1, 1), (1, 1)
    if depthwise:
        taps = kernels[:, 0].astype(np.int64) + offsets[:, None, None]
        padded = np.pad(cube.astype(np.int64), ((0, 0), (1, 1), (1, 1)), constant_values=-9)
        expected = np.einsum("chwrs,crs->chw", windows(padded, (3, 3), one, one), taps)
    else:
        whole = kernels.astype(np.int64) + offsets[:, None, None, None]
        expected = expected_dense(cube, whole, one, pads, one, -9)
    packed = pack_depthwise(kernels[:, 0]) if depthwise else pack_weights(kernels, 32)
    engine = engine_of(
        [task_of(registers, 0x1D)],
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, packed),
            buffer("operands", BIAS, np.concatenate(blocks)),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    assert np.array_equal(output_of(engine, expected.shape), expected)


@pytest.mark.parametrize(("channels", "dtype"), [(1, np.int8), (3, np.int8), (4, np.float16)])
def test_pixels_of_an_image(channels: int, dtype: type) -> None:
    """Rows 2 to 7 of an image of 8 x 6 pixels, channels side by side; weights have 16 channels."""
    generator = np.random.default_rng(9)
    image = generator.integers(-9, 10, (8, 6, channels)).astype(dtype)
    kernels = generator.integers(-9, 10, (32, 16, 3, 3)).astype(dtype)
    is_half = dtype == np.float16
    registers = convolution_registers(
        kernels.shape, (6, 6), precision=2 if is_half else 0, pads=(0, 1, 1, 1), out=5 if is_half else 4
    )
    registers[0x100C] |= channels + 7 << 12
    registers[0x107C] = 6
    registers[0x1080] = 6 * 7
    registers[0x1070] += 2 * 6 * channels * image.itemsize
    group = 16 if is_half else 32
    parts = [kernels[k : k + group].transpose(2, 3, 0, 1).reshape(-1) for k in range(0, 32, group)]
    expected = expected_dense(
        image[2:].transpose(2, 0, 1).astype(np.int64),
        kernels[:, :channels].astype(np.int64),
        (1, 1),
        (0, 1, 1, 1),
        (1, 1),
    )
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("image", FEATURES, image),
            buffer("weights", WEIGHTS, np.concatenate(parts)),
            buffer("output", OUTPUT, expected.size * 4),
        ],
    )
    assert np.array_equal(output_of(engine, expected.shape, np.float32 if is_half else np.int32), expected)
    fetched = engine.operand_at(log_of(), (), 0, "features")
    assert fetched.tobytes() == image[2:].tobytes()


@pytest.mark.parametrize(("away", "expected"), [(0, [2, -2, 4, -4]), (1, [3, -3, 4, -4])])
def test_truncation_rounds_halves_as_told(away: int, expected: list[int]) -> None:
    cube = np.zeros((32, 1, 1), np.int8)
    cube[0] = 1
    kernels = np.zeros((32, 32, 1, 1), np.int8)
    kernels[:4, 0, 0, 0] = [10, -10, 14, -14]
    registers = convolution_registers(kernels.shape, (1, 1))
    registers[0x301C] = 2 | away << 6
    engine = engine_of(
        [task_of(registers, CONV)],
        [
            buffer("features", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 32)),
            buffer("output", OUTPUT, 32 * 4),
        ],
    )
    assert output_of(engine, (32, 1, 1)).reshape(-1)[:4].tolist() == expected


def _faulty(changes: dict[int, int], enable: int = CONV) -> str:
    registers = convolution_registers((32, 32, 1, 1), (4, 4)) | changes
    engine = engine_of(
        [task_of(registers, enable)],
        [
            buffer("features", FEATURES, 512),
            buffer("weights", WEIGHTS, 1024),
            buffer("output", OUTPUT, 2048),
        ],
    )
    engine.advance_to(log_of(0))
    assert engine.read(OUTPUT, 2048) == bytes(2048)
    (hazard,) = engine.hazards
    assert (hazard.position, hazard.entry, hazard.kind) == (0, 0, "fault")
    assert "\n" not in hazard.text
    return hazard.text


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({0x1070: FEATURES + 16}, "features at 0x10000010..0x10000210 leave"),
        ({0x1110: 0x123}, "nothing is mapped at 0x123"),
        ({0x4020: OUTPUT + 16}, "at 0x30000800"),
        ({0x4024: 3 << 4}, "overwrite each other"),
        ({0x1014: 0}, "stride of 0"),
        ({0x1034: 0}, "hold no weights"),
        ({0x1030: 64}, "32 kernels need 1024"),
        ({0x1030: 0}, "WEIGHT_SIZE0 has 0 bytes"),
        ({0x1020: 0}, "holds nothing"),
        ({0x1020: 0x07FF07FF, 0x1024: 0xFFFF}, "too large"),
        ({0x3014: 0xFFFFFFFF}, "too large"),
        ({0x1080: 0xFFFFFE0}, "lead back"),
        ({0x3014: 99 << 16 | 3}, "reaches over 100 x 4 positions: the input has 4 x 4"),
        ({0x100C: 5 << 7}, "CORE multiplies no such numbers"),
        ({0x100C: 6 << 7}, "int4"),
        ({0x100C: 8 << 12, 0x1020: 4}, "an image of 4 x 0 pixels holds nothing"),
        ({0x4030: 9}, "expects 4 x 10 positions and gets 4 x 4"),
        ({0x1040: 0x1057}, "no task loaded any"),
    ],
)
def test_wild_registers_are_faults_that_write_nothing(changes: dict[int, int], word: str) -> None:
    assert word in _faulty(changes)


def test_dpu_without_core() -> None:
    assert "waits for a CORE" in _faulty({}, 0x08)
