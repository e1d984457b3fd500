import math

import numpy as np
import pytest

from npuviz.targets.wavelet.csl.comptime import floats
from npuviz.targets.wavelet.csl.comptime import types as t


@pytest.mark.parametrize(("kind", "bits"), [(t.F16, 0x4600), (t.CB16, 0x5900), (t.BF16, 0x40C0)])
def test_six_in_the_16_bit_formats(kind: t.Type, bits: int) -> None:
    assert floats.to_bits(kind, 6.0) == bits
    assert floats.from_bits(kind, bits) == 6.0


@pytest.mark.parametrize(("kind", "dtype"), [(t.F16, np.float16), (t.F32, np.float32)])
def test_rounding_is_numpy_s(kind: t.Type, dtype: type[np.floating]) -> None:
    values = np.random.default_rng(3).standard_normal(2000) * 10.0 ** np.arange(-10, 10).repeat(100)
    values = values[abs(values) < 6e4]
    assert [floats.round_to(kind, float(value)) for value in values] == values.astype(dtype).tolist()


def test_overflow_is_infinite() -> None:
    for kind in (t.F16, t.F32, t.BF16, t.CB16):
        assert floats.round_to(kind, 1e300) == math.inf
        assert floats.round_to(kind, -1e300) == -math.inf


@pytest.mark.parametrize("kind", [t.BF16, t.CB16])
def test_all_bit_patterns_survive(kind: t.Type) -> None:
    for bits in range(0, 1 << 16, 7):
        value = floats.from_bits(kind, bits)
        if math.isnan(value):
            assert math.isnan(floats.round_to(kind, value))
        else:
            assert floats.to_bits(kind, value) == bits


@pytest.mark.parametrize("kind", [t.BF16, t.CB16])
def test_ties_go_to_the_even_pattern(kind: t.Type) -> None:
    low, high = floats.from_bits(kind, 0x4001), floats.from_bits(kind, 0x4002)
    assert floats.to_bits(kind, (low + high) / 2) == 0x4002
    low, high = floats.from_bits(kind, 0x4002), floats.from_bits(kind, 0x4003)
    assert floats.to_bits(kind, (low + high) / 2) == 0x4002
