"""Matrix products, transposes and the instructions of GpSimd against plain numpy statements."""

import ml_dtypes
import numpy as np
import pytest

from npuviz.targets.neuroncore.isa import Alu, Engine, Flag, Opcode, Space
from tests.targets.neuroncore.programs import BF16, F32, I32, U32, Maker, at, pattern, values_at

RANDOM = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def psum(columns: int, rows: int = 128, address: int = 0, dtype: int = F32) -> np.ndarray:
    return at(dtype, [columns], address, partitions=rows, space=Space.PSUM)


@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, np.int8]
)
@pytest.mark.parametrize("shape", [(128, 128, 512), (1, 1, 1), (37, 5, 64), (128, 64, 1)])
def test_matmul_overwrites_then_accumulates(dtype: type, shape: tuple[int, int, int]) -> None:
    depth, rows, columns = shape
    a = (floats(depth, rows) * 2).astype(dtype)
    b = (floats(depth, columns) * 2).astype(dtype)
    maker = Maker()
    left, right = maker.load(a), maker.load(b, 2048)
    out = psum(columns, rows)
    for flags in (Flag.ACCUMULATE, 0, Flag.ACCUMULATE):
        maker.run(Opcode.NC_MATMUL, engine=Engine.PE, dst=out, src0=left, src1=right, flags=flags)
    engine = maker.finish()
    expected = 2 * (a.astype(np.float64).T @ b.astype(np.float64))
    np.testing.assert_allclose(values_at(engine, out), expected, rtol=1e-4, atol=1e-4)
    assert [hazard.kind for hazard in engine.hazards] == ["unwritten"]


def test_matmul_of_a_window_with_gaps() -> None:
    """The moving operand as a convolution has it: rows of an image without its border."""
    image, weights = floats(64, 10, 12), floats(64, 32)
    maker = Maker()
    left = maker.load(weights)
    maker.load(image, 1024)
    right = at(F32, [4, 5], 1024 + 4 * 13, partitions=64, steps=[24, 2])
    out = at(F32, [4, 5], 64, partitions=32, steps=[8, 1], space=Space.PSUM)
    maker.run(Opcode.NC_MATMUL, engine=Engine.PE, dst=out, src0=left, src1=right)
    window = image[:, 1:9:2, 1:11:2].reshape(64, 20)
    expected = weights.astype(np.float64).T @ window
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-4, atol=1e-4)


def test_matmul_into_bfloat16_psum() -> None:
    a, b = floats(16, 8), floats(16, 24)
    maker = Maker()
    left, right = maker.load(a), maker.load(b, 2048)
    out = psum(24, 8, dtype=BF16)
    maker.run(Opcode.NC_MATMUL, engine=Engine.PE, dst=out, src0=left, src1=right)
    maker.run(Opcode.NC_MATMUL, engine=Engine.PE, dst=out, src0=left, src1=right, flags=Flag.ACCUMULATE)
    found = values_at(maker.finish(), out).astype(np.float64)
    np.testing.assert_allclose(found, 2 * a.astype(np.float64).T @ b, rtol=2e-2, atol=2e-2)


def test_double_rows() -> None:
    a, b = floats(128, 2, 32), floats(128, 2, 48)
    maker = Maker()
    left, right = maker.load(a), maker.load(b, 2048)
    out = psum(48, 32)
    maker.run(Opcode.NC_MATMUL, engine=Engine.PE, dst=out, src0=left, src1=right, flags=Flag.DOUBLE_ROW)
    expected = np.einsum("krm,krn->mn", a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(values_at(maker.finish(), out), expected, rtol=1e-4, atol=1e-4)


def test_matmul_of_shapes_that_do_not_fit() -> None:
    maker = Maker()
    left, right = maker.load(floats(16, 8)), maker.load(floats(16, 24), 2048)
    maker.run(Opcode.NC_MATMUL, engine=Engine.PE, dst=psum(24, 9), src0=left, src1=right)
    (hazard,) = maker.finish().hazards
    assert hazard.kind == "fault"
    assert "16 x 8" in hazard.text


def test_transposes() -> None:
    a = floats(128, 64)
    block = floats(32, 32)
    wide = floats(64, 96)
    maker = Maker()
    left = maker.load(a)
    small, large = maker.load(block, 1024), maker.load(wide, 2048)
    on_pe, on_vector = psum(128, 64), at(F32, [32], 4096, partitions=32)
    in_blocks = at(F32, [96], 8192, partitions=64)
    maker.run(Opcode.NC_TRANSPOSE, engine=Engine.PE, dst=on_pe, src0=left)
    maker.run(Opcode.NC_TRANSPOSE, engine=Engine.DVE, dst=on_vector, src0=small)
    maker.run(Opcode.NC_TRANSPOSE, engine=Engine.DVE, dst=in_blocks, src0=large)
    engine = maker.finish()
    np.testing.assert_array_equal(values_at(engine, on_pe), a.T)
    np.testing.assert_array_equal(values_at(engine, on_vector), block.T)
    expected = wide.copy()
    for row in range(0, 64, 32):
        for column in range(0, 96, 32):
            tile = wide[row : row + 32, column : column + 32]
            expected[row : row + 32, column : column + 32] = tile.T
    np.testing.assert_array_equal(values_at(engine, in_blocks), expected)


def test_iota_and_affine_select() -> None:
    values = floats(64, 12)
    maker = Maker()
    a = maker.load(values)
    numbers = at(I32, [3, 4], 4096, partitions=64)
    maker.run(
        Opcode.IOTA,
        engine=Engine.POOL,
        dst=numbers,
        arg0=pattern([3, 4], [100, -1]),
        imm=(5, 1000),
        flags=Flag.INTEGER,
    )
    chosen = at(F32, [12], 8192, partitions=64)
    maker.run(
        Opcode.AFFINE_SELECT, engine=Engine.POOL, dst=chosen, src0=a, arg0=pattern([12], [-1]),
        op0=Alu.GREATER_EQUAL, imm=(2.0, 1.0, -7.5),
    )  # fmt: skip
    engine = maker.finish()
    p, i, j = np.ogrid[:64, :3, :4]
    np.testing.assert_array_equal(values_at(engine, numbers), (5 + 1000 * p + 100 * i - j).reshape(64, 12))
    lane, place = np.ogrid[:64, :12]
    np.testing.assert_array_equal(values_at(engine, chosen), np.where(2 + lane - place >= 0, values, -7.5))


def test_gather_within_partitions() -> None:
    values, index = floats(128, 50), RANDOM.integers(0, 50, (128, 20)).astype(np.int32)
    maker = Maker()
    a, i = maker.load(values), maker.load(index, 1024)
    out = at(F32, [20], 4096)
    maker.run(Opcode.GATHER, engine=Engine.POOL, dst=out, src0=a, src1=i)
    engine = maker.finish()
    np.testing.assert_array_equal(values_at(engine, out), np.take_along_axis(values, index, 1))
    assert engine.hazards == []


def test_gather_outside_is_a_hazard() -> None:
    maker = Maker()
    a, i = maker.load(floats(1, 4) + 9), maker.load(np.array([[0, 4, -1]], np.int32), 1024)
    out = at(F32, [3], 4096, partitions=1)
    maker.run(Opcode.GATHER, engine=Engine.POOL, dst=out, src0=a, src1=i)
    engine = maker.finish()
    assert (values_at(engine, out)[0] != 0).tolist() == [True, False, False]
    (hazard,) = engine.hazards
    assert hazard.kind == "index-range"
    assert "index 4" in hazard.text


def test_partition_reduce() -> None:
    values, words = floats(128, 40), RANDOM.integers(0, 1 << 32, (128, 8), np.uint32)
    maker = Maker()
    a, b = maker.load(values), maker.load(words, 1024)
    total, top = at(F32, [40], 4096, partitions=1), at(F32, [40], 4608, partitions=1)
    bits = at(U32, [8], 5120, partitions=1)
    maker.run(Opcode.PARTITION_REDUCE, engine=Engine.POOL, dst=total, src0=a, op0=Alu.ADD)
    maker.run(Opcode.PARTITION_REDUCE, engine=Engine.POOL, dst=top, src0=a, op0=Alu.MAXIMUM)
    maker.run(Opcode.PARTITION_REDUCE, engine=Engine.POOL, dst=bits, src0=b, op0=Alu.BITWISE_OR)
    engine = maker.finish()
    np.testing.assert_allclose(
        values_at(engine, total)[0], values.astype(np.float64).sum(0), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_array_equal(values_at(engine, top)[0], values.max(0))
    np.testing.assert_array_equal(values_at(engine, bits)[0], np.bitwise_or.reduce(words, axis=0))


@pytest.mark.parametrize("count", [8, 9, 100])
def test_searches(count: int) -> None:
    values = RANDOM.permutation(128 * count).reshape(128, count).astype(np.float32)
    maker = Maker()
    a = maker.load(values)
    top, where = at(F32, [8], 4096), at(U32, [8], 4224)
    rest, places = at(F32, [count], 8192), at(U32, [8], 4352)
    maker.run(Opcode.MAX8, dst=top, src0=a)
    maker.run(Opcode.FIND_INDEX8, dst=where, src0=a, src1=top)
    maker.run(Opcode.MATCH_REPLACE8, dst=rest, src0=a, src1=top, imm=(-1.0,), res=places)
    engine = maker.finish()
    order = np.argsort(-values, axis=1)[:, :8]
    np.testing.assert_array_equal(values_at(engine, top), np.take_along_axis(values, order, 1))
    np.testing.assert_array_equal(values_at(engine, where), order)
    np.testing.assert_array_equal(values_at(engine, places), order)
    expected = values.copy()
    np.put_along_axis(expected, order, -1, 1)
    np.testing.assert_array_equal(values_at(engine, rest), expected)


def test_searches_with_equal_values() -> None:
    values = np.array([[3, 1, 3, 2, 3, 0, 1, 1, 5, 4]], np.float32)
    maker = Maker()
    a = maker.load(values)
    top, where = at(F32, [8], 4096, partitions=1), at(U32, [8], 4224, partitions=1)
    rest, places = at(F32, [10], 8192, partitions=1), at(U32, [8], 4352, partitions=1)
    absent = maker.load(np.full((1, 8), 77, np.float32), 512)
    nowhere = at(U32, [8], 4480, partitions=1)
    maker.run(Opcode.MAX8, dst=top, src0=a)
    maker.run(Opcode.FIND_INDEX8, dst=where, src0=a, src1=top)
    maker.run(Opcode.MATCH_REPLACE8, dst=rest, src0=a, src1=top, imm=(-9.0,), res=places)
    maker.run(Opcode.FIND_INDEX8, dst=nowhere, src0=a, src1=absent)
    engine = maker.finish()
    assert values_at(engine, top).tolist() == [[5, 4, 3, 3, 3, 2, 1, 1]]
    assert values_at(engine, where).tolist() == [[8, 9, 0, 2, 4, 3, 1, 6]]
    assert values_at(engine, places).tolist() == [[8, 9, 4, 2, 0, 3, 6, 1]]
    assert values_at(engine, rest).tolist() == [[-9, -9, -9, -9, -9, 0, -9, 1, -9, -9]]
    assert values_at(engine, nowhere).tolist() == [[0xFFFFFFFF] * 8]


def shuffled(values: np.ndarray, before: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """What `before` becomes when it takes partitions of `values`."""
    halves = mask.astype(np.uint8).reshape(2, 16)
    arguments = []
    for half in halves:
        made = pattern([1], [0])
        made["sizes"], made["steps"] = half[:8].view(np.uint16), half[8:].view(np.int16)
        arguments.append(made)
    maker = Maker()
    a, out = maker.load(values), maker.load(before, 1024)
    maker.run(Opcode.STREAM_SHUFFLE, dst=out, src0=a, arg0=arguments[0], arg1=arguments[1])
    return values_at(maker.finish(), out)


def test_stream_shuffle() -> None:
    values, before = floats(128, 6), floats(128, 6)
    mask = RANDOM.integers(0, 32, 32)
    mask[5] = 255
    expected = np.array(
        [before[p] if mask[p % 32] == 255 else values[p - p % 32 + mask[p % 32]] for p in range(128)]
    )
    np.testing.assert_array_equal(shuffled(values, before, mask), expected)


@pytest.mark.parametrize("partitions", [4, 32])
def test_stream_shuffle_spreads_a_partition(partitions: int) -> None:
    values, before = floats(1, 6), floats(partitions, 6)
    found = shuffled(values, before, np.zeros(32, int))
    np.testing.assert_array_equal(found, np.repeat(values, partitions, axis=0))
