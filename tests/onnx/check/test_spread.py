"""The distribution of errors against counts and sums made by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.onnx.check.errors import Errors, Tolerance, float_errors
from npuviz.onnx.check.records import Deviation, float_deviation
from npuviz.onnx.check.spread import spread_of
from npuviz.sim.check_result import NUM_BINS, SMALLEST_EXPONENT, Spread, bin_name


def _spread(found: list[float], expected: list[float]) -> Spread:
    made = spread_of(np.array(found, np.float32), np.array(expected, np.float32))
    assert made is not None
    return made


def _counts(spread: Spread) -> dict[str, int]:
    return {bin_name(place): count for place, count in enumerate(spread.counts) if count}


def test_errors_are_counted_by_their_power_of_two() -> None:
    # Relative to the largest magnitude, 4: 0, 1/8, 1/8, 3/16, 1/4 and 2**-40.
    found = _spread([4.0, 1.5, -0.5, 0.75, 1.0, 2.0**-38], [4.0, 1.0, 0.0, 0.0, 2.0, 0.0])
    assert _counts(found) == {"equal": 1, f"below 2^{SMALLEST_EXPONENT}": 1, "2^-3": 3, "2^-2": 1}
    assert (found.largest, found.worst) == (0.25, 4)
    assert (found.found, found.expected) == (1.0, 2.0)
    assert found.bias == pytest.approx((0.125 - 0.125 + 0.1875 - 0.25) / 6)


def test_equal_tensors_have_no_worst_element() -> None:
    found = _spread([1.0, math.inf, math.nan, 0.0], [1.0, math.inf, math.nan, 0.0])
    assert _counts(found) == {"equal": 4}
    assert (found.worst, found.largest, found.sqnr, found.cosine) == (-1, 0.0, math.inf, 1.0)


def test_what_is_lost_is_the_worst_and_spoils_no_sum() -> None:
    found = _spread([1.0, math.nan, 2.0, math.inf], [1.0, 3.0, 2.5, 1.0])
    assert _counts(found) == {"equal": 1, "infinite or NaN": 2, "2^-3": 1}
    assert found.worst == 1
    assert found.largest == math.inf
    assert math.isfinite(found.sqnr)


def test_integers_and_texts() -> None:
    made = spread_of(np.array([1, 2, 3], np.int8), np.array([1, 2, 4], np.int64))
    assert made is not None
    assert made.worst == 2
    assert spread_of(np.array(["a"], np.object_), np.array(["a"], np.object_)) is None
    assert spread_of(np.zeros(0), np.zeros(0)) is None


@given(
    st.lists(
        st.tuples(st.floats(width=32), st.floats(width=32, allow_nan=False, allow_infinity=False)),
        min_size=1,
        max_size=40,
    )
)
def test_every_element_is_in_one_bin_and_the_ratio_is_that_of_the_sums(
    pairs: list[tuple[float, float]],
) -> None:
    a, b = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
    found = spread_of(a, b)
    assert found is not None
    assert len(found.counts) == NUM_BINS
    assert sum(found.counts) == len(pairs)
    plain = np.isfinite(a) & (np.abs(b) < 1e30)
    noise = ((a[plain].astype(np.float64) - b[plain]) ** 2).sum()
    signal = (b[plain].astype(np.float64) ** 2).sum()
    if (np.abs(b) < 1e30).all() and noise > 1e-60 and signal > 1e-60:
        assert found.sqnr == pytest.approx(10 * math.log10(signal / noise), abs=1e-6)


@pytest.mark.parametrize("odd", [None, math.nan, math.inf, 2e30])
def test_large_tensors_are_measured_by_blocks(odd: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes out of three blocks is what comes out of one, whichever block holds the worst."""
    draw = np.random.default_rng(3)
    reference = draw.standard_normal(700).astype(np.float32)
    found = reference + (draw.standard_normal(700) * 1e-3).astype(np.float32)
    found[[400, 650]] += 0.5, -0.75
    if odd is not None:
        found[500], reference[600] = odd, odd

    def measured() -> tuple[Spread, Deviation, Errors]:
        spread = spread_of(found, reference)
        assert spread is not None
        rule = Tolerance(1e-3, 1e-3)
        return spread, float_deviation(found, reference, 1e-3), float_errors(found, reference, rule, "")

    whole = measured()
    monkeypatch.setattr("npuviz.onnx.check.blocks.BLOCK", 300)
    parts = measured()
    for name in ("counts", "worst", "largest", "found", "expected"):
        assert repr(getattr(parts[0], name)) == repr(getattr(whole[0], name))
    for name in ("sqnr", "cosine", "bias"):
        assert getattr(parts[0], name) == pytest.approx(getattr(whole[0], name), rel=1e-9)
    assert parts[1] == whole[1]
    assert np.array_equal(parts[2].bad, whole[2].bad)
    assert (parts[2].absolute, parts[2].relative) == (whole[2].absolute, whole[2].relative)
