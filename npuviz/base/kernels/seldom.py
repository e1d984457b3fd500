"""Run the garbage collector less often while a compiler makes millions of objects that stay."""

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_SELDOM = (100_000, 10, 10)
_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []
"""The thresholds to return to, once for each block that is active in any thread."""


@contextmanager
def seldom_collected() -> Generator[None]:
    """Run the garbage collector less often inside a `with` block: a compiler makes millions of objects, most
    of which live until it is done. Blocks may be nested and may run in several threads."""
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
