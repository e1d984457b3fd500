"""Collect everything that a machine finds wrong in one list."""

import re
from collections.abc import Sequence
from dataclasses import replace

from npuviz.base.errors import TargetError
from npuviz.program.instruction import Listing
from npuviz.program.source import line_of
from npuviz.sim.checks.births import births
from npuviz.sim.checks.kinds import KINDS
from npuviz.sim.checks.memory import merged
from npuviz.sim.checks.overflow import overflows
from npuviz.sim.checks.row_numbers import wrong_row_numbers
from npuviz.sim.machine import (
    ChecksMemory,
    Findings,
    HasHazards,
    HasTensors,
    Hazard,
    Machine,
    StillMemories,
)

_BEGINS_WITH_LINE = re.compile(r"\S+:\d+: ")
NO_ORDER = "the order of reads and writes of memories"


def looks(asked: object) -> bool:
    """Whether an object checks for hazards at all."""
    return isinstance(asked, HasHazards | ChecksMemory)


def findings_of(machine: Machine, still: StillMemories | None = None) -> Findings:
    """Return the hazards so far, by cycle, and what was not checked. May compute values first.

    still  the machine's memories at one cycle: asked in place of the machine, so that it may go on
    """
    asked = machine if still is None else still
    noted: Sequence[Hazard] = asked.hazards() if isinstance(asked, HasHazards) else ()
    orders = asked.memory_hazards() if isinstance(asked, ChecksMemory) else Findings((), (NO_ORDER,))
    # The check of memories knows the place; values only show that something is wrong.
    of_values, unknown = _of_values(machine, asked)
    # With operators, their values are checked for overflow; instructions of a compiler may wrap on purpose.
    has_operators = any(node.inputs for node in machine.program.graph.nodes)
    noted = [_mended(each) for each in noted if each.kind != "overflow" or not has_operators]
    found = merged(orders.hazards, noted, of_values)
    listing = machine.program.listing
    return Findings(tuple(_with_lines(each, listing) for each in found), (*orders.not_checked, *unknown))


def _with_lines(hazard: Hazard, listing: Listing) -> Hazard:
    """Add the source lines of both instructions to a hazard's text; the first one goes before the unit."""
    text = hazard.text
    if _BEGINS_WITH_LINE.match(text):
        return hazard
    line, other = line_of(listing, hazard.instruction), line_of(listing, hazard.other)
    if line:
        unit = f"{hazard.unit}: "
        text = f"{line}: {text}" if text.startswith(unit) else f"{line}: {unit}{text}"
    if other:
        text += f"; the other one is in {other}"
    return replace(hazard, text=text)


def _of_values(machine: Machine, asked: Machine | StillMemories) -> tuple[list[Hazard], list[str]]:
    """Return hazards found in values, and what could not be checked because the values cannot be computed."""
    if not machine.is_finished or not isinstance(asked, HasTensors):
        return [], []
    graph, cycle = machine.program.graph, machine.cycle
    found: list[Hazard] = []
    try:
        found += births(graph, asked.tensor, cycle)
        found += overflows(graph, asked.tensor, cycle)
        found += wrong_row_numbers(graph, asked.tensor, cycle)
    except TargetError as error:
        return found, [f"values: {error}"]
    return found, []


def _mended(hazard: Hazard) -> Hazard:
    """Add how to mend a hazard, if its kind is one of KINDS and it does not say so itself."""
    known = KINDS.get(hazard.kind)
    return replace(hazard, mend=known.mend) if known is not None and not hazard.mend else hazard
