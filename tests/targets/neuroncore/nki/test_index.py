# Index tensors and masks against numpy: an index is the array of its values.
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Index, arange


def _values(index: Index) -> np.ndarray:
    found = np.full(index.shape, index.const)
    for dim, step in enumerate(index.steps):
        shape = [1] * index.ndim
        shape[dim] = index.shape[dim]
        found = found + step * np.arange(index.shape[dim]).reshape(shape)
    return found


@given(st.integers(1, 9), st.integers(1, 9), st.integers(-5, 5), st.integers(-5, 5), st.integers(-9, 9))
def test_arithmetic_is_numpys(rows: int, columns: int, a: int, b: int, shift: int) -> None:
    made = a * arange(rows)[:, None] + b * arange(columns)[None, :] - shift
    expected = a * np.arange(rows)[:, None] + b * np.arange(columns)[None, :] - shift
    assert (_values(made) == expected).all()
    assert made.bounds() == (expected.min(), expected.max())
    assert (_values(7 - made) == 7 - expected).all()


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 9), st.integers(0, 9), st.integers(1, 12))
def test_division_is_numpys_where_the_result_is_affine(
    rows: int, columns: int, a: int, b: int, divisor: int
) -> None:
    made = a * arange(rows)[:, None] + b * arange(columns)[None, :] + 5
    expected = a * np.arange(rows)[:, None] + b * np.arange(columns)[None, :] + 5
    try:
        quotient, rest = made // divisor, made % divisor
    except KernelError:
        assert 5 % divisor + a % divisor * (rows - 1) + b % divisor * (columns - 1) >= divisor
        return
    assert (_values(quotient) == expected // divisor).all()
    assert (_values(rest) == expected % divisor).all()


def test_an_index_that_stays_within_a_row_has_one_row() -> None:
    flat = 2048 * arange(4)[:, None] + arange(2048)[None, :]
    assert (_values(flat // 2048) == np.arange(4)[:, None] + 0 * np.arange(2048)).all()
    assert (_values(flat % 2048) == np.arange(2048) + 0 * np.arange(4)[:, None]).all()
    assert _values(arange(2048)[None, :] // 2048).max() == 0


@given(st.integers(1, 40), st.integers(1, 40), st.integers(-3, 45), st.integers(-3, 45))
def test_a_mask_leaves_the_box_where_all_conditions_hold(p: int, f: int, first: int, second: int) -> None:
    rows, columns = arange(p)[:, None], arange(f)[None, :]
    box = ((rows < first) & (columns >= second)).box((p, f))
    inside = np.zeros((p, f), np.bool_)
    inside[box[0][0] : box[0][1], box[1][0] : box[1][1]] = True
    expected = (np.arange(p)[:, None] < first) & (np.arange(f)[None, :] >= second)
    assert (inside == expected).all()


def test_what_is_no_box_or_not_affine_is_refused() -> None:
    rows, columns = arange(8)[:, None], arange(8)[None, :]
    for wrong in (
        lambda: (rows < columns).box((8, 8)),
        lambda: (columns != 3).box((8, 8)),
        lambda: columns // 3,
        lambda: columns % 3,
        lambda: rows * 0.5,
        lambda: bool(rows < 3),
        lambda: (rows < 3) | (columns < 3),
        lambda: (rows < 3) ^ True,
        lambda: ~(rows < 3),
    ):
        with pytest.raises(KernelError):
            wrong()
