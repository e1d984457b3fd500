"""Everything that a machine finds wrong, in one list."""

from collections.abc import Sequence
from dataclasses import replace

from npuviz.sim.checks.kinds import KINDS
from npuviz.sim.checks.memory import merged
from npuviz.sim.machine import ChecksMemory, Findings, HasHazards, Hazard

NO_ORDER = "the order of reads and writes of memories"


def looks(asked: object) -> bool:
    """Whether something looks for hazards at all."""
    return isinstance(asked, HasHazards | ChecksMemory)


def findings_of(asked: object) -> Findings:
    """Hazards up to now of a machine, or of a still of one, by cycle, and what it does not look at.

    Values may have to be computed for it.
    """
    noted: Sequence[Hazard] = asked.hazards() if isinstance(asked, HasHazards) else ()
    orders = asked.memory_hazards() if isinstance(asked, ChecksMemory) else Findings((), (NO_ORDER,))
    # Who looks at memories knows the place; values only tell that something is wrong.
    found = merged(orders.hazards, [_mended(each) for each in noted])
    return Findings(tuple(found), orders.not_checked)


def _mended(hazard: Hazard) -> Hazard:
    """A hazard of a kind that every machine may have, with how to mend it."""
    known = KINDS.get(hazard.kind)
    return replace(hazard, mend=known.mend) if known is not None and not hazard.mend else hazard
