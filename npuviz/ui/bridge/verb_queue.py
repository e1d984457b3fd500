"""Queue of calls that the user asked for while a verb was under way; they are made afterwards, in order."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MAX_WAITING = 1000
"""Most calls that wait; consecutive steps of one kind count as one."""


@dataclass(slots=True)
class _Waiting:
    """A waiting call. Consecutive calls of the same `kind`, unless "", become one with their summed count."""

    kind: str
    count: int
    call: Callable[[int], object]


class VerbQueue:
    """Keeps calls until the machine is free, and makes them one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def add(self, call: Callable[[int], object], kind: str = "", count: int = 1) -> None:
        """Queue a call, which will get `count` as its argument, or add the count to a last call of the same
        kind.

        Calls beyond MAX_WAITING are dropped, as when a key is held down for minutes.
        """
        last = self._waiting[-1] if self._waiting else None
        if last is not None and kind and last.kind == kind:
            last.count += count
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append(_Waiting(kind, count, call))

    def clear(self) -> None:
        """Drop all waiting calls."""
        self._waiting.clear()

    def work_off(self, is_free: Callable[[], bool]) -> None:
        """Make waiting calls in order, until one of them keeps the machine busy."""
        while self._waiting and is_free():
            first = self._waiting.popleft()
            first.call(first.count)
