"""What the user asked for while a verb was under way: done afterwards, in order."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MAX_WAITING = 1000
"""Verbs that wait at most; steps of one kind that follow each other count as one."""


@dataclass(slots=True)
class _Waiting:
    """A call that waits. Calls with the same `kind`, unless "", are added up to one with a larger count."""

    kind: str
    count: int
    call: Callable[[int], object]


class VerbQueue:
    """Keeps calls until the machine is free, and does them one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()

    def add(self, call: Callable[[int], object], kind: str = "", count: int = 1) -> None:
        """Keep a call, which gets its count, or add to the last one of the same kind.

        Nothing is kept beyond MAX_WAITING: a key that is held down for minutes.
        """
        last = self._waiting[-1] if self._waiting else None
        if last is not None and kind and last.kind == kind:
            last.count += count
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append(_Waiting(kind, count, call))

    def clear(self) -> None:
        """Forget all of them."""
        self._waiting.clear()

    def work_off(self, is_free: Callable[[], bool]) -> None:
        """Do what waits until one of them keeps the machine busy."""
        while self._waiting and is_free():
            first = self._waiting.popleft()
            first.call(first.count)
