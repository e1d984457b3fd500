"""Find the arrows of a slice: from the slices that its instruction depends on, and to those that use it."""

from collections.abc import Callable, Iterable, Sequence

from npuviz.program.instruction import Dependency
from npuviz.trace.reader import TraceReader
from npuviz.ui.kit.trace_facts import runs_near
from npuviz.ui.timeline.state import Arrow, Picked

MAX_ARROWS = 96

UnitsOf = Callable[[Sequence[int]], dict[int, int]]


def arrows_of(
    reader: TraceReader, picked: Picked, units_of: UnitsOf, dependencies: Iterable[Dependency] = ()
) -> list[Arrow]:
    """Return the arrows into and out of a slice in the order of their cycles, at most MAX_ARROWS.

    units_of      returns {instruction: unit that executes it, -1 if unknown}
    dependencies  of the program; flows of the trace are added for pairs of instructions without one
    """
    mine = picked.instruction
    if mine < 0:
        return []
    kinds = {(d.source, d.sink): d.kind for d in list(dependencies)[:MAX_ARROWS]}
    arrivals: dict[tuple[int, int], int] = {}
    for cycle, source, sink in reader.flows_of(mine)[:MAX_ARROWS].tolist():
        arrivals.setdefault((source, sink), cycle)
    pairs = list(dict.fromkeys([*kinds, *arrivals]))[:MAX_ARROWS]
    others = {source if sink == mine else sink for source, sink in pairs} - {mine}
    runs = runs_near(reader, units_of(sorted(others)), picked.start)
    arrows: list[Arrow] = []
    for source, sink in pairs:
        there = runs.get(sink if source == mine else source)
        if there is None:
            continue
        arrival, kind = arrivals.get((source, sink), -1), kinds.get((source, sink), "")
        if source == mine:
            arrows.append(Arrow(picked.track, picked.end, there.track, max(arrival, there.start), sink, kind))
        else:
            arrows.append(
                Arrow(there.track, there.end, picked.track, max(arrival, picked.start), source, kind)
            )
    return sorted(arrows, key=lambda arrow: (arrow.cycle, arrow.sink_track))


def slice_of(
    reader: TraceReader, units_of: UnitsOf, instruction: int, cycle: int
) -> tuple[int, int, int] | None:
    """Return the working slice of an instruction nearest to a cycle: (track, start, end), or None."""
    found = runs_near(reader, units_of([instruction]), cycle).get(instruction)
    return None if found is None else (found.track, found.start, found.end)
