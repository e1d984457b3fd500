"""Parses texts that name a place to go to: a cycle, a time, a share of the run, an instruction, a name."""

import re
from dataclasses import dataclass

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.base.units import format_count, format_cycles_as_time
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.trace.reader import TraceReader
from npuviz.workbench.finding.fuzzy import best
from npuviz.workbench.selection import Selection
from npuviz.workbench.sessions.bookmarks import Bookmark

_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ns|us|\u00b5s|ms|s)$")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0}
MAX_CYCLE = 1 << 62
EXPECTED = "expected a cycle (182 340), a time (1.5 us), a share (40 %), #instruction or a name"


@dataclass(frozen=True, slots=True)
class Place:
    """A place to go to: a cycle, or a selection. title, detail  as shown to the user"""

    title: str
    detail: str = ""
    cycle: int | None = None
    selection: Selection | None = None


def selection_of(bookmark: Bookmark, reader: TraceReader | None) -> Selection:
    """Return the selection that a bookmark marks; without its track if the trace does not have it."""
    tracks = reader.schema.tracks if reader is not None else ()
    track = next((each for each in tracks if each.name == bookmark.track), None) if bookmark.track else None
    cycles = (bookmark.first, bookmark.last)
    if track is None:
        return Selection(cycles=cycles)
    return Selection(unit=track.unit if track.unit >= 0 else None, track=track.id, cycles=cycles)


def bookmark_of(selection: Selection, reader: TraceReader | None, cycle: int) -> Bookmark:
    """Make a bookmark of the selected cycles, or of `cycle` if the selection has none."""
    if selection.cycles is None or reader is None:
        return Bookmark(cycle, cycle)
    track = next((each for each in reader.schema.tracks if each.id == selection.track), None)
    names = reader.schema.node_names
    label = names[selection.node] if selection.node is not None and selection.node < len(names) else ""
    first, last = selection.cycles
    return Bookmark(first, last, track=track.name if track is not None else "", label=label)


def parse_cycle(text: str, frequency_hz: float, end_cycle: int | None) -> int:
    """Parse a cycle from "182,340", "1.5 us", "40 %" or "end". Raises UsageError."""
    plain = re.sub(r"[\s,_\u2009]", "", text.lower())
    if plain == "end" and end_cycle is not None:
        return end_cycle
    if plain.isascii() and plain.isdigit():
        cycle = int(plain) if len(plain) < 20 else MAX_CYCLE + 1
    elif (found := _TIME.match(plain)) and frequency_hz > 0:
        cycle = round(min(float(found[1]) * _SECONDS[found[2]] * frequency_hz, MAX_CYCLE * 2.0))
    elif plain.endswith("%") and end_cycle is not None and plain[:-1].replace(".", "", 1).isdecimal():
        cycle = round(end_cycle * min(100.0, float(plain[:-1])) / 100)
    else:
        raise UsageError(f"{echo(text)!r}: {EXPECTED}")
    if cycle > MAX_CYCLE:
        raise UsageError(f"{echo(text)!r}: cycles end at {format_count(MAX_CYCLE)}")
    return cycle


def places(
    text: str,
    description: MachineDescription | None,
    program: Program | None,
    end_cycle: int | None,
    limit: int,
) -> list[Place]:
    """Return at most `limit` places that the text may mean, best first."""
    found: list[Place] = []
    frequency = description.base_clock.frequency_hz if description else 0.0
    stripped = text.strip()
    if stripped:
        try:
            cycle = parse_cycle(stripped, frequency, end_cycle)
            when = format_cycles_as_time(cycle, frequency)
            found.append(Place(f"Go to cycle {format_count(cycle)}", when, cycle=cycle))
        except UsageError:
            pass
    number = re.match(r"(?:#|j\s+)(\d{1,18})$", stripped)
    if number and program is not None and int(number[1]) < len(program.listing):
        instruction = program.listing.describe(int(number[1]))
        picked = Selection(
            instruction=instruction.index, node=instruction.node if instruction.node >= 0 else None
        )
        found.append(Place(f"Select instruction {instruction.index}", instruction.text, selection=picked))
    pattern = stripped.removeprefix("f ")
    return [*found, *best(pattern, _named(description, program), lambda p: p.title, limit)][:limit]


def _named(description: MachineDescription | None, program: Program | None) -> list[Place]:
    """Return a place for everything that has a name: units, counters, operators, tensors."""
    found: list[Place] = []
    if description is not None:
        found += [Place(u.name, "unit", selection=Selection(unit=u.id)) for u in description.units]
        found += [
            Place(t.name, "track", selection=Selection(track=t.id, unit=t.unit if t.unit >= 0 else None))
            for t in description.tracks
            if t.kind == "counter"
        ]
    if program is not None:
        graph = program.graph
        found += [
            Place(n.name or f"{n.op_type} {n.id}", n.op_type, selection=Selection(node=n.id))
            for n in graph.nodes
        ]
        found += [
            Place(t.name, f"{t.kind} {t.dtype}", selection=Selection(tensor=t.id)) for t in graph.tensors
        ]
    return found
