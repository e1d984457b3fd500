"""Work that makes many objects and no garbage."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Generator[None]:
    """Pause the search for cycles of objects, which would walk all the new ones again and again in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def set_aside() -> None:
    """Search for cycles of objects once more, and leave all that is there now out of later searches.

    What an open file brings, some hundred thousand objects, stays until another one is opened: each
    later search through it takes 0.2 s, in the middle of a step. The next call looks at it again.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
