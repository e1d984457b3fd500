"""Pause Python's garbage collector while many long-lived objects are made,
and leave them out of later searches."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Generator[None]:
    """Pause the garbage collector inside a `with` block:
    it would walk all the new objects again and again in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def set_aside() -> None:
    """Collect garbage once, and leave all objects that live now out of later collections.

    What an open file brings, some hundred thousand objects, stays until another one is opened: each
    later search through it takes 0.2 s, in the middle of a step. The next call looks at it again.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
