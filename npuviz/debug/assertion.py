"""Check during a run what must hold always, or at its end."""

from dataclasses import dataclass, field

from npuviz.base.errors import ConditionError
from npuviz.base.progress import Progress
from npuviz.debug.condition.expression import Expression, Moment
from npuviz.debug.condition.language import parse_expression, parse_violation
from npuviz.debug.session import FOREVER, Session
from npuviz.debug.tracepoint import values_text
from npuviz.sim.stop import BROKEN, StopKind, StopReason

FINALLY = "finally"
"""First word of an assertion that only has to hold when the program has ended."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An assertion that does not hold: the first cycle at which it is false, and why."""

    assertion: str
    cycle: int
    reason: str


@dataclass
class Assertions:
    """Assertions about a session at its first cycle.
    Raises ConditionError for a text that cannot be understood.

    An assertion about values that are not known yet (a tensor whose operator has not ended) neither holds
    nor fails; one whose values never become known has failed.
    """

    session: Session
    texts: tuple[str, ...]
    violations: list[Violation] = field(default_factory=list[Violation])

    def __post_init__(self) -> None:
        self._always: dict[int, tuple[str, Expression]] = {}
        self._at_end: list[tuple[str, str, Expression]] = []
        for text in self.texts:
            self._add(text)

    def _add(self, text: str) -> None:
        word, _, rest = text.strip().partition(" ")
        is_final = word.lower() == FINALLY
        asserted = rest if is_final else text
        if is_final:
            expression = parse_expression(asserted, self.session.scope, True)
            self._at_end.append((text, asserted, expression))
            return
        violated, expression = parse_violation(asserted, self.session.scope)
        first = expression.value(Moment(self.session.machine))
        if first is False:
            self.violations.append(self._violation(text, asserted, expression, self.session.cycle))
        elif violated is not None:
            self._always[self.session.breakpoints.add_condition(violated).id] = (text, expression)
        # An assertion that only holds or fails at an event, such as `any nan`, is checked at the end, too.
        if first is not False and violated is not None:
            self._at_end.append((text, asserted, expression))

    def run(self, until: int | None, progress: Progress) -> StopReason:
        """Run as `Session.run`, and go on past assertions that turn out false."""
        session = self.session
        while True:
            stop = session.run(until, progress)
            mine = [i for i in stop.breakpoints if i in self._always]
            for number in mine:
                text, expression = self._always.pop(number)
                self.violations.append(self._violation(text, text, expression, stop.cycle))
                session.breakpoints.remove(number)
            others = tuple(i for i in stop.breakpoints if i not in mine)
            if not mine or others:
                return stop
            if session.is_finished:
                return StopReason(StopKind.FINISHED, session.cycle, detail="the program has ended")
            if session.cycle >= (FOREVER if until is None else until):
                return StopReason(StopKind.UNTIL, session.cycle)

    def finish(self) -> list[Violation]:
        """Return all assertions that did not hold, by cycle, once the run is over;
        the session stays in place."""
        session = self.session
        for number in tuple(self._always):
            session.breakpoints.remove(number)
        self._always.clear()
        known = {violation.assertion for violation in self.violations}
        for text, asserted, expression in self._at_end:
            is_final = text != asserted
            if text in known or (not is_final and not session.is_finished):
                continue
            if is_final and not session.is_finished:
                broken = session.stop.kind in BROKEN
                why = str(session.stop.kind) if broken else "the run stopped before the end"
                self.violations.append(Violation(text, session.cycle, f"the program did not end: {why}"))
                continue
            try:
                value = session.evaluate(expression)
            except ConditionError as error:
                value, reason = False, error.reason
            else:
                reason = "never known: this machine does not hold the values it is about"
            if value is True:
                continue
            if value is False and not reason.startswith("division"):
                reason = self._reason(asserted, expression)
            self.violations.append(Violation(text, session.cycle, reason))
        return sorted(self.violations, key=lambda violation: violation.cycle)

    def _violation(self, text: str, asserted: str, expression: Expression, cycle: int) -> Violation:
        return Violation(text, cycle, self._reason(asserted, expression))

    def _reason(self, asserted: str, expression: Expression) -> str:
        named = {part.name: part for part in expression.parts() if part.name and not part.is_truth}
        values = values_text(tuple(named.values()), self.session.machine, asserted)
        return f"false{': ' + values if values else ''}"
