"""DMA descriptors: every operation, patterns on both sides, bounds, gather and scatter."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.program.dtypes import dtype_name
from npuviz.targets.neuroncore.isa import Flag, Opcode
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor
from tests.sweeps import quick
from tests.targets.neuroncore.programs import F32, I32, Maker, at, values_at

RANDOM = np.random.default_rng(5)


def whole(variable: int, array: np.ndarray, dtype: str | None = None) -> Access:
    """All bytes of a variable."""
    return Access(variable, 0, (1,), (array.nbytes,), dtype or dtype_name(array.dtype))


def computed(
    op: str, sources: Sequence[np.ndarray], out_dtype: str = "float32", **options: object
) -> np.ndarray:
    """Result of a computing descriptor on whole variables, as a flat array."""
    maker = Maker()
    inputs = [maker.variable("constant", data=array) for array in sources]
    out = maker.variable("scratch", (sources[0].size,), out_dtype)
    size = maker.variables[out].size_bytes
    maker.transfer(
        Descriptor(
            op,  # pyright: ignore[reportArgumentType]
            Access(out, 0, (1,), (size,), out_dtype),
            tuple(whole(variable, array) for variable, array in zip(inputs, sources, strict=True)),
            **options,  # pyright: ignore[reportArgumentType]
        )
    )
    engine = maker.finish()
    assert engine.hazards == []
    return engine.variable(out)


@st.composite
def patterns(draw: st.DrawFn) -> tuple[int, list[int], list[int], int]:
    """(offset, steps, sizes, bytes of a buffer that holds it), innermost first."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    steps = [draw(st.integers(1, 3))]
    for size in sizes[:-1]:
        steps.append(steps[-1] * size + draw(st.integers(0, 3)))
    signs = [1] + [draw(st.sampled_from([1, 1, -1])) for _ in sizes[1:]]
    steps = [step * sign for step, sign in zip(steps, signs, strict=True)]
    low = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True) if step < 0)
    high = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True) if step > 0)
    offset = -low + draw(st.integers(0, 4))
    return offset, steps, sizes, offset + high + 1


def offsets(offset: int, steps: list[int], sizes: list[int]) -> list[int]:
    """Byte addresses in order, the innermost dimension fastest."""
    found = [offset]
    for size, step in reversed(list(zip(sizes, steps, strict=True))):
        found = [base + i * step for base in found for i in range(size)]
    return found


@settings(max_examples=60, deadline=None)
@given(patterns(), st.data())
def test_copies_of_bytes_between_any_patterns(source, data) -> None:
    offset, steps, sizes, length = source
    count = int(np.prod(sizes))
    shapes = [[count], [1, count], sizes, [sizes[0], count // sizes[0]]]
    to_sizes = data.draw(st.sampled_from(shapes))
    to_steps, unit = [], data.draw(st.integers(1, 2))
    for size in to_sizes:
        to_steps.append(unit)
        unit = unit * size + data.draw(st.integers(0, 2))
    content = RANDOM.integers(0, 256, length, np.uint8)
    maker = Maker()
    origin = maker.variable("constant", data=content)
    out = maker.variable("scratch", (unit + 8,), "uint8")
    maker.transfer(
        Descriptor(
            "copy",
            Access(out, 3, tuple(to_steps), tuple(to_sizes)),
            (Access(origin, offset, tuple(steps), tuple(sizes)),),
        )
    )
    expected = np.zeros(unit + 8, np.uint8)
    for to, at_byte in zip(offsets(3, to_steps, to_sizes), offsets(offset, steps, sizes), strict=True):
        expected[to] = content[at_byte]
    np.testing.assert_array_equal(maker.finish().variable(out), expected)


def test_a_tile_goes_to_sbuf_and_back_transposed() -> None:
    values = RANDOM.standard_normal((96, 40)).astype(np.float32)
    maker = Maker()
    size = maker.spec.sbuf_partition_bytes
    source = maker.variable("constant", data=values)
    out = maker.variable("scratch", (40, 96))
    maker.transfer(
        Descriptor(
            "copy",
            Access(SBUF, 32 * size + 640, (1, size), (160, 96)),
            (Access(source, 0, (1,), (96 * 160,)),),
        )
    )
    maker.transfer(
        Descriptor(
            "copy",
            Access(out, 0, (1, 4 * 96, 4), (4, 40, 96)),
            (Access(SBUF, 32 * size + 640, (1, 4, size), (4, 40, 96)),),
        )
    )
    engine = maker.finish()
    np.testing.assert_array_equal(values_at(engine, at(F32, [40], 640, partition=32, partitions=96)), values)
    np.testing.assert_array_equal(engine.variable(out), values.T)
    assert engine.hazards == []


def test_rows_that_fill_whole_partitions() -> None:
    maker = Maker()
    size = maker.spec.sbuf_partition_bytes
    values = RANDOM.integers(0, 255, (3, size), np.uint8)
    source, out = maker.variable("constant", data=values), maker.variable("scratch", (3, size), "uint8")
    maker.transfer(Descriptor("copy", Access(SBUF, 5 * size, (1,), (3 * size,)), (whole(source, values),)))
    maker.transfer(Descriptor("copy", whole(out, values), (Access(SBUF, 5 * size, (1,), (3 * size,)),)))
    engine = maker.finish()
    np.testing.assert_array_equal(engine.variable(out), values)
    assert engine.hazards == []


TYPES = [
    np.float32,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    np.int8,
    np.uint8,
    np.int32,
    np.int64,
]


@quick(every=3)
@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_cast(source: type, target: type) -> None:
    values = np.array([0, 1, -1, 2.5, -3.5, 100, -100, 17, 1000, -1000, 0.1, 240]).astype(np.float32)
    given_values = (
        values.astype(source) if np.dtype(source).kind != "u" else np.abs(values).clip(0, 255).astype(source)
    )
    found = computed("cast", [given_values], dtype_name(np.dtype(target)))
    wide = given_values.astype(np.float64)
    to = np.dtype(target)
    if to.kind in "iu":
        if np.dtype(source).kind in "iu":
            expected = given_values.astype(to)
        else:
            info = np.iinfo(target)
            expected = np.clip(np.rint(np.nan_to_num(wide)), info.min, info.max).astype(to)
    elif to == np.dtype(ml_dtypes.float8_e4m3fn):
        expected = np.clip(wide, -448, 448).astype(np.float32).astype(to)
    else:
        expected = given_values.astype(np.float32).astype(to)
    assert found.dtype == to
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


def test_cast_of_large_integers_is_exact() -> None:
    values = np.array([2**53 + 1, -(2**62), 5], np.int64)
    np.testing.assert_array_equal(computed("cast", [values], "int32"), values.astype(np.int32))
    wide = computed("cast", [np.array([-1, 2**31 - 1], np.int32)], "int64")
    assert wide.tolist() == [-1, 2**31 - 1]


def test_cast_to_bool_and_of_elements_in_pieces() -> None:
    assert computed("cast", [np.array([0, 0.25, -2], np.float32)], "bool").tolist() == [False, True, True]
    maker = Maker()
    values = RANDOM.standard_normal(6).astype(np.float32)
    swapped = np.frombuffer(values.tobytes(), np.uint8).reshape(6, 4)[:, ::-1].copy()
    source, out = maker.variable("constant", data=swapped), maker.variable("scratch", (6,), "float16")
    # Bytes of every element in reverse order: step -1.
    access = Access(source, 3, (-1, 4), (4, 6), "float32")
    maker.transfer(Descriptor("cast", Access(out, 0, (1,), (12,), "float16"), (access,)))
    np.testing.assert_array_equal(maker.finish().variable(out), values.astype(np.float16))


def test_sums_minima_and_maxima_of_up_to_16_sources() -> None:
    sources = [RANDOM.standard_normal(30).astype(np.float32) for _ in range(14)]
    sources += [
        RANDOM.integers(-9, 9, 30).astype(np.int8),
        RANDOM.standard_normal(30).astype(ml_dtypes.bfloat16),
    ]
    wide = np.array([source.astype(np.float64) for source in sources])
    scales = tuple(RANDOM.standard_normal(16).tolist())
    np.testing.assert_allclose(computed("add", sources), wide.sum(0), rtol=1e-5, atol=1e-5)
    found = computed("fma", sources, scales=scales)
    np.testing.assert_allclose(found, (wide * np.array(scales)[:, None]).sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(computed("min", sources), wide.min(0))
    np.testing.assert_array_equal(computed("max", sources, constant=1.5), np.maximum(wide.max(0), 1.5))
    np.testing.assert_array_equal(computed("min", sources[:1], constant=0.0), np.minimum(wide[0], 0))
    rounded = computed("add", sources, "int8")
    np.testing.assert_allclose(rounded, np.rint(wide.sum(0)), atol=1)


def test_transpose_reverses_the_dimensions_unless_told() -> None:
    values = RANDOM.integers(0, 1 << 31, (2, 3, 4, 5)).astype(np.int32)
    options = {"transpose_shape": (5, 4, 3, 2), "element_size": 4}
    found = computed("transpose", [values], "int32", **options)
    np.testing.assert_array_equal(found.reshape(5, 4, 3, 2), values.transpose(3, 2, 1, 0))
    maker = Maker()
    source, out = maker.variable("constant", data=values), maker.variable("scratch", (3, 2, 5, 4), "int32")
    maker.transfer(
        Descriptor(
            "transpose",
            whole(out, values),
            (whole(source, values),),
            transpose_shape=(3, 2, 5, 4),
            element_size=4,
        )
    )
    engine = maker.finish(transpose_order=(1, 0, 3, 2))
    np.testing.assert_array_equal(engine.variable(out), values.transpose(1, 0, 3, 2))


@pytest.mark.parametrize(
    ("descriptor", "part"),
    [
        (Descriptor("copy", Access(1, 0, (1,), (32,)), (Access(0, 40, (1,), (32,)),)), "bytes 40..71"),
        (Descriptor("copy", Access(1, 0, (1,), (32,)), (Access(0, 2, (1, -4), (4, 8)),)), "bytes -26..5"),
        (Descriptor("copy", Access(1, 0, (1,), (31,)), (Access(0, 0, (1,), (32,)),)), "32 bytes to 31"),
        (Descriptor("copy", Access(9, 0, (1,), (32,)), (Access(0, 0, (1,), (32,)),)), "variable 9"),
        (Descriptor("copy", Access(1, 0, (1,), (32,)), ()), "without a source"),
        (
            Descriptor("cast", Access(1, 0, (1,), (16,), "float16"), (Access(0, 0, (1,), (64,), "int32"),)),
            "16 elements",
        ),
        (Descriptor("cast", Access(1, 0, (1,), (16,), "float99"), (Access(0, 0, (1,), (64,)),)), "float99"),
        (Descriptor("copy", Access(SBUF, 1 << 40, (1,), (64,)), (Access(0, 0, (1,), (64,)),)), "SBUF"),
        (
            Descriptor("transpose", Access(1, 0, (1,), (64,)), (Access(0, 0, (1,), (64,)),), element_size=4),
            "transpose",
        ),
    ],
)  # fmt: skip
def test_bad_descriptors_are_faults(descriptor: Descriptor, part: str) -> None:
    maker = Maker()
    maker.variable("constant", data=np.arange(64, dtype=np.uint8), name="data")
    out = maker.variable("scratch", (64,), "uint8")
    maker.transfer(descriptor)
    engine = maker.finish()
    (hazard,) = engine.hazards
    assert hazard.kind == "fault"
    assert part in hazard.text
    assert "transfer 0" in hazard.text
    assert not engine.variable(out).any()


def test_a_repeated_constant_is_not_expanded() -> None:
    maker = Maker()
    data = np.broadcast_to(np.float32(0.75), (1 << 20, 1 << 20))
    source = maker.variable("constant", data=data)
    out = maker.variable("scratch", (6, 8))
    maker.transfer(
        Descriptor("copy", Access(out, 0, (1,), (192,)), (Access(source, 4096, (1, 1 << 22), (32, 6)),))
    )
    np.testing.assert_array_equal(maker.finish().variable(out), np.full((6, 8), 0.75))


def test_reading_what_nobody_wrote() -> None:
    maker = Maker()
    scratch, out = maker.variable("scratch", (256,), "uint8"), maker.variable("scratch", (256,), "uint8")
    row = np.arange(64, dtype=np.uint8)
    source = maker.variable("constant", data=row)
    maker.transfer(Descriptor("copy", Access(scratch, 64, (1,), (64,)), (whole(source, row),)))
    good = maker.transfer(
        Descriptor("copy", Access(out, 0, (1,), (64,)), (Access(scratch, 64, (1,), (64,)),))
    )
    bad = maker.transfer(Descriptor("copy", Access(out, 0, (1,), (64,)), (Access(scratch, 65, (1,), (64,)),)))
    engine = maker.finish()
    assert good != bad
    (hazard,) = engine.hazards
    assert (hazard.kind, hazard.entry, hazard.position) == ("unwritten", -1 - bad, 5)


def gathering(index: np.ndarray, flags: int = 0, rows: int = 9) -> tuple[Maker, np.ndarray, np.ndarray]:
    """A gather of rows of 24 bytes into partitions 32 and on."""
    table = RANDOM.standard_normal((rows, 6)).astype(np.float32)
    maker = Maker()
    size = maker.spec.sbuf_partition_bytes
    where = maker.load(index.reshape(-1, 1), 0, partition=32)
    source = maker.variable("constant", data=table, name="table")
    maker.transfer(
        Descriptor(
            "copy",
            Access(SBUF, 32 * size + 512, (1, size), (24, len(index))),
            (Access(source, 0, (1, 0), (24, len(index))),),
        ),
        opcode=Opcode.DMA_COPY, src1=where, imm=(24,),
        flags=Flag.SOFTWARE | Flag.INTEGER | Flag.GATHER_SOURCE | flags,
    )  # fmt: skip
    return maker, table, at(F32, [6], 512, partition=32, partitions=len(index))


def test_gather_by_partition() -> None:
    index = RANDOM.integers(0, 9, 40).astype(np.int32)
    maker, table, out = gathering(index)
    engine = maker.finish()
    np.testing.assert_array_equal(values_at(engine, out), table[index])
    assert engine.hazards == []


def test_gather_out_of_bounds_is_skipped_or_told() -> None:
    index = np.array([1, 9, -1, 2], np.int32)
    for flag, hazards in ((0, 2), (Flag.SKIP_OUT_OF_BOUNDS, 0)):
        maker, table, out = gathering(index, flag)
        engine = maker.finish()
        expected = np.zeros((4, 6), np.float32)
        expected[0], expected[3] = table[1], table[2]
        np.testing.assert_array_equal(values_at(engine, out), expected)
        assert [hazard.kind for hazard in engine.hazards] == ["out-of-bounds"] * hazards
        assert all("'table'" in hazard.text for hazard in engine.hazards)


def test_scatter_by_partition_the_last_wins() -> None:
    rows = RANDOM.standard_normal((5, 6)).astype(np.float32)
    index = np.array([3, 0, 3, 7, 8], np.int32)
    before = RANDOM.standard_normal((9, 6)).astype(np.float32)
    maker = Maker()
    size = maker.spec.sbuf_partition_bytes
    maker.load(rows, 512)
    where = maker.load(index.reshape(-1, 1))
    source, out = maker.variable("constant", data=before), maker.variable("scratch", (9, 6))
    maker.transfer(Descriptor("copy", whole(out, before), (whole(source, before),)))
    maker.transfer(
        Descriptor("copy", Access(out, 0, (1, 0), (24, 5)), (Access(SBUF, 512, (1, size), (24, 5)),)),
        opcode=Opcode.DMA_COPY, src1=where, imm=(24,),
        flags=Flag.SOFTWARE | Flag.INTEGER | Flag.SCATTER_TARGET,
    )  # fmt: skip
    engine = maker.finish()
    expected = before.copy()
    for lane, row in enumerate(index):
        expected[row] = rows[lane]
    np.testing.assert_array_equal(engine.variable(out), expected)
    assert engine.hazards == []


def test_a_wide_integer_view() -> None:
    values = np.array([[1, -2, 3]], np.int64)
    maker = Maker()
    source = maker.variable("constant", data=values)
    maker.transfer(Descriptor("copy", Access(SBUF, 0, (1,), (24,)), (whole(source, values),)))
    low = at(I32, [3], 0, partitions=1, steps=[2])
    assert values_at(maker.finish(), low).tolist() == [[1, -2, 3]]
