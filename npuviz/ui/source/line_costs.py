"""Compute the costs of each line of a program's text: share of the run, work, and waiting because of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.base.units import format_count, format_share
from npuviz.program.source import HasCalls, HasSource
from npuviz.trace.reader import TraceReader
from npuviz.workbench.causes.lines import Reason, wait_reasons
from npuviz.workbench.costs import costs

SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True)
class LineCost:
    """Costs of all instructions of a line.

    share    0..1 of the run's cycles, each of which is divided equally among everything under way in it
    work     cycles that units worked on the line, summed over units
    waiting  cycles that units waited because of it, summed over units
    unit     id of the unit that worked longest on it, -1 without work
    reasons  why units waited at the line, most cycles first
    called   0..1 of the run's cycles, as `share`, for the lines of the functions that the line calls
    """

    share: float
    work: int
    waiting: int
    unit: int
    reasons: tuple[Reason, ...] = ()
    called: float = 0.0


def line_costs(reader: TraceReader, listing: HasSource) -> dict[tuple[int, int], LineCost]:
    """Return {(file, line): costs} of all lines that instructions of the trace come from, or that
    call such a line."""
    found = costs(reader, "instruction")
    sums: dict[tuple[int, int], list[float]] = {}
    units: dict[tuple[int, int], dict[int, int]] = {}
    called: dict[tuple[int, int], float] = {}
    rows = zip(
        found.key.tolist(), found.share.tolist(), found.work.tolist(), found.waiting.tolist(),
        found.unit.tolist(), found.unit_work.tolist(), strict=True,
    )  # fmt: skip
    for instruction, share, work, waiting, unit, unit_work in rows:
        place = listing.place_of(instruction)
        if place is None:
            continue
        key = (place.file, place.line)
        total = sums.setdefault(key, [0.0, 0, 0])
        for at, value in enumerate((share, work, waiting)):
            total[at] += value
        own = units.setdefault(key, {})
        own[unit] = own.get(unit, 0) + unit_work
        calls = listing.calls_of(instruction) if isinstance(listing, HasCalls) else ()
        for caller in {(call.place.file, call.place.line) for call in calls[1:]} - {key}:
            called[caller] = called.get(caller, 0.0) + share
    reasons = wait_reasons(reader, listing)
    end = max(found.end, 1)
    costs_of = {
        key: LineCost(
            share / end, int(work), int(waiting), max(units[key], key=lambda u: units[key][u]),
            tuple(reasons.get(key, ())[:SHOWN_REASONS]), called.get(key, 0.0) / end,
        )
        for key, (share, work, waiting) in sums.items()
    }  # fmt: skip
    alone = called.keys() - costs_of.keys()
    return costs_of | {key: LineCost(0.0, 0, 0, -1, (), called[key] / end) for key in alone}


def tip_of(line: int, cost: LineCost, listing: HasSource, units: Mapping[int, str]) -> str:
    """Return the tooltip of a line's share of the run; `units` are names of units."""
    calls = f"line {line}: what it calls takes {format_share(cost.called)} of the run"
    if cost.called and not cost.share:
        return calls
    return (
        f"line {line}: {format_share(cost.share)} of the run; {format_count(cost.work)} cycles of work, "
        f"mostly {units.get(cost.unit, 'no unit')}; units waited {format_count(cost.waiting)} cycles for it"
        + "".join(f"\n{_reason_text(reason, listing)}" for reason in cost.reasons)
        + (f"\n{calls}" if cost.called else "")
    )


def _reason_text(reason: Reason, listing: HasSource) -> str:
    source = reason.source
    if source is None:
        return f"{format_count(reason.cycles)} cycles: {reason.what}"
    name = f"{listing.sources[source.file].name}:{source.line}"
    return f"{format_count(reason.cycles)} cycles: {reason.what}, of line {name}"
