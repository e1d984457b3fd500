"""Which instruction a breakpoint stopped at, on machines whose kernels do not tell."""

from collections.abc import Sequence
from dataclasses import replace

from npuviz.debug.breakpoint import Breakpoint
from npuviz.sim.machine import Machine
from npuviz.sim.stop import STOP_INSTRUCTION, StopKind, StopReason


def with_instruction(machine: Machine, breakpoints: Sequence[Breakpoint], reason: StopReason) -> StopReason:
    """Add to a stop the instruction under way whose start its breakpoints wait for, the latest of several.

    The machine stands at the stop. A stop that names an instruction or a unit already is returned as it is.
    """
    if reason.kind is not StopKind.BREAKPOINT or reason.instruction >= 0 or reason.unit:
        return reason
    hit = [each.condition for each in breakpoints if each.id in reason.breakpoints]
    rows = [row for condition in hit for row in condition.stop_rows(0) if row[0] == STOP_INSTRUCTION]
    if not rows:
        return reason
    under_way = [
        (state.since, state.instruction)
        for state in machine.unit_states()
        if any(low <= state.instruction < high for _, _, low, high, *_ in rows)
    ]
    return replace(reason, instruction=max(under_way, default=(0, -1))[1])
