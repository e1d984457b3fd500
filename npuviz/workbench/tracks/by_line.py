"""Make tracks for each line of a program's text: what each unit did and waited for there."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import cast

import numpy as np

from npuviz.base.kernels.seldom import seldom_collected
from npuviz.program.source import HasSource
from npuviz.trace.grouped import FreshRows, GroupedTrack, series_view
from npuviz.trace.schema import Kind, TraceSchema, Track

ROOT = "Lines"
Line = tuple[int, int]
"""Number of a text, and a line of it from 1."""


class LineGrouping:
    """A `Grouping` by lines: the rows of each track, sorted out by the lines of their instructions."""

    kinds: tuple[Kind, ...] = ()
    node_names: tuple[str, ...] = ()
    node_types: tuple[str, ...] = ()

    def __init__(self, lines: Sequence[Line], line_of: np.ndarray, listing: HasSource) -> None:
        """`line_of` has the number of each instruction's line among `lines`, -1 for none (int32)."""
        self._lines = tuple(lines)
        self._line_of = line_of
        self._several = len({file for file, _ in lines}) > 1
        self._listing = listing
        self._pieces: dict[tuple[int, int], list[tuple[np.ndarray, ...]]] = {}
        self._tracks: dict[int, Track] = {}
        self._num_kinds = 0

    def begin(self, schema: TraceSchema) -> None:
        """Forget all rows; those to come are of a trace with this schema."""
        self._num_kinds = schema.num_kinds
        self._pieces.clear()
        self._tracks = {track.id: track for track in schema.tracks}
        named = (track.name.rpartition(".")[0] for track in schema.tracks if track.kind == "interval")
        groups = {group for group in named if group}
        self._group = f"{groups.pop()}." if len(groups) == 1 else ""

    def add(self, rows: FreshRows) -> None:
        """Take rows over, those of an instruction with a line."""
        is_known = (rows.instruction >= 0) & (rows.instruction < len(self._line_of))
        lines = np.where(is_known, self._line_of[np.where(is_known, rows.instruction, 0)], -1)
        order = np.argsort(lines, kind="stable")
        order = order[np.searchsorted(lines[order], 0) :]
        used, begins = np.unique(lines[order], return_index=True)
        columns = rows.start, rows.end, rows.kind, rows.node, rows.instruction
        for line, chosen in zip(used.tolist(), np.split(order, begins[1:]), strict=True):
            piece = tuple(column[chosen] for column in columns)
            self._pieces.setdefault((line, rows.track.id), []).append(piece)

    def tracks(self) -> list[GroupedTrack]:
        """Return the tracks of all lines that have begun, in the order of the text."""
        found: list[GroupedTrack] = []
        for key in sorted(self._pieces, key=lambda key: (self._lines[key[0]], key[1])):
            pieces = self._pieces[key]
            if len(pieces) > 1:
                joined = tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))
                pieces[:] = [joined]
            start, end, kind, node, instruction = pieces[0]
            track = self._tracks[key[1]]
            name = f"{ROOT}.{self._name(self._lines[key[0]])}.{track.name.removeprefix(self._group)}"
            view = series_view(start, end, kind, node, instruction, self._num_kinds)
            found.append(GroupedTrack(name, view, self._text(self._lines[key[0]]), track.unit, track.id))
        return found

    def _name(self, line: Line) -> str:
        name = f"line {line[1]}"
        stem = PurePath(self._listing.sources[line[0]].name).stem.replace(".", " ")
        return f"{stem} {name}" if self._several else name

    def _text(self, line: Line) -> str:
        lines = self._listing.sources[line[0]].text.splitlines()
        return lines[line[1] - 1].strip() if 0 < line[1] <= len(lines) else ""


@seldom_collected()
def line_grouping(listing: object) -> LineGrouping | None:
    """Make the grouping by lines of a program; None if its instructions come from no text."""
    if not isinstance(listing, HasSource):
        return None
    count = len(cast(Sequence[object], listing))
    numbers: dict[Line, int] = {}
    line_of = np.full(count, -1, dtype=np.int32)
    for index in range(count):
        place = listing.place_of(index)
        if place is not None:
            line_of[index] = numbers.setdefault((place.file, place.line), len(numbers))
    return LineGrouping(tuple(numbers), line_of, listing) if numbers else None
