"""Verbs of the window that need more than one call of the session; they run on the worker thread."""

from typing import TYPE_CHECKING

import numpy as np

from npuviz.base.progress import Progress
from npuviz.sim.frames import HasFrames
from npuviz.sim.stop import StopKind, StopReason
from npuviz.workbench.breakpoint_text import operator_word
from npuviz.workbench.costs import costs

if TYPE_CHECKING:
    from npuviz.debug.session import Session


def restart_and_run(session: "Session", progress: Progress) -> StopReason:
    """Go to the first cycle and run."""
    session.restart()
    return session.run(None, progress)


def step_each(session: "Session", count: int) -> StopReason:
    """Go some cycles forward one by one, so that a breakpoint ends one step but not the following ones."""
    reason = session.step(1)
    for _ in range(count - 1):
        if session.is_finished or reason.kind is StopKind.INTERRUPTED:
            break
        reason = session.step(1)
    return reason


def step_line(session: "Session", subject: int, how: str, is_back: bool) -> StopReason:
    """Go to another line, forward or back in time, of an element's program, or a unit's without elements."""
    from npuviz.debug.element_steps import LineStep
    from npuviz.debug.unit_steps import step_unit_line

    if not isinstance(session.machine, HasFrames):
        return step_unit_line(session, subject, LineStep(how), is_back)
    step = session.step_line_back if is_back else session.step_line
    return step(subject, LineStep(how))


def go_to_turn(
    session: "Session", variable: str, turn: int, progress: Progress, instruction: int
) -> StopReason:
    """Go to where the unit of an instruction begins another iteration of a loop around it."""
    from npuviz.debug import loop_turns

    unit = session.program.listing.describe(instruction).unit
    return loop_turns.go_to_turn(session, variable, turn, progress, (instruction, unit))


def run_operator(session: "Session", node: int, progress: Progress) -> StopReason:
    """Run until the last work of a graph node ends, or to the next stop before."""
    with session.breakpoints.temporary(f"op {operator_word(session.program, node)} ends"):
        return session.run(None, progress)


def begin_of_operator(session: "Session", node: int, progress: Progress) -> StopReason:
    """Go to where the work on a graph node begins, as the trace shows it; if not recorded yet, run there."""
    if session.trace is not None:
        found = costs(session.trace, "operator")
        rows = np.flatnonzero(found.key == node)
        if len(rows):
            return session.go_to(int(found.first[rows[0]]), progress)
    return session.run_to(f"op {operator_word(session.program, node)}", progress)
