"""Hold back requests to helpers for a short time, so that what the user waits for gets the processors.

The start of a helper alone takes a processor for a second, as long as the first picture of a small program.
"""

import threading
import time
from collections.abc import Callable, Hashable

MOST_SECONDS = 3.0
"""Seconds after its first request at which a lull ends in any case: longer work is better compiled."""


class Lull:
    """Keeps requests, each once, from `begin` until `end`, which makes them. Methods may be called from any
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_on = False
        self._since = 0.0
        self._kept: dict[tuple[str, Hashable], Callable[[], object]] = {}

    def begin(self) -> None:
        """Keep requests from now on."""
        with self._lock:
            self._is_on = True

    def end(self) -> None:
        """Make the requests that were kept."""
        with self._lock:
            self._is_on = False
            kept = list(self._kept.values())
            self._kept.clear()
        for request in kept:
            request()

    def keeps(self, group: str, name: Hashable, request: Callable[[], object]) -> bool:
        """Return True if the request is kept until the lull ends; if False, the caller makes it now."""
        with self._lock:
            if not self._is_on:
                return False
            now = time.monotonic()
            if not self._kept:
                self._since = now
            if now - self._since < MOST_SECONDS:
                self._kept.setdefault((group, name), request)
                return True
        self.end()
        return False

    def has(self, group: str) -> bool:
        """Whether a request for a group is kept."""
        with self._lock:
            return any(name == group for name, _ in self._kept)


LULL = Lull()
"""The one lull of this program."""
