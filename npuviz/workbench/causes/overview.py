"""Prepares the causes of a run for a panel: the critical path, its costliest parts with gains, and the
units."""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.program.program import Program
from npuviz.trace.causes.what_if import Change, Retimer
from npuviz.trace.reader import TraceReader
from npuviz.workbench.causes.explanation import gain_of, remedies_of
from npuviz.workbench.causes.run import Cost, RunCauses, run_causes
from npuviz.workbench.opening import Opened

SHOWN_COSTS = 12
PREDICTED_COSTS = 5
MOST_UNITS = 400
"""Largest number of units whose causes are computed: a wafer has many."""


@dataclass(frozen=True, slots=True)
class ShownCost:
    """A part of the critical path.

    free_gain    cycles saved if all of its kind took none; None if not predicted
    remedy       what to do, "" if the target offers no remedy; remedy_gain  cycles saved, None: only a run
    can tell
    """

    cost: Cost
    free_gain: int | None
    remedy: str
    remedy_gain: int | None


@dataclass(frozen=True)
class CausesOverview:
    """The causes of a run up to now. units  name -> cycles by cause, which sum to those of the run."""

    run: RunCauses
    costs: tuple[ShownCost, ...]
    units: Mapping[str, Mapping[str, int]]


def causes_overview(opened: Opened, reader: TraceReader, program: Program | None) -> CausesOverview:
    """Find the critical path, and predict from the trace, without a run, what its costliest parts would
    gain."""
    run = run_causes(reader, program)
    retimer = Retimer(reader, run.graph)
    remedies = remedies_of(opened)
    shown: list[ShownCost] = []
    for place, cost in enumerate(run.costs[:SHOWN_COSTS]):
        if place >= PREDICTED_COSTS:
            shown.append(ShownCost(cost, None, "", None))
            continue
        free = run.cycles - round(retimer.cycles([Change(0.0, None, frozenset((cost.kind,)))]))
        gains = [(gain_of(each, run, retimer), each) for each in remedies if cost.kind_name in each.kinds]
        gain, best = max(gains, key=lambda pair: pair[0] or 0, default=(None, None))
        settings = " ".join(f"{name}={value}" for name, value in best.settings.items()) if best else ""
        text = f"{best.text} ({settings})" if best else ""
        shown.append(ShownCost(cost, free, text, None if gain is None else round(gain)))
    return CausesOverview(run, tuple(shown), run.units(MOST_UNITS))
