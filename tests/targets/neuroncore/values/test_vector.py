"""Element-wise, scanning and reducing instructions against plain numpy statements in float64."""

import ml_dtypes
import numpy as np
import pytest

from npuviz.targets.neuroncore.isa import Alu, Engine, Flag, Opcode, Space
from tests.targets.neuroncore.programs import BF16, F16, F32, I8, I32, U8, U32, Maker, at, dtype_of, values_at

RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


A, B = floats(128, 48), floats(128, 48)
POSITIVE = np.abs(A) + np.float32(0.25)

ARITHMETIC = {
    Alu.BYPASS: lambda x, y: x,
    Alu.ADD: lambda x, y: x + y,
    Alu.SUBTRACT: lambda x, y: x - y,
    Alu.MULTIPLY: lambda x, y: x * y,
    Alu.DIVIDE: lambda x, y: x / y,
    Alu.MAXIMUM: lambda x, y: np.where(x > y, x, y),
    Alu.MINIMUM: lambda x, y: np.where(x < y, x, y),
    Alu.MOD: lambda x, y: x - np.floor(x / y) * y,
    Alu.POWER: lambda x, y: np.exp(y * np.log(x)),
    Alu.EQUAL: lambda x, y: 1.0 * (x == y),
    Alu.NOT_EQUAL: lambda x, y: 1.0 * (x != y),
    Alu.GREATER: lambda x, y: 1.0 * (x > y),
    Alu.GREATER_EQUAL: lambda x, y: 1.0 * (x >= y),
    Alu.LESS: lambda x, y: 1.0 * (x < y),
    Alu.LESS_EQUAL: lambda x, y: 1.0 * (x <= y),
    Alu.LOGICAL_AND: lambda x, y: 1.0 * ((x != 0) & (y != 0)),
    Alu.LOGICAL_OR: lambda x, y: 1.0 * ((x != 0) | (y != 0)),
    Alu.LOGICAL_XOR: lambda x, y: 1.0 * ((x != 0) ^ (y != 0)),
    Alu.ABS_MAX: lambda x, y: np.where(abs(x) > abs(y), abs(x), abs(y)),
    Alu.ABS_MIN: lambda x, y: np.where(abs(x) < abs(y), abs(x), abs(y)),
    Alu.AVERAGE: lambda x, y: (x + y) / 2,
    Alu.ABS: lambda x, y: abs(x),
    Alu.SQUARE: lambda x, y: x * x,
    Alu.RELU: lambda x, y: np.where(x > 0, x, 0.0),
    Alu.RSQRT: lambda x, y: x**-0.5,
    Alu.RECIPROCAL: lambda x, y: 1 / x,
    Alu.LOGICAL_NOT: lambda x, y: 1.0 * (x == 0),
}


@pytest.mark.parametrize("op", ARITHMETIC)
def test_tensor_tensor_in_fp32(op: Alu) -> None:
    first = POSITIVE if op in (Alu.POWER, Alu.RSQRT) else np.where(np.abs(A) < 0.3, 0, A).astype(np.float32)
    second = np.where(np.abs(B) < 0.2, first, B).astype(np.float32)
    if op in (Alu.DIVIDE, Alu.MOD):
        second = np.where(np.abs(B) < 0.1, 0.5, B).astype(np.float32)
    if op == Alu.RECIPROCAL:
        first = POSITIVE
    maker = Maker()
    a, b = maker.load(first), maker.load(second, 1024)
    out = at(F32, [48], 4096)
    maker.run(Opcode.TENSOR_TENSOR, dst=out, src0=a, src1=b, op0=op)
    found = values_at(maker.finish(), out)
    expected = ARITHMETIC[op](first.astype(np.float64), second.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_every_operator_is_tested() -> None:
    patterns = {Alu.BITWISE_AND, Alu.BITWISE_OR, Alu.BITWISE_XOR, Alu.INVERT}
    shifts = {Alu.LEFT_SHIFT, Alu.RIGHT_SHIFT, Alu.ARITHMETIC_RIGHT_SHIFT}
    assert set(Alu) == set(ARITHMETIC) | patterns | shifts


@pytest.mark.parametrize(
    ("op", "value"),
    [
        (Alu.BITWISE_AND, lambda x, y: x & y),
        (Alu.BITWISE_OR, lambda x, y: x | y),
        (Alu.BITWISE_XOR, lambda x, y: x ^ y),
        (Alu.INVERT, lambda x, y: ~x & 0xFFFFFFFF),
        (Alu.LEFT_SHIFT, lambda x, y: (x << y) & 0xFFFFFFFF if y < 32 else 0),
        (Alu.RIGHT_SHIFT, lambda x, y: x >> y),
        (Alu.ARITHMETIC_RIGHT_SHIFT, lambda x, y: ((x - (1 << 32) * (x >> 31)) >> y) & 0xFFFFFFFF),
    ],
)
def test_bit_operators_on_words(op: Alu, value) -> None:
    first = RANDOM.integers(0, 1 << 32, (4, 40), np.uint32)
    second = RANDOM.integers(0, 36, (4, 40), np.uint32)
    maker = Maker()
    a, b = maker.load(first), maker.load(second, 1024)
    out = at(U32, [40], 4096, partitions=4)
    maker.run(Opcode.TENSOR_TENSOR, dst=out, src0=a, src1=b, op0=op)
    expected = [
        [value(int(x), int(y)) for x, y in zip(*rows, strict=True)]
        for rows in zip(first, second, strict=True)
    ]
    assert values_at(maker.finish(), out).tolist() == expected


def test_bit_operators_see_the_patterns_of_floats() -> None:
    maker = Maker()
    a = maker.load(A)
    out = at(F32, [48], 4096)
    maker.run(
        Opcode.TENSOR_SCALAR, dst=out, src0=a, op0=Alu.BITWISE_AND, imm=(0x7FFFFFFF,), flags=Flag.INTEGER
    )
    np.testing.assert_array_equal(values_at(maker.finish(), out), np.abs(A))


def test_a_logical_shift_of_bytes_stays_in_bytes() -> None:
    maker = Maker()
    a = maker.load(np.array([[-1, -128, 5, 64]], np.int8))
    out = at(I8, [4], 4096, partitions=1)
    maker.run(Opcode.TENSOR_SCALAR, dst=out, src0=a, op0=Alu.RIGHT_SHIFT, imm=(1,), flags=Flag.INTEGER)
    arithmetic = at(I8, [4], 8192, partitions=1)
    maker.run(
        Opcode.TENSOR_SCALAR,
        dst=arithmetic,
        src0=a,
        op0=Alu.ARITHMETIC_RIGHT_SHIFT,
        imm=(1,),
        flags=Flag.INTEGER,
    )
    engine = maker.finish()
    assert values_at(engine, out).tolist() == [[127, 64, 2, 32]]
    assert values_at(engine, arithmetic).tolist() == [[-1, -64, 2, 32]]


def c_quotient(x: int, y: int) -> int:
    return int(x / y) if y else 0


@pytest.mark.parametrize(
    ("op", "value"),
    [
        (Alu.ADD, lambda x, y: x + y),
        (Alu.SUBTRACT, lambda x, y: x - y),
        (Alu.MULTIPLY, lambda x, y: x * y),
        (Alu.DIVIDE, c_quotient),
        (Alu.MOD, lambda x, y: x % y if y else 0),
        (Alu.POWER, lambda x, y: x ** (abs(y) % 5) if y >= 0 else 0),
        (Alu.MAXIMUM, max),
        (Alu.MINIMUM, min),
        (Alu.LESS, lambda x, y: int(x < y)),
        (Alu.AVERAGE, lambda x, y: (x + y) >> 1),
    ],
)
def test_integers_of_gpsimd_wrap(op: Alu, value) -> None:
    first = RANDOM.integers(-(1 << 31), 1 << 31, (4, 32)).astype(np.int32)
    second = RANDOM.integers(-(1 << 31), 1 << 31, (4, 32)).astype(np.int32)
    second[:, ::3] = RANDOM.integers(-3, 4, (4, 11))
    if op == Alu.POWER:
        second = np.abs(second) % 5
    maker = Maker()
    a, b = maker.load(first), maker.load(second.astype(np.int32), 1024)
    out = at(I32, [32], 4096, partitions=4)
    maker.run(Opcode.TENSOR_TENSOR, engine=Engine.POOL, dst=out, src0=a, src1=b, op0=op, flags=Flag.INTEGER)
    expected = [
        [(value(int(x), int(y)) + (1 << 31)) % (1 << 32) - (1 << 31) for x, y in zip(*rows, strict=True)]
        for rows in zip(first, second, strict=True)
    ]
    assert values_at(maker.finish(), out).tolist() == expected


def test_integers_on_vector_go_through_fp32() -> None:
    maker = Maker()
    a = maker.load(np.array([[16777217, 5, -7]], np.int32))
    out = at(I32, [3], 4096, partitions=1)
    maker.run(Opcode.TENSOR_SCALAR, dst=out, src0=a, op0=Alu.ADD, imm=(1.0,), op1=Alu.BYPASS)
    assert values_at(maker.finish(), out).tolist() == [[16777216, 6, -6]]


def test_unsigned_words_compare_as_unsigned() -> None:
    maker = Maker()
    a = maker.load(np.array([[0xFFFFFFFF, 1]], np.uint32))
    b = maker.load(np.array([[1, 2]], np.uint32), 256)
    out = at(U8, [2], 4096, partitions=1)
    maker.run(
        Opcode.TENSOR_TENSOR, engine=Engine.POOL, dst=out, src0=a, src1=b, op0=Alu.GREATER, flags=Flag.INTEGER
    )
    assert values_at(maker.finish(), out).tolist() == [[1, 0]]


@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("reverse1", [False, True])
def test_tensor_scalar_with_columns_and_swaps(reverse0: bool, reverse1: bool) -> None:
    x0, x1 = floats(128, 1), floats(128, 1)
    maker = Maker()
    a, c0, c1 = maker.load(A), maker.load(x0, 1024), maker.load(x1, 1088)
    out, total = at(F32, [48], 4096), at(F32, [1], 8192)
    maker.run(
        Opcode.TENSOR_SCALAR,
        dst=out,
        src0=a,
        arg0=c0,
        arg1=c1,
        res=total,
        op0=Alu.SUBTRACT,
        op1=Alu.SUBTRACT,
        cmd=Alu.MAXIMUM,
        flags=Flag.REVERSE0 * reverse0 | Flag.REVERSE1 * reverse1,
    )
    engine = maker.finish()
    inner = (x0 - A if reverse0 else A - x0).astype(np.float64)
    expected = x1 - inner if reverse1 else inner - x1
    np.testing.assert_allclose(values_at(engine, out), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(values_at(engine, total)[:, 0], expected.max(1), rtol=1e-6, atol=1e-6)


def test_tensor_scalar_bypasses_and_casts() -> None:
    maker = Maker()
    a = maker.load(A.astype(ml_dtypes.bfloat16))
    out = at(F16, [48], 4096)
    maker.run(Opcode.TENSOR_SCALAR, dst=out, src0=a, op0=Alu.MULTIPLY, imm=(3.0,), op1=Alu.BYPASS)
    expected = (A.astype(ml_dtypes.bfloat16).astype(np.float32) * 3).astype(np.float16)
    np.testing.assert_array_equal(values_at(maker.finish(), out), expected)


def test_scalar_tensor_tensor_into_its_own_second_operand() -> None:
    maker = Maker()
    a, b = maker.load(A), maker.load(B, 1024)
    maker.run(Opcode.SCALAR_TENSOR_TENSOR, dst=b, src0=a, src1=b, op0=Alu.MULTIPLY, op1=Alu.ADD, imm=(0.5,))
    expected = A.astype(np.float64) * 0.5 + B
    np.testing.assert_allclose(values_at(maker.finish(), b), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op", [Alu.ADD, Alu.MULTIPLY, Alu.MAXIMUM, Alu.MINIMUM, Alu.SUBTRACT])
def test_scan_over_two_free_dimensions(op: Alu) -> None:
    initial = floats(128, 1)
    maker = Maker()
    a, b = maker.load((A * 0.5).reshape(128, 6, 8)), maker.load(B, 1024)
    start = maker.load(initial, 2048)
    out = at(F32, [48], 4096)
    maker.run(Opcode.TENSOR_TENSOR_SCAN, dst=out, src0=a, src1=b, arg0=start, op0=Alu.MULTIPLY, op1=op)
    last = initial[:, 0].astype(np.float64)
    expected = np.empty((128, 48))
    for i in range(48):
        last = ARITHMETIC[op](0.5 * A[:, i].astype(np.float64) * last, B[:, i])
        expected[:, i] = last
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-4, atol=1e-5)


def test_scan_with_an_operator_without_a_fast_path() -> None:
    maker = Maker()
    a, b = maker.load(A), maker.load(POSITIVE, 1024)
    out = at(F32, [48], 4096)
    maker.run(Opcode.TENSOR_TENSOR_SCAN, dst=out, src0=a, src1=b, op0=Alu.ABS_MAX, op1=Alu.DIVIDE, imm=(0.5,))
    last, expected = np.full(128, 0.5), np.empty((128, 48))
    for i in range(48):
        last = np.maximum(np.abs(A[:, i]), np.abs(last)) / POSITIVE[:, i]
        expected[:, i] = last
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-5)


REDUCTIONS = {
    Alu.ADD: lambda x: x.sum(-1),
    Alu.SUBTRACT: lambda x: x[..., 0] - x[..., 1:].sum(-1),
    Alu.MULTIPLY: lambda x: x.prod(-1),
    Alu.MAXIMUM: lambda x: x.max(-1),
    Alu.MINIMUM: lambda x: x.min(-1),
    Alu.LOGICAL_AND: lambda x: 1.0 * (x != 0).all(-1),
    Alu.LOGICAL_OR: lambda x: 1.0 * (x != 0).any(-1),
    Alu.LOGICAL_XOR: lambda x: 1.0 * ((x != 0).sum(-1) % 2),
    Alu.ABS_MAX: lambda x: np.abs(x).max(-1),
    Alu.ABS_MIN: lambda x: np.abs(x).min(-1),
}


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("negate", [False, True])
def test_tensor_reduce_over_inner_dimensions(op: Alu, negate: bool) -> None:
    values = np.where(np.abs(A) < 0.8, 0, A).astype(np.float32)
    maker = Maker()
    a = maker.load(values.reshape(128, 4, 3, 4))
    out = at(F32, [4], 4096)
    maker.run(Opcode.TENSOR_REDUCE, dst=out, src0=a, op0=op, cmd=2, flags=Flag.NEGATE * negate)
    expected = REDUCTIONS[op](values.astype(np.float64).reshape(128, 4, 12)) * (-1 if negate else 1)
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-5, atol=1e-5)


def test_tensor_reduce_of_a_permuted_view() -> None:
    """Columns are reduced: the innermost dimension of the operand is the outer one in memory."""
    maker = Maker()
    maker.load(A)
    turned, out = at(F32, [8, 6], 0, steps=[1, 8]), at(F32, [8], 4096)
    maker.run(Opcode.TENSOR_REDUCE, dst=out, src0=turned, op0=Alu.ADD, cmd=1)
    expected = A.astype(np.float64).reshape(128, 6, 8).sum(1)
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-5, atol=1e-6)


def test_tensor_reduce_of_integers_is_exact() -> None:
    values = RANDOM.integers(-(1 << 30), 1 << 30, (128, 40)).astype(np.int32)
    maker = Maker()
    a, out, bits = maker.load(values), at(I32, [1], 4096), at(I32, [1], 4160)
    maker.run(
        Opcode.TENSOR_REDUCE, engine=Engine.POOL, dst=out, src0=a, op0=Alu.ADD, cmd=1, flags=Flag.INTEGER
    )
    maker.run(Opcode.TENSOR_REDUCE, dst=bits, src0=a, op0=Alu.BITWISE_XOR, cmd=1)
    engine = maker.finish()
    np.testing.assert_array_equal(
        values_at(engine, out)[:, 0], values.astype(np.int64).sum(1).astype(np.int32)
    )
    np.testing.assert_array_equal(values_at(engine, bits)[:, 0], np.bitwise_xor.reduce(values, axis=1))


def test_batch_statistics_of_odd_counts() -> None:
    values = floats(128, 47) + 3
    maker = Maker()
    a, stats, out = maker.load(values), at(F32, [6], 4096), at(F32, [2], 8192)
    maker.run(Opcode.BN_STATS, dst=stats, src0=a)
    maker.run(Opcode.BN_AGGR, dst=out, src0=stats)
    engine = maker.finish()
    wide = values.astype(np.float64)
    even, odd = wide[:, ::2], wide[:, 1::2]
    expected = [np.full(128, 24.0), even.mean(1), even.var(1) * 24]
    expected += [np.full(128, 23.0), odd.mean(1), odd.var(1) * 23]
    np.testing.assert_allclose(values_at(engine, stats), np.stack(expected, 1), rtol=1e-4)
    np.testing.assert_allclose(values_at(engine, out), np.stack([wide.mean(1), wide.var(1)], 1), rtol=1e-4)


def test_reciprocal_memset_and_copies_with_casts() -> None:
    maker = Maker()
    a = maker.load(POSITIVE)
    inverse, zeros, whole = at(F32, [48], 4096), at(BF16, [5], 8192), at(I32, [3], 8256, partitions=2)
    maker.run(Opcode.RECIPROCAL, dst=inverse, src0=a)
    maker.run(Opcode.MEMSET, dst=zeros, imm=(1.5,))
    maker.run(Opcode.MEMSET, dst=whole, imm=(-123456789,), flags=Flag.INTEGER)
    engine = maker.finish()
    np.testing.assert_allclose(values_at(engine, inverse), 1 / POSITIVE.astype(np.float64), rtol=1e-6)
    assert (values_at(engine, zeros).astype(np.float32) == 1.5).all()
    assert (values_at(engine, whole) == -123456789).all()


CASTS = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 300.0, -300.0, np.nan, np.inf, -np.inf, 3e9, 0.0]], np.float32)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (I8, [0, 2, 2, 0, -2, 127, -128, 0, 127, -128, 127, 0]),
        (U8, [0, 2, 2, 0, 0, 255, 0, 0, 255, 0, 255, 0]),
        (I32, [0, 2, 2, 0, -2, 300, -300, 0, 2**31 - 1, -(2**31), 2**31 - 1, 0]),
        (U32, [0, 2, 2, 0, 0, 300, 0, 0, 2**32 - 1, 0, 3_000_000_000, 0]),
    ],
)
def test_floats_round_to_even_and_saturate(dtype: int, expected: list[int]) -> None:
    maker = Maker()
    a, out = maker.load(CASTS), at(dtype, [12], 4096, partitions=1)
    maker.run(Opcode.TENSOR_COPY, dst=out, src0=a)
    assert values_at(maker.finish(), out).tolist() == [expected]


def test_a_copy_of_equal_types_keeps_every_bit() -> None:
    words = RANDOM.integers(0, 1 << 32, (128, 16), np.uint32)
    maker = Maker()
    maker.load(words)
    source, out = at(F32, [4, 4], 0), at(F32, [4, 4], 4096, steps=[1, 4])
    maker.run(Opcode.TENSOR_COPY, dst=out, src0=source)
    found = values_at(maker.finish(), at(U32, [16], 4096))
    np.testing.assert_array_equal(found, words.reshape(128, 4, 4).transpose(0, 2, 1).reshape(128, 16))


def test_shapes_that_do_not_divide_each_other() -> None:
    """4 x 6 elements into 6 x 4 with gaps: no common dimensions, so the values go through copies."""
    values = floats(128, 24)
    maker = Maker()
    maker.load(values)
    source, out = at(F32, [8, 3], 0, steps=[1, 8]), at(F32, [6, 4], 4096, steps=[7, 1])
    maker.run(Opcode.TENSOR_SCALAR, dst=out, src0=source, op0=Alu.ADD, imm=(1.0,))
    expected = values.reshape(128, 3, 8).transpose(0, 2, 1).reshape(128, 24) + 1
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-6)


def test_copy_predicated_keeps_the_rest() -> None:
    keep = RANDOM.integers(0, 2, (128, 48)).astype(np.uint8)
    maker = Maker()
    a, b, p = maker.load(A), maker.load(B, 1024), maker.load(keep, 2048)
    low = maker.load(B.astype(ml_dtypes.bfloat16), 4096)
    maker.run(Opcode.TENSOR_COPY_PREDICATED, dst=b, src0=a, src1=p)
    maker.run(Opcode.TENSOR_COPY_PREDICATED, dst=low, src0=a, src1=p)
    engine = maker.finish()
    np.testing.assert_array_equal(values_at(engine, b), np.where(keep, A, B))
    narrow = np.where(keep, A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(values_at(engine, low).view(np.uint16), narrow.view(np.uint16))


def test_faults_have_a_text_and_change_nothing() -> None:
    maker = Maker()
    a = maker.load(A)
    out = at(F32, [48], 4096)
    maker.run(Opcode.TENSOR_TENSOR, dst=at(F32, [47], 4096), src0=a, src1=a, op0=Alu.ADD)
    maker.run(Opcode.TENSOR_TENSOR, dst=out, src0=a, op0=Alu.ADD)
    maker.run(Opcode.TENSOR_COPY, dst=at(F32, [48], maker.spec.sbuf_partition_bytes - 8), src0=a)
    maker.run(Opcode.TENSOR_TENSOR, dst=out, src0=a, src1=a, op0=77)
    maker.run(Opcode.TENSOR_SCALAR, dst=out, src0=a, op0=Alu.BITWISE_AND, op1=Alu.ADD)
    engine = maker.finish()
    texts = [hazard.text for hazard in engine.hazards]
    assert [hazard.kind for hazard in engine.hazards] == ["fault"] * 5
    for text, part in zip(
        texts, ["128 x 47 elements", "missing", "outside", "77", "bit operators"], strict=True
    ):
        assert part in text
    assert not values_at(engine, out).any()


def test_psum_and_partial_partitions() -> None:
    part = floats(32, 16)
    maker = Maker()
    a = maker.load(part, 0, partition=96)
    psum = at(F32, [16], 2048, partition=32, partitions=32, space=Space.PSUM)
    maker.run(Opcode.TENSOR_SCALAR, dst=psum, src0=a, op0=Alu.MULTIPLY, imm=(2.0,))
    back = at(dtype_of(part), [16], 512, partition=64, partitions=32)
    maker.run(Opcode.TENSOR_COPY, dst=back, src0=psum)
    np.testing.assert_array_equal(values_at(maker.finish(), back), part * 2)
