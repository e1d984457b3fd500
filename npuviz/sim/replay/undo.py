"""Keep the last steps so that they can be undone one by one."""

from collections import deque
from collections.abc import Callable

from npuviz.sim.replay.contents import Place, Undo, is_within

_STEP_BYTES = 256


def _nothing() -> None:
    return None


class UndoLog:
    """The last steps, newest last, limited by bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._steps: deque[tuple[Place, Callable[[], None], int]] = deque()
        self._bytes = 0

    def clear(self) -> None:
        """Forget all steps."""
        self._steps.clear()
        self._bytes = 0

    def note(self, before: Place, undo: Undo | None) -> None:
        """Add a step that was taken at a place."""
        back, size = (_nothing, 0) if undo is None else (undo.back, undo.num_bytes)
        self._steps.append((before, back, size + _STEP_BYTES))
        self._bytes += size + _STEP_BYTES
        while self._bytes > self._limit and self._steps:
            self._bytes -= self._steps.popleft()[2]

    def reaches(self, place: Place) -> bool:
        """Whether `back` can go to this place, or to one before it."""
        return bool(self._steps) and is_within(self._steps[0][0], place)

    def back(self) -> Place:
        """Undo the newest step; return the place of the contents after that."""
        before, back, size = self._steps.pop()
        self._bytes -= size
        back()
        return before
