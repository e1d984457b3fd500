"""Sort hierarchical names such as `Core[0].PE` as people expect, and shorten names and texts for display."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from unicodedata import category

_DIGITS = re.compile(r"(\d+)")
FILLERS = frozenset(("a", "an", "the", "its"))
"""Words that an abbreviation leaves out."""
SHORT_WORD = 4
"""Words up to this many letters are not cut."""
ELLIPSIS = "\u2026"
_PART = re.compile(r"\w*[A-Za-z_]\w*(?:[.:-]\w+)*|\d+")
"""A part of a path: a word, with numbers or words behind dots, or a number."""


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts `Core[2]` before `Core[10]`."""
    return tuple(_part_key(part) for part in _DIGITS.split(name) if part)


def _part_key(part: str) -> tuple[int, int, str]:
    # Not int(), which refuses thousands of digits.
    digits = part.lstrip("0")
    return (0, len(digits), digits) if part.isdecimal() else (1, 0, part)


def is_number(text: str, digits: int = 18) -> bool:
    """Whether a text is a whole decimal number that int() takes:
    only ASCII digits, at most `digits` of them."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def named(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is `name`, or the only one that ends in it behind a dot, else None.

    `PE` stands for `Core[0].PE` as long as there is one core.
    """
    ending: list[str] = []
    for each in known:
        if each == name:
            return each
        if each.endswith(f".{name}"):
            ending.append(each)
    return ending[0] if len(ending) == 1 else None


def printable(path: str | os.PathLike[str]) -> str:
    """Return a path as text that any file and terminal takes: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def resolved(path: Path) -> Path | None:
    """Follow all links of a path; return None if it cannot be the path of a file or its
    links form a circle."""
    try:
        found = path.resolve()
        found.exists()
    except (OSError, ValueError, RuntimeError):
        return None
    return found


def is_named_file(path: Path) -> bool:
    """Whether a path found in data is that of a file; False, too, if it cannot be the path of any file."""
    return os.path.isfile(path)


def echo(text: str, length: int = 80) -> str:
    """Return foreign text as an error may quote it:
    at most `length` characters, control characters escaped."""
    shown = elide_middle(text, length)
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() or category(c) == "Zs" else repr(c)[1:-1] for c in shown)
    return elide_middle(shown, length)


def elide_middle(text: str, length: int) -> str:
    """Shorten `text` to at most `length` characters, keeping both ends."""
    if len(text) <= length:
        return text
    if length <= 1:
        return text[:length]
    head = (length - 1 + 1) // 2
    tail = length - 1 - head
    return text[:head] + "\u2026" + (text[-tail:] if tail else "")


def elide_end(text: str, length: int) -> str:
    """Shorten `text` to at most `length` characters, keeping its beginning."""
    return text if len(text) <= length else text[: max(length - 1, 0)].rstrip() + "\u2026"[:length]


def abbreviations(text: str) -> list[str]:
    """Return shorter forms of a reason to wait that keep its meaning, longest first; [] for any other text.

    "waits for a semaphore" becomes "waits: semaphore", "waits: sem" and "sem".
    """
    found = re.fullmatch(r"wait(?:s|ing)? (?:for|on) (.+)", text)
    if found is None:
        return []
    words = [word for word in found.group(1).split() if word not in FILLERS]
    short = " ".join(word if len(word) <= SHORT_WORD else word[:3] for word in words)
    return [f"waits: {' '.join(words)}", f"waits: {short}", short]


def path_ends(text: str) -> list[str]:
    """Return shorter forms of a name that is a path, its last parts, longest first; [] for any other text.

    "/encoder/layers.0/attn/MatMul" becomes "…/layers.0/attn/MatMul", "…/attn/MatMul" and "…/MatMul":
    the names of one model share their beginnings. Text before the last space stays.
    """
    head, path = text[: -len(text.split(" ")[-1])], text.split(" ")[-1]
    separator = next((each for each in "/." if path.count(each) >= 2), "")
    parts = path.strip(separator).split(separator) if separator else []
    if not all(_PART.fullmatch(part) for part in parts) or not parts or parts[-1].isdecimal():
        return []
    mark = ELLIPSIS if separator == "." else ELLIPSIS + separator
    places = (place for place in range(1, len(parts)) if not parts[place].isdecimal())
    return [head + mark + separator.join(parts[place:]) for place in places]


def fitting(text: str, fits: Callable[[str], bool], fewest: int = 1) -> str:
    """Return the longest form of a text that `fits` accepts:
    whole, abbreviated by rule, or elided at its end.

    fewest  letters that must be left beside the ellipsis; with fewer the text vanishes
    """
    if fits(text):
        return text
    shorter = abbreviations(text)
    if shorter:
        return next((each for each in shorter if fits(each)), "")
    shorter = path_ends(text)
    found = next((each for each in shorter if fits(each)), None)
    if found is not None:
        return found
    if shorter and " " not in text:
        text = shorter[-1].lstrip(ELLIPSIS + "/")
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[:middle].rstrip() + ELLIPSIS):
            low = middle
        else:
            high = middle - 1
    shown = text[:low].rstrip()
    return shown + ELLIPSIS if len(shown) >= fewest else ""
