"""Explain from a recorded trace why a unit stood still: at a cycle, and summed up over a span."""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.trace.causes.graph import graph_of
from npuviz.trace.causes.waits import UNKNOWN, Hop, standstill_at, standstills, why_standing
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import Kind, TraceSchema
from npuviz.trace.unit_times import tracks_of_units

NOTHING_LEFT = "nothing to do any more"
IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of a chain of causes: what a unit did over [start, end); end is -1 if it still does it.

    unit      -1 if it was done on a track of no unit
    recorded  the trace records it as the cause of the link before, which lost these cycles to it
    """

    unit: int
    start: int
    end: int
    what: str
    role: str
    instruction: int = -1
    detail: str = ""
    track: int = -1
    recorded: bool = False

    @property
    def is_wait(self) -> bool:
        """Whether the unit waited, so that the chain goes on."""
        return self.role.startswith("wait")

    @property
    def cycles(self) -> int:
        """Number of cycles it took, -1 while it goes on."""
        return self.end - self.start if self.end >= 0 else -1


@dataclass(frozen=True, slots=True)
class Loss:
    """One cause of lost cycles of a unit over a span:
    the cycles, how often it occurred, and its longest link."""

    cycles: int
    count: int
    longest: Cause


def has_causes(trace: TraceReader) -> bool:
    """Whether the machine recorded any causes."""
    return len(trace.causes) > 0


def recorded_why(trace: TraceReader, unit: int, cycle: int) -> list[Cause]:
    """Return the standstill of a unit that contains a cycle, then what its cycles were lost to, newest first.

    The cycles of the other links sum to those of the first. [] if the unit works in that cycle, does
    nothing more, or has no recorded causes.
    """
    span = standstill_at(trace, unit, cycle) if has_causes(trace) else None
    if span is None or span.track < 0:
        return []
    kinds = {kind.id: kind for kind in trace.schema.kinds}
    what, role, detail = IDLE, "wait-empty", "nothing to do"
    for track in tracks_of_units(trace.schema).get(unit, []):
        row = trace.at(track, cycle)
        if row is not None:
            kind = kinds[int(row["kind"])]
            what, role, detail = kind.name, kind.role, kind.doc
    first = Cause(unit, span.start, span.end, what, role, _next(trace, span.track, span.end), detail)
    return [first, *(_link(trace.schema, kinds, hop) for hop in why_standing(trace, span))]


def _next(trace: TraceReader, track: int, cycle: int) -> int:
    row = trace.at(track, cycle)
    return int(row["instruction"]) if row is not None else -1


def _link(schema: TraceSchema, kinds: Mapping[int, Kind], hop: Hop) -> Cause:
    kind = kinds.get(hop.kind)
    name, role, doc = (kind.name, kind.role, kind.doc) if kind is not None else (UNKNOWN, "wait-empty", "")
    unit = schema.tracks[hop.track].unit if hop.track >= 0 else -1
    return Cause(unit, hop.start, hop.end, name, role, hop.instruction, doc, hop.track, recorded=True)


def losses(trace: TraceReader, unit: int, first: int, last: int) -> list[Loss]:
    """Return what the cycles of [first, last) in which a unit did not work were lost to, most first;
    they add up."""
    graph_of(trace)
    kinds = {kind.id: kind for kind in trace.schema.kinds}
    found: dict[tuple[int, int], tuple[int, int, Hop]] = {}
    for span in standstills(trace, unit, first, last):
        hops = why_standing(trace, span) or [Hop(-1, -2, span.start, span.end, -1)]
        for hop in hops:
            cut = Hop(hop.track, hop.kind, max(hop.start, first), min(hop.end, last), hop.instruction)
            if cut.cycles <= 0:
                continue
            cycles, count, longest = found.get((cut.track, cut.kind), (0, 0, cut))
            longest = max(longest, cut, key=lambda each: each.cycles)
            found[cut.track, cut.kind] = cycles + cut.cycles, count + 1, longest
    rows = sorted(found.values(), key=lambda each: -each[0])
    return [Loss(cycles, count, _lost(trace.schema, kinds, hop, unit)) for cycles, count, hop in rows]


def _lost(schema: TraceSchema, kinds: Mapping[int, Kind], hop: Hop, unit: int) -> Cause:
    if hop.kind != -2:
        return _link(schema, kinds, hop)
    return Cause(unit, hop.start, hop.end, NOTHING_LEFT, "wait-empty", recorded=True)
