"""Bookmarks: marked cycles and ranges of cycles of a run, with notes."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from npuviz.base.notifier import Notifier

MAX_BOOKMARKS = 1000
MAX_NOTE = 2000
MAX_NAME = 200
MAX_CYCLE = 1 << 62


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Cycles [first, last) of a run; first == last marks one cycle.

    note   text of the user
    track  name of the track of a marked slice, "" for the whole run; label  describes the slice
    digit  key 0..9 that goes to it, -1 for none
    """

    first: int
    last: int
    note: str = ""
    track: str = ""
    label: str = ""
    digit: int = -1

    @property
    def is_range(self) -> bool:
        """Whether it marks more than one cycle."""
        return self.last > self.first

    @property
    def place(self) -> tuple[int, int, str]:
        """Identity of the bookmark: a list holds at most one with the same place."""
        return self.first, self.last, self.track


class BookmarkList:
    """The bookmarks of the opened run, in order of cycle.

    changed  notifies when a bookmark was added, removed or changed
    """

    def __init__(self) -> None:
        self._all: tuple[Bookmark, ...] = ()
        self.changed: Notifier[()] = Notifier()

    @property
    def all(self) -> tuple[Bookmark, ...]:
        """Every bookmark, earliest first."""
        return self._all

    def add(self, bookmark: Bookmark) -> None:
        """Add a bookmark. It replaces those with the same place or digit, and inherits the note of the same
        place."""
        there = next((each for each in self._all if each.place == bookmark.place), None)
        if there is not None and there.note and not bookmark.note:
            bookmark = replace(bookmark, note=there.note)
        kept = [
            each
            for each in self._all
            if each.place != bookmark.place and (bookmark.digit < 0 or each.digit != bookmark.digit)
        ]
        self.replace_all([*kept, bookmark])

    def remove(self, bookmark: Bookmark) -> None:
        """Remove a bookmark; unknown ones are ignored."""
        self.replace_all(each for each in self._all if each != bookmark)

    def write(self, bookmark: Bookmark, note: str) -> None:
        """Change the note of a bookmark."""
        changed = replace(bookmark, note=note.strip()[:MAX_NOTE])
        self.replace_all(changed if each == bookmark else each for each in self._all)

    def replace_all(self, bookmarks: Iterable[Bookmark]) -> None:
        """Replace the list by these bookmarks, the first MAX_BOOKMARKS of them."""
        ordered = tuple(sorted(bookmarks, key=lambda each: (each.first, each.last, each.track)))
        if ordered[:MAX_BOOKMARKS] != self._all:
            self._all = ordered[:MAX_BOOKMARKS]
            self.changed.notify()


def stored(bookmarks: Iterable[Bookmark]) -> list[dict[str, Any]]:
    """Return bookmarks as plain values for JSON."""
    return [asdict(each) for each in bookmarks]


def read_bookmarks(kept: object) -> list[Bookmark]:
    """Read bookmarks from plain values of an untrusted file; invalid entries are left out."""
    found: list[Bookmark] = []
    for entry in cast(list[object], kept)[:MAX_BOOKMARKS] if isinstance(kept, list) else []:
        bookmark = _read(cast(dict[str, object], entry)) if isinstance(entry, dict) else None
        if bookmark is not None:
            found.append(bookmark)
    return found


def _read(entry: dict[str, object]) -> Bookmark | None:
    first, last, digit = entry.get("first"), entry.get("last"), entry.get("digit", -1)
    texts = [entry.get(name, "") for name in ("note", "track", "label")]
    if not (_is_cycle(first) and _is_cycle(last)) or not all(isinstance(text, str) for text in texts):
        return None
    begin, end = cast(int, first), cast(int, last)
    if end < begin or not isinstance(digit, int) or isinstance(digit, bool) or not -1 <= digit <= 9:
        return None
    note, track, label = (str(text) for text in texts)
    return Bookmark(begin, end, note[:MAX_NOTE], track[:MAX_NAME], label[:MAX_NAME], digit)


def _is_cycle(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_CYCLE
