"""Matches patterns fuzzily: letters in order, with gaps; hits at beginnings of words count more."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")

_START = 12
_AFTER_BREAK = 8
_ADJACENT = 6
_PLAIN = 1
_BREAKS = " ._-[]/:()"


def score(pattern: str, text: str) -> int | None:
    """Rate how well `pattern` fits `text`: larger is better, None if not at all; "" fits everything with
    0."""
    if not pattern:
        return 0
    wanted = pattern.lower().replace(" ", "")
    low = text.lower()
    direct = low.find(pattern.lower())
    total = 0
    if direct >= 0:
        # A contiguous hit beats any scattered one.
        total = 40 + (_START if direct == 0 else _AFTER_BREAK if low[direct - 1] in _BREAKS else 0)
        return total + len(wanted) * _ADJACENT - len(low) // 8
    position = 0
    previous = -2
    for letter in wanted:
        found = low.find(letter, position)
        if found < 0:
            return None
        if found == 0:
            total += _START
        elif low[found - 1] in _BREAKS or (text[found].isupper() and text[found - 1].islower()):
            total += _AFTER_BREAK
        elif found == previous + 1:
            total += _ADJACENT
        else:
            total += _PLAIN
        previous = found
        position = found + 1
    return total - len(low) // 8


def best(pattern: str, items: Iterable[Item], text: Callable[[Item], str], limit: int) -> list[Item]:
    """Return at most `limit` items whose text fits the pattern, best first, equals in their given order."""
    scored = [(value, item) for item in items if (value := score(pattern, text(item))) is not None]
    if pattern:
        scored.sort(key=lambda pair: -pair[0])
    return [item for _, item in scored[:limit]]
