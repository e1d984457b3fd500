"""The search for garbage goes on as usual when nobody wants less of it any more."""

import gc

import pytest

from npuviz.base.kernels.seldom import seldom_collected


def test_blocks_inside_of_others_leave_it_as_they_found_it() -> None:
    before = gc.get_threshold()
    with seldom_collected():
        seldom = gc.get_threshold()
        assert seldom[0] > before[0]
        with seldom_collected():
            pass
        assert gc.get_threshold() == seldom, "kernels were compiled in the middle"
    assert gc.get_threshold() == before


def test_a_block_that_fails_leaves_it_too() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="no"), seldom_collected():
        raise ValueError("no")
    assert gc.get_threshold() == before
