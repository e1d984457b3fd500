"""Compute the costs of each line of a program's text: share of the run, work, and waiting because of it."""

from dataclasses import dataclass

from npuviz.program.source import HasSource
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
    """

    share: float
    work: int
    waiting: int
    unit: int
    reasons: tuple[Reason, ...] = ()


def line_costs(reader: TraceReader, listing: HasSource) -> dict[tuple[int, int], LineCost]:
    """Return {(file, line): costs} of all lines that instructions of the trace come from."""
    found = costs(reader, "instruction")
    sums: dict[tuple[int, int], list[float]] = {}
    units: dict[tuple[int, int], dict[int, int]] = {}
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
    reasons = wait_reasons(reader, listing)
    return {
        key: LineCost(
            share / max(found.end, 1), int(work), int(waiting), max(units[key], key=lambda u: units[key][u]),
            tuple(reasons.get(key, ())[:SHOWN_REASONS]),
        )
        for key, (share, work, waiting) in sums.items()
    }  # fmt: skip
