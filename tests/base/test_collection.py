"""Garbage is still found, and what stays is left out of later searches."""

import gc
import weakref

from npuviz.base.collection import set_aside


class Cycle:
    """An object that only a search for cycles can free."""

    def __init__(self) -> None:
        self.me = self


def test_what_is_there_is_left_out_until_the_next_call() -> None:
    gc.unfreeze()  # what an earlier test set aside and dropped would be counted
    kept = Cycle()
    lost = weakref.ref(kept)
    try:
        set_aside()
        assert gc.get_freeze_count() > 0
        del kept
        gc.collect()
        assert lost() is not None, "it is not looked at"
        set_aside()
        assert lost() is None, "the next call looks at it again"
    finally:
        gc.unfreeze()
