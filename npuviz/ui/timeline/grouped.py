"""The tracks by line or by loop that a timeline shows above those of the units."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from npuviz.program.loops import HasTurns
from npuviz.program.source import HasCalls
from npuviz.trace.grouped import GroupedSource
from npuviz.trace.reader import TraceReader
from npuviz.ui.timeline.rows import RowOptions
from npuviz.ui.timeline.state import Picked
from npuviz.workbench.selection import Selection, selected
from npuviz.workbench.tracks.by_line import LineGrouping, line_grouping
from npuviz.workbench.tracks.by_loop import LoopGrouping, loop_grouping

By = Literal["", "line", "loop"]
MAX_LANES = 4
"""With more tracks of overlapping turns than this, a loop's group begins folded."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a loop in the trace: text, cycles, its instructions, rising, and the `first` that began."""

    text: str
    first: int
    start: int
    end: int
    instructions: np.ndarray


def can_group(listing: object) -> bool:
    """Return whether a program knows lines and loops of its instructions."""
    return isinstance(listing, HasCalls | HasTurns)


class Groups:
    """Holds the grouping in use and the reader that has its tracks."""

    def __init__(self) -> None:
        self._source: GroupedSource | None = None
        self._known: dict[By, LoopGrouping | LineGrouping | None] = {}
        self._listing: object = None

    def choose(self, by: By, recorded: TraceReader, listing: object) -> TraceReader:
        """Return the reader to show: with tracks by line or loop, or the one of the recorded trace."""
        if listing is not self._listing:
            self._listing = listing
            self._known.clear()
        if by and by not in self._known:
            self._known[by] = line_grouping(listing) if by == "line" else loop_grouping(listing)
        grouping = self._known.get(by) if by else None
        self._source = GroupedSource(recorded.source, grouping) if grouping is not None else None
        if self._source is None:
            return recorded
        self._source.update()
        return TraceReader(self._source)

    def update(self, is_final: bool) -> bool:
        """Bring the tracks up to date; return whether they changed."""
        return self._source is not None and self._source.update(is_final)

    def arranged(self, options: RowOptions, leading: frozenset[int]) -> RowOptions:
        """Return row options with the made tracks before all others; loops of many tracks begin folded."""
        source, folded = self._source, frozenset[str]()
        if source is not None:
            made = source.schema.tracks[source.num_recorded :]
            leading |= {track.id for track in made}
            if isinstance(source.grouping, LoopGrouping):
                folded = source.grouping.crowded(MAX_LANES, [track.name for track in made])
        if (leading, folded) == (options.leading, options.folded):
            return options
        return replace(options, leading=leading, folded=folded)

    def turn_of(self, picked: Picked) -> Turn | None:
        """Return the turn that a slice stands for, None if it stands for work."""
        source = self._source
        if source is None or not isinstance(source.grouping, LoopGrouping):
            return None
        number = source.grouping.turn_of_node(picked.node)
        if number < 0:
            return None
        turns = source.grouping.turns
        variable = turns.loops[int(turns.loop[number])].variable
        text = f"{variable}: iteration {source.grouping.node_names[number]}"
        instructions = turns.instructions_of(number)
        return Turn(text, self._first_of(instructions, picked.start), picked.start, picked.end, instructions)

    def _first_of(self, instructions: np.ndarray, cycle: int) -> int:
        """Return one of some instructions whose work begins at a cycle."""
        assert self._source is not None
        base = self._source.base
        for track in base.schema.tracks:
            view = base.interval_view(track.id) if track.kind == "interval" else None
            if view is None:
                continue
            rows = np.arange(*np.searchsorted(view.start, np.array([cycle, cycle + 1])), dtype=np.int64)
            found = view.details(rows)[1]
            found = found[np.isin(found, instructions)]
            if len(found):
                return int(found[0])
        return int(instructions[0])

    def selection_of(self, picked: Picked, unit: int) -> Selection:
        """Return the selection of a slice, with numbers of the recorded trace only."""
        turn = self.turn_of(picked)
        cycles = picked.start, picked.end
        if turn is not None:
            return Selection(instruction=turn.first, cycles=cycles)
        track = self._source.origin_of(picked.track) if self._source is not None else picked.track
        return selected(
            node=picked.node, instruction=picked.instruction, unit=unit, track=track, cycles=cycles
        )
