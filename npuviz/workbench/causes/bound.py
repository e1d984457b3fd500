"""Compares a run with its lower bound in cycles, and names what kept the unit that sets the bound waiting."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from npuviz.base.units import format_share
from npuviz.debug.causes import has_causes, losses
from npuviz.program.source import line_of
from npuviz.sim.bounds import HasBounds, highest

if TYPE_CHECKING:
    from npuviz.debug.session import Session
    from npuviz.trace.reader import TraceReader

SHOWN_LOSSES = 4


def bound_of(session: "Session | None", reader: "TraceReader") -> dict[str, Any] | None:
    """Return the highest lower bound of a run, all bounds, and why the unit of the highest one lost cycles.

    None without a session, or where the machine knows no bounds.
    """
    if session is None or not isinstance(session.machine, HasBounds):
        return None
    bounds = session.machine.bounds()
    top = highest(bounds)
    if top is None:
        return None
    end = reader.end_cycle
    found = losses(reader, top.unit, 0, end) if end and has_causes(reader) else []
    units = {unit.id: unit.name for unit in session.description.units}
    tracks = {track.id: track.name for track in session.description.tracks}
    listing = session.program.listing
    return {
        "name": top.name,
        "cycles": round(top.cycles),
        "of_the_run": top.cycles / max(end, 1),
        "unit": units.get(top.unit, ""),
        "parts": {each.name: round(each.cycles) for each in bounds},
        "lost": [
            {
                "cycles": each.cycles,
                "times": each.count,
                "to": units.get(each.longest.unit) or tracks.get(each.longest.track, ""),
                "what": each.longest.what,
                "line": line_of(listing, each.longest.instruction),
            }
            for each in found[:SHOWN_LOSSES]
        ],
    }


def bound_lines(found: Mapping[str, Any] | None, total: int) -> list[str]:
    """Write the result of `bound_of` as lines for a terminal, none if it is None. total  cycles of the run"""
    if found is None:
        return []
    parts = [f"at least {found['cycles']} cycles ({format_share(found['of_the_run'])}): {found['name']}"]
    for each in found["lost"]:
        where = f" at {each['line']}" if each["line"] else ""
        parts.append(f"{format_share(each['cycles'] / max(total, 1))} {each['to']} {each['what']}{where}")
    kept = f"; {found['unit']} stood still for: {', '.join(parts[1:])}" if found["lost"] else ""
    return [parts[0] + kept]
