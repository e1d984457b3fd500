"""Runs and steps a session for an editor: by line, call and instruction, forwards and backwards."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from npuviz.debug.element_steps import LineStep
from npuviz.debug.session import Session
from npuviz.debug.unit_steps import step_unit_line
from npuviz.protocols.dap.breakpoints import Breakpoints
from npuviz.protocols.dap.places import Places
from npuviz.sim.machine import HasHazards, Hazard, LogsHazards
from npuviz.sim.stop import BROKEN, StopKind, StopReason

Verb = Callable[[], StopReason]


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop to report to the client; `kind` is the reason in the words of the protocol."""

    reason: StopReason
    kind: str
    hazard: Hazard | None = None

    @property
    def is_exception(self) -> bool:
        """Whether the reason is a fault of the chip or a hazard."""
        return self.kind == "exception"


@dataclass(frozen=True, slots=True)
class Step:
    """A step request.

    subject      element or unit that steps
    how          into, over or out of calls
    granularity  "instruction" steps by instruction, anything else by line
    """

    subject: int
    how: LineStep
    granularity: str = "statement"
    is_back: bool = False


class Motion:
    """Runs, steps and goes back for one client, and stops only where a breakpoint counts."""

    def __init__(self, session: Session, places: Places, breakpoints: Breakpoints) -> None:
        self._session, self._places, self._breakpoints = session, places, breakpoints
        self.stops_at_hazards = False

    def run(self, say: Callable[[str], None]) -> Stop:
        """Run until a breakpoint counts, or to the end."""
        return self._until_it_counts(self._session.run, say, is_forward=True)

    def run_back(self, say: Callable[[str], None]) -> Stop:
        """Go back until a breakpoint counts, or to the first cycle."""
        return self._until_it_counts(self._session.run_back, say, is_forward=False)

    def step(self, step: Step, say: Callable[[str], None]) -> Stop:
        """Step an element or unit, or to a breakpoint that counts before that."""
        verb = self._element_verb(step) if self._places.has_elements else self._unit_verb(step)
        stop = self._until_it_counts(verb, say, is_forward=not step.is_back)
        return replace(stop, kind="step") if stop.kind == "goto" else stop

    # ---- inside

    def _until_it_counts(self, verb: Verb, say: Callable[[str], None], is_forward: bool) -> Stop:
        before = self._session.cycle
        while True:
            reason = verb()
            is_hit = reason.kind is StopKind.BREAKPOINT
            if not is_hit or self._breakpoints.counts(reason.breakpoints, say):
                return self._checked(Stop(reason, self._kind(reason)), before, is_forward)

    def _kind(self, reason: StopReason) -> str:
        """Return the reason of the stopped event."""
        if reason.kind in BROKEN:
            return "exception"
        if reason.kind is StopKind.BREAKPOINT:
            return self._breakpoints.reason(reason.breakpoints)
        names = {StopKind.INTERRUPTED: "pause", StopKind.START: "entry", StopKind.FINISHED: "pause"}
        return names.get(reason.kind, "goto")

    def _checked(self, stop: Stop, before: int, is_forward: bool) -> Stop:
        """Return the stop, or go to the first hazard before it and return that, if the client stops at
        hazards."""
        machine = self._session.machine
        if not (self.stops_at_hazards and is_forward) or not isinstance(machine, HasHazards):
            return stop
        is_free = isinstance(machine, LogsHazards) and machine.logs_hazards
        if not is_free and not self._session.is_finished:
            return stop
        found = [hazard for hazard in machine.hazards() if before < hazard.cycle <= stop.reason.cycle]
        if not found:
            return stop
        first = min(found, key=lambda hazard: hazard.cycle)
        reason = self._session.go_to(first.cycle)
        return Stop(reason, "exception", first)

    def _element_verb(self, step: Step) -> Verb:
        session = self._session
        if step.granularity == "instruction":
            return session.step_back if step.is_back else session.step
        by_line = session.step_line_back if step.is_back else session.step_line
        return lambda: by_line(step.subject, step.how)

    def _unit_verb(self, step: Step) -> Verb:
        """Return the verb that steps a unit by instruction or by line (by instruction if it has no source
        lines)."""
        session, unit, is_back = self._session, step.subject, step.is_back
        if step.granularity == "instruction":
            by_one = session.step_instruction_back if is_back else session.step_instruction
            return lambda: by_one(unit)
        return lambda: step_unit_line(session, unit, step.how, is_back)
