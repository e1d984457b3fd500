"""Find the next hit of a watch going forward, and the last one going back."""

from dataclasses import replace
from typing import Any

import numpy as np

from npuviz.debug.breakpoint import Watch
from npuviz.debug.condition.expression import WHOLE_RUN, Expression, Moment, TensorValue
from npuviz.debug.condition.trigger import FIRST_ID, Tracker, Trigger, trackers_of, trigger_of
from npuviz.debug.runner import Runner
from npuviz.program.instruction import Listing
from npuviz.sim.stop import STOP_INSTRUCTION, StopKind, StopReason, stop_table

MOST_ROWS = 1 << 14
"""Most ranges of a unit's instructions that are watched at once: those around the one that it executes."""


class Search:
    """Moves a runner's machine to hits."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._machine = runner.machine
        self._trackers: list[Tracker] = []
        self._known: tuple[tuple[tuple[Trigger, int], ...], int, int] | None = None

    def forward(self, until: int, watch: Watch) -> StopReason:
        """Run to the next hit after now, `until`, or whatever else ends the run. A hit has priority."""
        interrupted = self._begin(watch)
        if interrupted is not None:
            return interrupted
        reason = self._forward(until, watch)
        self._known = watch.triggers, self._machine.cycle, self._runner.version
        return reason

    def value(self, expression: Expression, is_final: bool) -> Any:
        """Return the value of an expression now; None if it is not known, or the user interrupted."""
        trigger = replace(trigger_of(expression), is_anchored=False)
        if any(isinstance(part, TensorValue) for part in expression.parts()):
            trigger = replace(trigger, window=WHOLE_RUN)
        if trigger.window and self._machine.cycle > self._runner.timeline.cycles[0]:
            # The last cycle is left to the loop, so that events of that cycle are seen.
            self._known = None
            interrupted = self._begin(Watch(stop_table([]), triggers=((trigger, 0),)))
            self._known = None
            if interrupted is not None:
                return None
            seen = self._trackers[0].last
            if seen is not None and seen[0] == self._machine.cycle:
                return seen[1]
            moment = Moment(self._machine, state=self._trackers[0].state, is_final=is_final)
        else:
            moment = Moment(self._machine, is_final=is_final)
        return expression.value(moment)

    def _forward(self, until: int, watch: Watch) -> StopReason:
        held = self._held_probes(watch)
        rows, until_when = self._rows(watch)
        while True:
            now = self._machine.cycle
            if now >= until_when:
                rows, until_when = self._rows(watch)
            goal = until
            if watch.probes:
                goal = min(goal, now + 1)
            wanted = [watch.next_cycle(now), *(tracker.next_cycle(now) for tracker in self._trackers)]
            goal = min(goal, *(cycle for cycle in wanted if cycle is not None), until)
            reason = self._runner.advance(goal, rows)
            cycle = self._machine.cycle
            if cycle > now:
                hits = {i for i in reason.breakpoints if i < FIRST_ID} | watch.ids_at(cycle)
                holds = self._held_probes(watch)
                hits.update(
                    i for (_, i), was, is_ in zip(watch.probes, held, holds, strict=True) if is_ > was
                )
                held = holds
                # Every tracker is evaluated, even if another one has hit: it remembers what it saw.
                seen = [t.breakpoint for t in self._trackers if t.hits(self._machine, reason.breakpoints)]
                hits.update(seen)
                if hits:
                    made = reason if reason.kind is StopKind.BREAKPOINT else StopReason(reason.kind, cycle)
                    return replace(made, kind=StopKind.BREAKPOINT, breakpoints=tuple(sorted(hits)))
            if reason.kind is StopKind.BREAKPOINT and cycle > now:
                if cycle < until:
                    continue
                return StopReason(StopKind.UNTIL, cycle)
            if reason.kind is not StopKind.UNTIL or cycle >= until:
                return reason

    def _begin(self, watch: Watch) -> StopReason | None:
        """Make trackers that know the cycles before now; return the stop if the user interrupted that."""
        now = self._machine.cycle
        if not watch.triggers or self._known == (watch.triggers, now, self._runner.version):
            if not watch.triggers:
                self._trackers, self._known = [], None
            return None
        self._known = None
        self._trackers = trackers_of(watch.triggers)
        first = self._runner.timeline.cycles[0]
        if watch.window:
            self._runner.travel(max(first, now - watch.window - 1))
        for tracker in self._trackers:
            tracker.begin(self._machine)
        past = Watch(stop_table([]), triggers=watch.triggers)
        while self._machine.cycle < now:
            reason = self._forward(now, past)
            if reason.kind is StopKind.INTERRUPTED:
                return self._stopped_at(now)
            if reason.kind is not StopKind.BREAKPOINT:
                break
        return None

    def _stopped_at(self, cycle: int) -> StopReason:
        """Go back to where a search began that the user interrupted."""
        self._runner.interrupted.clear()
        self._runner.travel(cycle)
        return StopReason(StopKind.INTERRUPTED, cycle, detail="the search was stopped by the user")

    def _rows(self, watch: Watch) -> tuple[np.ndarray, float]:
        """Return (stop rows for the present cycle, the cycle from which there are more)."""
        now = self._machine.cycle
        later = (t.trigger.earliest for t in self._trackers if t.trigger.earliest > now)
        own = [row for t in self._trackers if t.trigger.earliest <= now for row in t.rows]
        rows = np.concatenate([watch.rows, stop_table(own)]) if own else watch.rows
        return rows, min(later, default=float("inf"))

    def last_until_now(self, watch: Watch) -> StopReason:
        """Go back as `backward`, but count hits of the present cycle; meant for a watch of rows only."""
        return self.backward(watch, self._machine.cycle)

    def backward(self, watch: Watch, end: int = -1) -> StopReason:
        """Go to the last hit before now (or until `end`), or to the first cycle;
        return to the start if interrupted.

        Stretches between checkpoints are searched newest first. A hit exactly on a checkpoint
        belongs to the stretch before it, so each stretch is (checkpoint, end], and the next
        checkpoint must be strictly earlier, or the search would never leave it.
        """
        start = self._machine.cycle
        first = self._runner.timeline.cycles[0]
        if not len(watch.rows) and not watch.probes and not watch.triggers:
            return self._last_cycle(start, first, watch)
        end = start - 1 if end < 0 else end
        while end > first:
            checkpoint = self._runner.timeline.before(end if watch.window < WHOLE_RUN else first + 1)
            self._runner.restore(checkpoint)
            found, interrupted = self._last_hit(end, watch)
            if interrupted is not None:
                return self._stopped_at(start)
            if found is not None:
                return self._arrive(found)
            end = checkpoint.cycle
        return self._arrive(StopReason(StopKind.START, first))

    def _last_cycle(self, start: int, first: int, watch: Watch) -> StopReason:
        """Go back if only cycles are watched, without simulating anything to find the hit."""
        cycle = max((cycle for cycle, _ in watch.cycles if first < cycle < start), default=first)
        if cycle == first:
            return self._arrive(StopReason(StopKind.START, first))
        return self._arrive(StopReason(StopKind.BREAKPOINT, cycle, tuple(sorted(watch.ids_at(cycle)))))

    def _arrive(self, found: StopReason) -> StopReason:
        """Go where the search ended; an interrupt on the way has priority."""
        reason = self._runner.travel(found.cycle)
        return reason if reason.kind is StopKind.INTERRUPTED else found

    def _last_hit(self, end: int, watch: Watch) -> tuple[StopReason | None, StopReason | None]:
        """Return (last hit from here to `end`, the stop if the search was interrupted)."""
        found: StopReason | None = None
        while self._machine.cycle < end:
            reason = self.forward(end, watch)
            if reason.kind is StopKind.BREAKPOINT:
                found = reason
            elif reason.kind is StopKind.INTERRUPTED:
                return None, reason
            else:
                break
        return found, None

    def _held_probes(self, watch: Watch) -> list[bool]:
        return [test.holds(self._machine.read(test.probe)) for test, _ in watch.probes]


def unit_rows(listing: Listing, unit: int, near: int) -> np.ndarray:
    """Return stop rows, with breakpoint id 0, for all instructions of a unit (those around
    `near` if too many)."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(listing.ranges_of_unit(unit)):
        if merged and merged[-1][1] >= low:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    if len(merged) > MOST_ROWS:
        middle = int(np.searchsorted(np.array([low for low, _ in merged]), near))
        first = min(max(0, middle - MOST_ROWS // 2), len(merged) - MOST_ROWS)
        merged = merged[first : first + MOST_ROWS]
    return stop_table([(STOP_INSTRUCTION, 0, low, high, 0, 0) for low, high in merged])
