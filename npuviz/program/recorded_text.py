"""Keep lines, loops and turns of a program's text as plain values, and read them without the program."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.program.loops import TextLoop, Turns, turns_of
from npuviz.program.source import Entry, HasCalls, HasSource, Place, SourceFile

_TURNS = ("loop", "outer", "turn", "count", "value")
_SOURCE = {"name": str, "text": str, "path": str, "language": str, "library": bool}
_HINT = "the bundle is damaged: record it again"


def plain_text(listing: object) -> dict[str, Any] | None:
    """Return texts, lines and loops of a listing as plain values and arrays, None if it does not know them.

    places  [text, line] of each line with instructions;  line  (instructions,) the place of each, -1: none
    loops   [variable, text, line, outer] of each loop;   innermost  (instructions,) turn of each, -1: none
    turns   columns of `Turns`, one value for each turn
    """
    if not isinstance(listing, HasSource) or not isinstance(listing, HasCalls):
        return None
    numbers: dict[tuple[int, int], int] = {}
    count = len(cast(Sequence[object], listing))
    lines = np.full(count, -1, dtype=np.int32)
    for index in range(count):
        place = listing.place_of(index)
        if place is not None:
            lines[index] = numbers.setdefault((place.file, place.line), len(numbers))
    turns = turns_of(listing)
    found: dict[str, Any] = {
        "sources": [asdict(source) for source in listing.sources],
        "places": [list(place) for place in numbers],
        "line": lines,
    }
    if turns is not None:
        loops = [[loop.variable, loop.place.file, loop.place.line, loop.outer] for loop in turns.loops]
        columns = {name: np.ascontiguousarray(getattr(turns, name)) for name in _TURNS}
        found |= {"loops": loops, "turns": columns, "innermost": turns.innermost}
    return found


class RecordedText:
    """A listing of a recorded run that knows the texts, lines and loops of its instructions, nothing else."""

    def __init__(
        self,
        sources: Sequence[SourceFile],
        places: Sequence[Place],
        line_of: np.ndarray,
        turns: Turns | None,
    ) -> None:
        """`line_of` has the number of each instruction's place among `places`, -1 for none (int64)."""
        self._sources = tuple(sources)
        self._places = tuple(places)
        self._line_of = line_of
        self._turns = turns

    def __len__(self) -> int:
        return len(self._line_of)

    def turns(self) -> Turns | None:
        """Return the loops and turns, None if there are none."""
        return self._turns

    @property
    def sources(self) -> Sequence[SourceFile]:
        """The texts that the program came from."""
        return self._sources

    @property
    def entries(self) -> Sequence[Entry]:
        """No functions: they are not recorded."""
        return ()

    def place_of(self, index: int) -> Place | None:
        """Return the place of an instruction, or None. Raises IndexError outside the listing."""
        if not 0 <= index < len(self):
            raise IndexError(f"instruction {index} of {len(self)}")
        place = int(self._line_of[index])
        return self._places[place] if place >= 0 else None

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a line, rising."""
        numbers = [n for n, place in enumerate(self._places) if (place.file, place.line) == (file, line)]
        mine = np.isin(self._line_of, np.array(numbers, dtype=np.int64)).astype(np.int8)
        edges = np.diff(mine, prepend=0, append=0)
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def lines_with_code(self, file: int) -> Sequence[int]:
        """Return the lines of a file that have instructions, rising."""
        return sorted({place.line for place in self._places if place.file == file})


def recorded_text(file: str, plain: Mapping[str, Any]) -> RecordedText:
    """Read what `plain_text` returned, from `file`. Raises FormatError for anything else."""
    reader = _Reader(file)
    listed = reader.rows("sources", plain.get("sources"), dict)
    sources: list[SourceFile] = []
    for each in listed:
        reader.demand("sources", all(type(each.get(key)) is kind for key, kind in _SOURCE.items()), "texts")
        sources.append(SourceFile(**{key: each[key] for key in _SOURCE}))
    places: list[Place] = []
    for row in reader.rows("places", plain.get("places"), list):
        reader.demand("places", len(row) == 2, "pairs")
        places.append(reader.place("places", row[0], row[1], len(sources)))
    lines = reader.column("line", plain.get("line"), (-1, len(places) - 1))
    turns = _read_turns(reader, plain, len(sources)) if "turns" in plain else None
    if turns is not None:
        reader.demand("innermost", len(turns.innermost) == len(lines), "one for each line")
    return RecordedText(sources, places, lines, turns)


def _read_turns(reader: "_Reader", plain: Mapping[str, Any], num_sources: int) -> Turns:
    loops: list[TextLoop] = []
    for row in reader.rows("loops", plain.get("loops"), list):
        reader.demand("loops", len(row) == 4 and isinstance(row[0], str), "variable, text, line, outer")
        variable, text, line, outer = row
        place = reader.place("loops", text, line, num_sources)
        reader.demand("loops", type(outer) is int and -1 <= outer < len(loops), "outer loops first")
        loops.append(TextLoop(variable, place, outer, loops[outer].depth + 1 if outer >= 0 else 0))
    columns = plain["turns"]
    reader.demand("turns", isinstance(columns, dict) and bool(loops), "columns, of some loops")
    large = 1 << 62
    loop = reader.column("turns.loop", columns.get("loop"), (0, len(loops) - 1))
    outer = reader.column("turns.outer", columns.get("outer"), (-1, len(loop) - 1))
    numbers = [reader.column(f"turns.{name}", columns.get(name), (-large, large)) for name in _TURNS[2:]]
    same = all(len(column) == len(loop) for column in (outer, *numbers)) and len(loop) > 0
    reader.demand("turns", same, "columns of one length")
    reader.demand("turns.outer", bool((outer < np.arange(len(outer))).all()), "outer turns first")
    around = np.array([each.outer for each in loops])[loop]
    right = np.where(outer >= 0, loop[outer], -1) == around
    reader.demand("turns.outer", bool(right.all()), "turns of the loops around")
    innermost = reader.column("innermost", plain.get("innermost"), (-1, len(loop) - 1))
    narrow = loop.astype(np.int32), outer.astype(np.int32)
    turn, count, value = numbers
    return Turns(tuple(loops), *narrow, turn, count, value, innermost.astype(np.int32))


class _Reader:
    """Checks values of a file. All methods raise FormatError."""

    def __init__(self, file: str) -> None:
        self._file = file

    def demand(self, field: str, is_right: bool, expected: str) -> None:
        """Refuse a field that is not right."""
        if not is_right:
            raise FormatError(self._file, field=field, expected=expected, hint=_HINT)

    def rows(self, field: str, found: Any, kind: type) -> list[Any]:
        """Return a list of values of one kind."""
        is_right = isinstance(found, list) and all(isinstance(row, kind) for row in found)
        self.demand(field, is_right, "a list")
        return found

    def place(self, field: str, text: Any, line: Any, num_sources: int) -> Place:
        """Return a place in one of the texts."""
        is_right = type(text) is int and type(line) is int and 0 <= text < num_sources and 0 < line < 1 << 31
        self.demand(field, is_right, "lines of the texts")
        return Place(text, line)

    def column(self, field: str, found: Any, limits: tuple[int, int]) -> np.ndarray:
        """Return whole numbers within limits, as int64."""
        low, high = limits
        rows = self.rows(field, found, int)
        is_right = all(type(row) is int and low <= row <= high for row in rows)
        self.demand(field, is_right, f"whole numbers from {low} to {high}")
        return np.array(rows, dtype=np.int64)
