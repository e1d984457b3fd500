"""Less search for cycles of objects while millions are made that stay."""

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_SELDOM = (100_000, 10, 10)
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []
"""What to return to: an entry for each block that asked for less, of any thread."""


@contextmanager
def seldom_collected() -> Generator[None]:
    """Search for cycles of objects less often: what compiles makes millions, most of which live until it is
    done. Blocks may be inside of others and beside others in other threads."""
    with _lock:
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        with _lock:
            before = _usual.pop()
            if not _usual:
                gc.set_threshold(*before)
