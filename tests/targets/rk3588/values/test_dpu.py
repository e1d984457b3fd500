"""The stages of the DPU on their own (flying mode), against exact integer arithmetic."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from npuviz.formats.rk3588.tensor_layout import pack_features, unpack_features
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.values.engine import ValueEngine
from tests.targets.rk3588.hand_tasks import (
    BIAS,
    FEATURES,
    OPERAND,
    OUTPUT,
    buffer,
    engine_of,
    log_of,
    task_of,
    task_of_words,
)

DPU = 0x18
ADD, MINUS = 2 << 16, 4 << 16
NO_RELU, NO_MUL, NO_ALU, FROM_MEMORY = 0x40, 0x10, 0x02, 0x100


def flying(
    size: tuple[int, int, int], changes: dict[int, int], *, source: int = 4, out: int = 4, proc: int = 0
) -> dict[int, int]:
    """Registers of a DPU task that reads precision `source` and does nothing but what `changes` say."""
    channels, height, width = size
    return {
        0x400C: 0x1E5,
        0x4010: out << 29 | source << 26 | proc,
        0x4020: OUTPUT,
        0x4024: height * width << 4,
        0x4030: width - 1,
        0x4034: height - 1,
        0x403C: (channels - 1) << 16 | channels - 1,
        0x4040: 0x53,
        0x4050: 2,
        0x4060: 0x53,
        0x4070: 0x383,
        0x4084: 1,
        0x500C: width - 1,
        0x5010: height - 1,
        0x5014: channels - 1,
        0x5018: FEATURES,
        0x5020: BIAS,
        0x502C: BIAS,
        0x5038: OPERAND,
        0x5040: height * width << 4,
        0x5044: source << 15 | 1,
    } | changes


def run(
    values: np.ndarray,
    changes: dict[int, int],
    buffers: Sequence[Buffer] = (),
    *,
    out: type = np.int32,
    proc: int = 0,
    table: Sequence[int] = (),
) -> np.ndarray:
    """What the DPU makes of a cube (C, H, W)."""
    codes = {np.int8: 0, np.int16: 1, np.float16: 2, np.int32: 4, np.float32: 5}
    channels, height, width = values.shape
    source = codes[values.dtype.type]
    registers = flying(values.shape, changes, source=source, out=codes[out], proc=proc)
    task = task_of(registers, DPU)
    if table:
        words = [*table, *task.words.tolist()]
        task = task_of_words(words, DPU)
    size = -(-channels * np.dtype(out).itemsize // 16) * height * width * 16
    engine = engine_of(
        [task],
        [
            buffer("main", FEATURES, pack_features(values, 16 // values.itemsize)),
            buffer("output", OUTPUT, size),
            *buffers,
        ],
    )
    found = np.frombuffer(engine.read_at(log_of(0), (), OUTPUT, size), out)
    assert engine.hazards == []
    return unpack_features(found, channels, height, width, 16 // np.dtype(out).itemsize)


def column(*values: int, dtype: type = np.int32) -> np.ndarray:
    """A cube of one pixel."""
    return np.array(values, dtype)[:, None, None]


def half_even(value: Fraction) -> int:
    return round(value)


def half_away(value: Fraction) -> int:
    return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


def test_output_convert_is_exact() -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(-(1 << 31), 1 << 31, (64, 5, 3)).astype(np.int32)
    values[0, 0, :] = [2, 6, -2]
    for scale, shift, offset, away in (
        (1, 2, 0, 0),
        (1, 2, 0, 1),
        (0x4ABC, 33, -128 & 0xFFFFFFFF, 0),
        (-3, 5, 7, 0),
    ):
        changes = {0x4080: offset, 0x4084: scale & 0xFFFF, 0x4088: shift | away << 30}
        found = run(values, changes)
        rounding = half_away if away else half_even
        plus = offset - (1 << 32) if offset >> 31 else offset
        expected = [
            min(max(rounding(Fraction(int(value) * scale, 1 << shift)) + plus, -(1 << 31)), (1 << 31) - 1)
            for value in values.reshape(-1)
        ]
        assert found.reshape(-1).tolist() == expected


def test_output_convert_may_add_first_and_saturates() -> None:
    values = column(100, -100, 1000, -1000, 3, -3)
    found = run(values, {0x4080: 10, 0x4084: 3, 0x4088: 1 | 1 << 31}, out=np.int8)
    assert found.reshape(-1).tolist() == [127, -128, 127, -128, 20, 10]


def test_bias_scale_and_relu_of_each_channel_from_memory() -> None:
    generator = np.random.default_rng(2)
    values = generator.integers(-100000, 100000, (32, 4, 4)).astype(np.int32)
    bias = generator.integers(-50000, 50000, 32).astype(np.int32)
    scale = generator.integers(1 << 14, 1 << 15, 32).astype(np.int16)
    # Blocks of 8 channels, as vendor files have them.
    blocks = [
        np.concatenate([bias[c : c + 8].view(np.uint8), scale[c : c + 8].view(np.uint8)])
        for c in range(0, 32, 8)
    ]
    operands = np.concatenate(blocks)
    changes = {
        0x4040: ADD | FROM_MEMORY,
        0x4048: 15 << 8 | 1,
        0x501C: 0b0101 << 1,
    }
    found = run(values, changes, [buffer("operands", BIAS, operands)])
    summed = values.astype(np.int64) + bias[:, None, None]
    expected = [
        max(0, half_away(Fraction(int(value) * int(scale[index // 16]), 1 << 15)))
        for index, value in enumerate(summed.reshape(-1))
    ]
    assert found.reshape(-1).tolist() == expected


def test_shift_of_each_channel_and_cpend_before_it() -> None:
    values = column(*([1000] * 16))
    shift = np.arange(16, dtype=np.uint8)
    cpend, factor = np.zeros(16, np.uint8), np.full(8, 3, np.int16).view(np.uint8)
    operands = np.concatenate([cpend, factor, shift[:8], cpend, factor, shift[8:]])
    changes = {0x4060: NO_ALU | NO_RELU, 0x4068: 3, 0x5028: 0b1110 << 1}
    found = run(values, changes, [buffer("operands", BIAS, operands)])
    assert found.reshape(-1).tolist() == [half_away(Fraction(3000, 1 << s)) for s in range(16)]


def test_constants_prelu_and_limit() -> None:
    values = column(100, -100, 5, -5)
    prelu = {0x4040: ADD | 0x20 | NO_RELU, 0x4044: -1 & 0xFFFFFFFF, 0x4048: 1 << 16 | 2 << 8}
    assert run(values, prelu).reshape(-1).tolist() == [99, -25, 4, -2]
    # Negative values have a shift of their own.
    prelu_own = prelu | {0x4010: 4 << 29 | 4 << 26 | 1 << 4}
    assert run(values, prelu_own).reshape(-1).tolist() == [99, -51, 4, -3]
    limited = {0x4060: MINUS | NO_MUL | 0x80, 0x4064: 2, 0x406C: 50}
    assert run(values, limited).reshape(-1).tolist() == [50, 0, 3, 0]


def test_sums_saturate_to_32_bits() -> None:
    values = column(2**31 - 1, -(2**31))
    found = run(values, {0x4040: ADD | NO_RELU | NO_MUL, 0x4044: 10})
    assert found.reshape(-1).tolist() == [2**31 - 1, 10 - 2**31]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (0 << 16, [10, 3, -4]),
        (1 << 16, [7, -20, -5]),
        (ADD, [17, -17, -9]),
        (3 << 16, [1, -6, 0]),
        (MINUS, [3, -23, 1]),
        (5 << 16, [10, 20, 4]),
        (6 << 16, [-10, 20, 4]),
        (4, [70, -60, 20]),
    ],
)
def test_elementwise_operations(operation: int, expected: list[int]) -> None:
    values, operand = column(10, -20, -4), column(7, 3, -5, dtype=np.int8)
    changes = {0x4070: operation | 1 << 28 | 1 << 22 | 0x200 | 0x100 | 0x80 | 0x40, 0x5034: 1 << 30 | 1 << 2}
    found = run(values, changes, [buffer("operand", OPERAND, pack_features(operand, 16))])
    assert found.reshape(-1).tolist() == expected


def test_residual_add_with_two_scales() -> None:
    """(x - 3) * 20000 >> 10 + (e + 5) * 12345 >> 9, then to int8: as a quantised Add is made of."""
    generator = np.random.default_rng(3)
    x = generator.integers(-128, 128, (48, 6, 5)).astype(np.int8)
    e = generator.integers(-128, 128, (48, 6, 5)).astype(np.int8)
    changes = {
        0x4040: MINUS | NO_RELU,
        0x4044: 3,
        0x4048: 20000 << 16 | 10 << 8,
        0x4070: 1 << 31 | ADD | 1 << 28 | 1 << 22 | 0x200 | 0x80 | 0x40,
        0x4074: 5,
        0x4078: 9 << 16 | 12345,
        0x4080: -7 & 0xFFFFFFFF,
        0x4084: 17000,
        0x4088: 20,
        0x5034: 1 << 30 | 1 << 2,
    }
    found = run(x, changes, [buffer("operand", OPERAND, pack_features(e, 16))], out=np.int8)
    expected = [
        half_even(
            Fraction(
                (
                    half_away(Fraction((int(a) - 3) * 20000, 1 << 10))
                    + half_even(Fraction((int(b) + 5) * 12345, 1 << 9))
                )
                * 17000,
                1 << 20,
            )
        )
        - 7
        for a, b in zip(x.reshape(-1), e.reshape(-1), strict=True)
    ]
    assert found.reshape(-1).tolist() == np.clip(expected, -128, 127).tolist()


def test_operand_of_each_channel_and_constant() -> None:
    values = np.arange(32, dtype=np.int32).reshape(8, 2, 2)
    operand = np.arange(8, dtype=np.int16) * 100
    changes = {0x4070: ADD | 2 << 22 | 0x200 | 0x100 | 0x80 | 0x40, 0x5034: 2 << 2}
    found = run(values, changes, [buffer("operand", OPERAND, operand)])
    assert np.array_equal(found, values + operand[:, None, None])
    constant = {0x4070: 4 | 0x200 | 0x80, 0x4090: -2 & 0xFFFFFFFF, 0x4078: 1 << 22}
    assert np.array_equal(run(values, constant), -values)


def test_float_pipeline() -> None:
    generator = np.random.default_rng(4)
    x = generator.standard_normal((16, 3, 3)).astype(np.float16)
    e = generator.standard_normal((16, 3, 3)).astype(np.float16)
    bias = generator.standard_normal(16).astype(np.float32)
    changes = {
        0x4040: ADD | FROM_MEMORY | 0x80,
        0x4048: int(np.float16(2.5).view(np.uint16)) << 16,
        0x404C: int(np.float32(6).view(np.uint32)),
        0x4070: 4 | 1 << 28 | 2 << 22 | 0x200 | 0x100 | 0x80 | 0x40,
        0x5034: 1 << 30 | 2 << 2,
        0x501C: 1 << 1,
    }
    buffers = [buffer("bias", BIAS, bias), buffer("operand", OPERAND, pack_features(e, 8))]
    found = run(x, changes, buffers, out=np.float16, proc=2)
    single = np.float32
    stage = np.clip((x.astype(single) + bias[:, None, None]) * single(2.5), 0, 6)
    assert np.array_equal(found, (stage * e.astype(single)).astype(np.float16))


def test_floats_become_integers_and_back() -> None:
    x = np.array([1, -1, 0.75, 1000], np.float16)[:, None, None]
    quantised = run(x, {0x4080: 3, 0x4084: 10}, out=np.int8, proc=2)
    assert quantised.reshape(-1).tolist() == [13, -7, 11, 127]
    back = run(
        quantised,
        {0x4040: MINUS | NO_RELU | NO_MUL, 0x4044: 3, 0x4084: 1, 0x4088: 3 | 1 << 12},
        out=np.float32,
    )
    assert back.reshape(-1).tolist() == [10 / 16, -10 / 16, 8 / 16, 124 / 16]


# --- parts of cubes --------------------------------------------------------------------------------


def copied(changes: dict[int, int], size: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """A cube before and after a task that copies a part of it within memory."""
    cube = np.random.default_rng(6).integers(-128, 128, size).astype(np.int8)
    registers = flying(size, changes, source=0, out=0)
    data = pack_features(cube, 16)
    engine = engine_of([task_of(registers, DPU)], [buffer("cube", FEATURES, data)])
    engine.advance_to(log_of(0))
    assert engine.hazards == []
    found = np.frombuffer(engine.read(FEATURES, data.nbytes), np.int8)
    return cube, unpack_features(found, *size, 16)


def test_a_row_is_copied() -> None:
    """Row 1 to row 0, as vendor Resize tasks fill their padding: one row of 26 columns, two surfaces."""
    cube, found = copied(
        {
            0x4020: FEATURES, 0x405C: 25, 0x4024: 676 << 4, 0x5010: 0, 0x5018: FEATURES + 26 * 16,
            0x504C: 650 << 4,
        },
        (32, 26, 26),
    )  # fmt: skip
    cube[:, 0] = cube[:, 1]
    assert np.array_equal(found, cube)


def test_a_column_is_copied() -> None:
    """Column 1 to column 0: 26 rows of one column with notches behind each."""
    cube, found = copied(
        {
            0x4020: FEATURES, 0x405C: 25 << 16, 0x4038: 25 << 16 | 25, 0x4024: 676 << 4, 0x500C: 0,
            0x5018: FEATURES + 16, 0x5048: 25 << 19, 0x504C: 25 << 4,
        },
        (32, 26, 26),
    )  # fmt: skip
    cube[:, :, 0] = cube[:, :, 1]
    assert np.array_equal(found, cube)


def test_every_other_position_is_written() -> None:
    """As vendor Resize tasks: 4 x 6 results go to every other position of 8 x 12, from (1, 1) on."""
    values = np.random.default_rng(7).integers(-128, 128, (16, 4, 6)).astype(np.int8)
    changes = {
        0x4020: OUTPUT + 13 * 16, 0x4058: 6 * 16 - 1, 0x405C: 3 << 16, 0x4038: 1 << 16 | 1,
        0x4024: 96 << 4, 0x40C0: 24 << 4,
    }  # fmt: skip
    registers = flying(values.shape, changes, source=0, out=0)
    engine = engine_of(
        [task_of(registers, DPU)],
        [buffer("main", FEATURES, pack_features(values, 16)), buffer("output", OUTPUT, 96 * 16)],
    )
    data = np.frombuffer(engine.read_at(log_of(0), (), OUTPUT, 96 * 16), np.int8)
    assert engine.hazards == []
    expected = np.zeros((16, 8, 12), np.int8)
    expected[:, 1::2, 1::2] = values
    assert np.array_equal(unpack_features(data, 16, 8, 12, 16), expected)


# --- tables ----------------------------------------------------------------------------------------


def table_words(low: np.ndarray, high: np.ndarray) -> list[int]:
    """Words that fill both tables."""
    words: list[int] = []
    for number, entries in enumerate((low, high)):
        words.append(0x1001 << 48 | (1 << 17 | number << 16) << 16 | 0x4100)
        words += [0x1001 << 48 | (int(entry) & 0xFFFF) << 16 | 0x4104 for entry in entries]
    return words


TABLE = {
    0x4070: 0x302,
    0x4108: 0x68,
    0x410C: 5 << 16 | 5 << 8,
    0x4110: -16384 & 0xFFFFFFFF,
    0x4114: 0,
    0x4118: 0,
    0x411C: 16384,
}
"""As vendor sigmoid streams: LE below 0, LO from 0 on, 32 steps an entry."""


def test_table_interpolates_between_entries() -> None:
    generator = np.random.default_rng(5)
    low, high = (generator.integers(-32768, 32768, 513) for _ in range(2))
    values = generator.integers(-16384, 16385, (16, 20, 20)).astype(np.int32)
    values[0, 0, :5] = [-16384, 16384, 0, -1, 16383]
    found = run(values, TABLE, table=table_words(low, high))
    for value, result in zip(values.reshape(-1).tolist(), found.reshape(-1).tolist(), strict=True):
        entries, place = (high, value) if value >= 0 else (low, value + 16384)
        index, rest = divmod(place, 32)
        following = int(entries[min(index + 1, 512)])
        exact = Fraction(int(entries[index]) * (32 - rest) + following * rest, 32)
        assert result == half_away(exact)


def test_table_slopes_outside() -> None:
    low, high = np.full(513, -5), np.full(513, 100)
    slopes = {0x4120: 3, 0x4124: 1, 0x4128: -2 << 16 & 0xFFFFFFFF, 0x412C: (-1 & 31) << 5}
    values = column(-16384 - 10, -100000, 16384 + 7)
    found = run(values, TABLE | slopes, table=table_words(low, high))
    assert found.reshape(-1).tolist() == [-5 - 15, -32768, 100 - 28]


def test_sigmoid_of_floats() -> None:
    """fp16: BN scales into the table, MINUS_EXP takes 15 bits off. Ref: ALLB."""
    steps = np.arange(-512, 513) * 32 / 2596
    entries = np.minimum(np.round(32768 / (1 + np.exp(-steps))), 32767)
    x = np.linspace(-7, 7, 512).astype(np.float16).reshape(8, 8, 8)
    changes = TABLE | {
        0x4060: ADD | NO_RELU | NO_ALU,
        0x4068: int(np.float16(2596).view(np.uint16)) << 16,
        0x4084: 1 << 16 | 1,
        0x4088: 15 << 12,
    }
    found = run(x, changes, out=np.float16, proc=2, table=table_words(entries[:513], entries[512:]))
    expected = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert np.abs(found.astype(np.float64) - expected).max() < 3e-3


def test_table_of_an_earlier_task_of_the_core() -> None:
    size = (8, 1, 1)
    values = column(*range(0, 256, 32))
    words = table_words(np.zeros(513), np.arange(513))
    first = task_of_words([*words, *task_of(flying(size, {}), DPU).words.tolist()], DPU, 0, core=0)
    tasks = [
        first,
        task_of(flying(size, TABLE), DPU, 1, core=0),
        task_of(flying(size, TABLE), DPU, 2, core=1),
    ]
    engine = engine_of(
        tasks, [buffer("main", FEATURES, pack_features(values, 4)), buffer("output", OUTPUT, 32)]
    )
    engine.advance_to(log_of(1))
    found = np.frombuffer(engine.read(OUTPUT, 32), np.int32)
    assert found.tolist() == list(range(8))
    engine.advance_to(log_of(2))
    assert "no task of this core has written" in engine.hazards[0].text


# --- faults ----------------------------------------------------------------------------------------


def _fault(changes: dict[int, int]) -> str:
    engine = _engine(changes)
    engine.advance_to(log_of(0))
    (hazard,) = engine.hazards
    return hazard.text


def _engine(changes: dict[int, int]) -> ValueEngine:
    registers = flying((16, 2, 2), {}, source=0, out=0) | changes
    return engine_of([task_of(registers, DPU)], [buffer("main", FEATURES, 64), buffer("output", OUTPUT, 64)])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({0x5018: 0}, "main input at 0x0..0x40 leave"),
        ({0x4040: 3 << 16 | NO_MUL}, "ALU operation 3"),
        ({0x4070: 9 << 16 | 0x380}, "ALU operation 9"),
        (
            {0x4040: ADD | FROM_MEMORY, 0x501C: 0b0100 << 1, 0x5020: FEATURES},
            "which the reader does not read",
        ),
        ({0x4040: ADD | FROM_MEMORY}, "BS operands at"),
        ({0x4070: 0x340, 0x5034: 1 << 30}, "4 bits"),
        ({0x4010: 6 << 29}, "int4"),
        ({0x5014: 1000}, "leave the buffers"),
    ],
)
def test_wild_registers_are_faults(changes: dict[int, int], word: str) -> None:
    assert word in _fault(changes)


def test_task_that_is_as_it_should_be_has_no_fault() -> None:
    engine = _engine({})
    engine.advance_to(log_of(0))
    assert engine.hazards == []
