"""Decide where to stop for a condition that kernels cannot test alone, and whether it hits there."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from npuviz.debug.condition.expression import (
    WHOLE_RUN,
    AnyBad,
    Event,
    Expression,
    Key,
    Moment,
    Row,
    TensorValue,
)
from npuviz.debug.condition.history import Changed
from npuviz.sim.machine import Machine

FIRST_ID = 1 << 40
"""First id of stop rows of triggers, far above those of breakpoints."""


@dataclass(frozen=True)
class Trigger:
    """One alternative of a condition, to be evaluated between cycles.

    rows    stop rows with their keys; cycles  cycles at which to evaluate
    every   whether to evaluate after every cycle
    window  number of cycles before now that it depends on; WHOLE_RUN: all
    is_anchored  whether it can hold only where one of its rows hits, and does not depend on the past
    earliest  cycle before which the rows of an anchored one need not be watched
    """

    expression: Expression
    rows: tuple[tuple[Row, Key], ...]
    cycles: tuple[int, ...]
    every: bool
    window: int
    is_anchored: bool
    earliest: int = 0


def trigger_of(expression: Expression) -> Trigger:
    """Decide where to stop for an expression that is a truth."""
    wakes, window = expression.wakes(), expression.window()
    anchors = expression.anchors()
    if anchors is not None and not window:
        others = {part.slot for part in expression.parts() if isinstance(part, TensorValue) and part.row}
        others -= {key for _, key in anchors} if len(anchors) == 1 else set()
        if not others:
            # Whether it holds where an anchor hits depends on other events of that cycle.
            seen = [
                row for part in expression.parts() if isinstance(part, Event | AnyBad) for row in part.rows
            ]
            rows = tuple(dict.fromkeys((*anchors, *seen)))
            # A row that hits in a cycle is seen one cycle later, hence the - 1.
            return Trigger(expression, rows, (), False, 0, True, max(0, expression.earliest() - 1))
    if any(isinstance(part, TensorValue) and part.row for part in expression.parts()):
        window = WHOLE_RUN  # it depends on whether the tensor's operator has ended
    return Trigger(expression, wakes.rows, tuple(sorted(set(wakes.cycles))), wakes.every, window, False)


@dataclass
class Tracker:
    """A trigger along a run; `hits` must be called at every cycle that it asked for, in order.

    last  (cycle, value) of the last evaluation
    """

    trigger: Trigger
    breakpoint: int
    base: int
    state: dict[int, Any] = field(default_factory=dict[int, Any])
    timers: set[int] = field(default_factory=set[int])
    held: bool = False
    last: tuple[int, Any] | None = None

    @property
    def rows(self) -> list[tuple[int, int, int, int, int, int]]:
        """Stop rows, with ids that only this tracker uses."""
        return [(*row, self.base + key) for row, key in self.trigger.rows]

    def next_cycle(self, now: int) -> int | None:
        """Return the next cycle at which it must be evaluated even if no row hits, or None."""
        if self.trigger.every:
            return now + 1
        if now < self.trigger.earliest:
            return self.trigger.earliest
        due = [cycle for cycle in (*self.timers, *self.trigger.cycles) if cycle > now]
        return min(due, default=None)

    def begin(self, machine: Machine) -> None:
        """Evaluate at the present cycle, without any event of that cycle."""
        self.state.clear()
        self.timers.clear()
        if not self.trigger.is_anchored:
            self._look(Moment(machine, state=self.state, timers=self.timers))

    def hits(self, machine: Machine, ids: Iterable[int]) -> bool:
        """Whether it hits at the present cycle. ids  ids of the rows that hit there"""
        now, base = machine.cycle, self.base
        keys = frozenset(i - base for i in ids if base <= i < base + KEYS)
        is_due = now in self.timers or now in self.trigger.cycles
        if not (keys or is_due or self.trigger.every):
            return False
        self.timers = {cycle for cycle in self.timers if cycle > now}
        return self._look(Moment(machine, keys, self.state, self.timers))

    def _look(self, moment: Moment) -> bool:
        expression = self.trigger.expression
        value = expression.value(moment)
        self.last = moment.cycle, value
        held, self.held = self.held, value is True
        if not self.trigger.is_anchored and self._has_pulse(moment):
            self.timers.add(moment.cycle + 1)
        return self.held and (not held or self.trigger.is_anchored or expression.pulses(moment))

    def _has_pulse(self, moment: Moment) -> bool:
        parts = self.trigger.expression.parts()
        return any(isinstance(part, AnyBad | Event | Changed) and part.pulses(moment) for part in parts)


KEYS = 1 << 20
"""Most keys of one trigger."""


def trackers_of(triggers: Iterable[tuple[Trigger, int]]) -> list[Tracker]:
    """Return a tracker for each (trigger, breakpoint id)."""
    return [
        Tracker(trigger, breakpoint, FIRST_ID + number * KEYS)
        for number, (trigger, breakpoint) in enumerate(triggers)
    ]
