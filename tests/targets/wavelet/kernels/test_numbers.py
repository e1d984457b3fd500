"""DSD operations compute what exact arithmetic, rounded once, gives."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from npuviz.targets.wavelet.kernels import isa as k
from tests.targets.wavelet.running import compute

RANDOM = np.random.default_rng(7)


def halves(count: int) -> np.ndarray:
    """Finite f16 of all sizes, with subnormals and zeros."""
    words = RANDOM.integers(0, 1 << 16, count, dtype=np.uint16)
    values = words.view(np.float16)
    return np.where(np.isfinite(values), values, np.float16(0.5)).astype(np.float16)


def round_half(value: Fraction) -> np.float16:
    """An exact number as f16, to nearest even."""
    with np.errstate(over="ignore"):
        guess = np.float16(float(value))
        near = [np.nextafter(guess, np.float16(-np.inf)), guess, np.nextafter(guess, np.float16(np.inf))]
    finite = [v for v in near if np.isfinite(v)]
    if abs(value) >= Fraction(65520):
        return np.float16(np.inf) if value > 0 else np.float16(-np.inf)
    return min(finite, key=lambda v: (abs(Fraction(float(v)) - value), int(v.view(np.uint16)) & 1))


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    equal = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    assert equal.all(), f"{np.flatnonzero(~equal)[:5]}: {found[~equal][:5]} for {wanted[~equal][:5]}"


@pytest.mark.parametrize(("name", "sign"), [("faddh", 1), ("fsubh", -1)])
def test_sums_of_halves_are_rounded_once(name: str, sign: int) -> None:
    a, b = halves(400), halves(400)
    wanted = [round_half(Fraction(float(x)) + sign * Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    same(compute(name, "dss", a, b, dtype=np.float16), np.array(wanted))


def test_products_of_halves_are_rounded_once() -> None:
    a, b = halves(400), halves(400)
    wanted = [round_half(Fraction(float(x)) * Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    same(compute("fmulh", "dss", a, b, dtype=np.float16), np.array(wanted))


def test_half_multiply_add_is_fused() -> None:
    a, b = halves(600), halves(600)
    c = np.float16(1.0009765625)
    wanted = [
        round_half(Fraction(float(x)) + Fraction(float(y)) * Fraction(float(c)))
        for x, y in zip(a, b, strict=True)
    ]
    found = compute("fmach", "dssv", a, b, int(c.view(np.uint16)), dtype=np.float16)
    same(found, np.array(wanted))
    twice = (a + (b * c).astype(np.float16)).astype(np.float16)
    assert (found != twice).any(), "rounding twice would be seen"


@pytest.mark.parametrize(
    ("name", "operation"), [("fadds", np.add), ("fsubs", np.subtract), ("fmuls", np.multiply)]
)
def test_single_precision_is_that_of_numpy(name: str, operation: np.ufunc) -> None:
    a = (RANDOM.standard_normal(500) * 1e3).astype(np.float32)
    b = RANDOM.standard_normal(500).astype(np.float32)
    same(compute(name, "dss", a, b, dtype=np.float32), operation(a, b))


def test_a_reduction_is_sequential() -> None:
    a = RANDOM.standard_normal(300).astype(np.float32)
    total = np.float32(0.5)
    for value in a:
        total = np.float32(total + value)
    start = int(np.float32(0.5).view(np.uint32))
    assert compute("fadds", "pvs", start, a, dtype=np.float32)[0] == total


def test_bfloat16_programs() -> None:
    a = RANDOM.standard_normal(200).astype(ml_dtypes.bfloat16)
    b = RANDOM.standard_normal(200).astype(ml_dtypes.bfloat16)
    found = compute("faddh", "dss", a.view(np.uint16), b.view(np.uint16), dtype=np.uint16, half=k.T_BF16)
    wanted = (a.astype(np.float32) + b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert found.tolist() == wanted.view(np.uint16).tolist()


@pytest.mark.parametrize(
    ("half", "word"), [(k.T_F16, 0x4600), (k.T_CB16, 0x5900), (k.T_BF16, 0x40C0)]
)  # fmt: skip
def test_six_in_every_format(half: int, word: int) -> None:
    six = np.full(4, 6.0, np.float32)
    found = compute("fs2h", "ds", six, dtype=np.uint16, half=half)
    assert found.tolist() == [word] * 4
    assert compute("fh2s", "ds", found, dtype=np.float32, half=half).tolist() == [6.0] * 4


def test_integers_wrap() -> None:
    a = RANDOM.integers(0, 1 << 16, 300, dtype=np.uint16)
    b = RANDOM.integers(0, 1 << 16, 300, dtype=np.uint16)
    assert compute("add16", "dss", a, b, dtype=np.uint16).tolist() == (a + b).tolist()
    assert compute("sub16", "dss", a, b, dtype=np.uint16).tolist() == (a - b).tolist()
    assert compute("xor16", "dss", a, b, dtype=np.uint16).tolist() == (a ^ b).tolist()
    counts = [bin(value).count("1") for value in a.tolist()]
    assert compute("popcnt", "ds", a, dtype=np.uint16).tolist() == counts


def test_conversions_truncate() -> None:
    a = np.array([1.9, -1.9, 40000.0, -40000.0, np.nan, 0.0], np.float32)
    assert compute("fs2xp16", "ds", a, dtype=np.int16).tolist() == [1, -1, 32767, -32768, 0, 0]
    b = np.array([-7, 12, 32767], np.int16)
    assert compute("xp162fs", "ds", b, dtype=np.float32).tolist() == [-7.0, 12.0, 32767.0]
