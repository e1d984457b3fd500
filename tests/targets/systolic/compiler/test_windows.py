"""Cuts of an axis read what their outputs need, and are numbered by kind as they come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.targets.systolic.compiler.windows import Cut, cut_axis, distinct_columns

SMALL = st.integers(1, 5)


@given(st.integers(1, 40), SMALL, SMALL, SMALL, st.integers(0, 4), st.integers(0, 4), st.integers(1, 9))
def test_cuts_read_what_their_outputs_need(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int, step: int
) -> None:
    out = (size + before + after - (kernel - 1) * dilation - 1) // stride + 1
    if out < 1:
        return
    axis = WindowAxis(size, out, kernel, stride, dilation, before, after)
    ranges = [(start, min(out, start + step)) for start in range(0, out, step)]
    inputs = [axis.inputs(*found) for found in ranges]
    if any(first == end for first, end in inputs):
        with pytest.raises(CannotLower):
            cut_axis(axis, step)
        return
    cuts = cut_axis(axis, step)
    assert cuts.start.tolist() == [start for start, _ in ranges]
    assert cuts.first.tolist() == [first for first, _ in inputs]
    expected = [
        Cut(start, end - start, first, last - first, first - start * stride + before)
        for (start, end), (first, last) in zip(ranges, inputs, strict=True)
    ]
    kinds: dict[tuple[int, int, int], Cut] = {}
    for cut in expected:
        kinds.setdefault((cut.count, cut.length, cut.before), cut)
    assert cuts.kinds == list(kinds.values())
    numbers = {key: number for number, key in enumerate(kinds)}
    assert cuts.kind.tolist() == [numbers[cut.count, cut.length, cut.before] for cut in expected]
    assert (cuts.most, cuts.longest) == (max(c.count for c in expected), max(c.length for c in expected))


@pytest.mark.parametrize("scale", [1, 1 << 40])
def test_different_columns_are_sorted_and_found_again(scale: int) -> None:
    keys = np.random.default_rng(1).integers(0, 3, (3, 50)) * scale
    distinct, which = distinct_columns(keys)
    columns = [tuple(column) for column in distinct.T.tolist()]
    assert columns == sorted({tuple(column) for column in keys.T.tolist()})
    np.testing.assert_array_equal(distinct[:, which], keys)
