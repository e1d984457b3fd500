"""Hierarchical names such as `Core[0].PE`, and the order in which people expect them."""

import os
import re

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that puts `Core[2]` before `Core[10]`."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(name) if part)


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text that any file and terminal takes: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def elide_middle(text: str, length: int) -> str:
    """Shorten `text` to at most `length` characters, keeping both ends."""
    if len(text) <= length:
        return text
    if length <= 1:
        return text[:length]
    head = (length - 1 + 1) // 2
    tail = length - 1 - head
    return text[:head] + "\u2026" + (text[-tail:] if tail else "")
