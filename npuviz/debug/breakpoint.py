"""Keep the breakpoints of a session: conditions that the user has set.
They are never part of a checkpoint."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from npuviz.base.notifier import Notifier
from npuviz.debug.condition.language import Condition, ProbeTest
from npuviz.debug.condition.trigger import Trigger
from npuviz.sim.stop import stop_table


@dataclass(slots=True)
class Breakpoint:
    """One breakpoint; `hits` counts the stops it caused while running or stepping forward."""

    id: int
    text: str
    condition: Condition
    enabled: bool = True
    hits: int = 0


class BreakpointList:
    """Breakpoints by id. Ids rise from 1 and are never used twice.

    parse    makes a condition from a text; raises ConditionError
    changed  notified after every change, hit counts included
    """

    def __init__(self, parse: Callable[[str], Condition]) -> None:
        self.parse = parse
        self._items: dict[int, Breakpoint] = {}
        self._next_id = 1
        self.changed: Notifier[()] = Notifier()

    @property
    def all(self) -> Sequence[Breakpoint]:
        """All breakpoints, by id."""
        return tuple(self._items.values())

    def get(self, breakpoint_id: int) -> Breakpoint | None:
        """Return the breakpoint of this id, or None."""
        return self._items.get(breakpoint_id)

    def add(self, text: str) -> Breakpoint:
        """Set a breakpoint. Raises ConditionError when the text cannot be understood."""
        return self.add_condition(self.parse(text))

    def add_condition(self, condition: Condition) -> Breakpoint:
        """Set a breakpoint on a condition that has been parsed already."""
        made = Breakpoint(self._next_id, condition.text, condition)
        self._items[made.id] = made
        self._next_id += 1
        self.changed.notify()
        return made

    @contextmanager
    def temporary(self, text: str) -> Generator[Breakpoint]:
        """Have one more breakpoint, of id 0, for a step that a verb makes. Raises ConditionError."""
        condition = self.parse(text)
        self._items[0] = Breakpoint(0, condition.text, condition)
        try:
            yield self._items[0]
        finally:
            del self._items[0]

    def remove(self, breakpoint_id: int) -> None:
        """Delete a breakpoint. Raises KeyError for an unknown id."""
        del self._items[breakpoint_id]
        self.changed.notify()

    def set_enabled(self, breakpoint_id: int, enabled: bool) -> None:
        """Switch a breakpoint on or off. Raises KeyError for an unknown id."""
        self._items[breakpoint_id].enabled = enabled
        self.changed.notify()

    def replace_all(self, items: Sequence[Breakpoint]) -> None:
        """Replace all breakpoints by copies of these, with their ids and hit counts."""
        self._items = {item.id: replace(item) for item in items}
        self._next_id = max((self._next_id, *(item.id + 1 for item in items)))
        self.changed.notify()

    def count_hits(self, breakpoint_ids: Sequence[int]) -> None:
        """Count a stop for these breakpoints."""
        for breakpoint_id in breakpoint_ids:
            if breakpoint_id in self._items:
                self._items[breakpoint_id].hits += 1
        if breakpoint_ids:
            self.changed.notify()

    def watch(self, with_logs: bool = True) -> "Watch":
        """Lower the enabled breakpoints to a Watch; without those that only log, unless `with_logs`."""
        enabled = [i for i in self._items.values() if i.enabled and (with_logs or not i.condition.is_log)]
        return watch_of((item.condition, item.id) for item in enabled)


@dataclass(frozen=True, slots=True)
class Watch:
    """Lowered breakpoints: rows for the machine, cycles and probes for the session.

    rows    (n, 6) int64 of npuviz.sim.stop
    cycles  (cycle, breakpoint id), rising
    probes  (test, breakpoint id), tested after every cycle
    triggers  (trigger, breakpoint id), evaluated where they ask for it
    """

    rows: np.ndarray
    cycles: tuple[tuple[int, int], ...] = ()
    probes: tuple[tuple[ProbeTest, int], ...] = ()
    triggers: tuple[tuple[Trigger, int], ...] = ()

    def joined(self, rows: np.ndarray) -> "Watch":
        """Return a watch that asks for further rows, too."""
        return replace(self, rows=np.concatenate([self.rows, rows]))

    @property
    def window(self) -> int:
        """Number of cycles before a hit on which the hit may depend."""
        return max((trigger.window for trigger, _ in self.triggers), default=0)

    def next_cycle(self, now: int) -> int | None:
        """Return the first watched cycle after `now`, or None."""
        return next((cycle for cycle, _ in self.cycles if cycle > now), None)

    def ids_at(self, cycle: int) -> set[int]:
        """Return the ids of the breakpoints that wait for exactly this cycle."""
        return {breakpoint_id for wanted, breakpoint_id in self.cycles if wanted == cycle}


def watch_of(conditions: Iterable[tuple[Condition, int]]) -> Watch:
    """Lower conditions, each with a breakpoint id, to a Watch."""
    given = list(conditions)
    rows = [row for condition, number in given for row in condition.stop_rows(number)]
    cycles = [(cycle, number) for condition, number in given for cycle in condition.cycles]
    probes = [(test, number) for condition, number in given for test in condition.probes]
    triggers = [(trigger, number) for condition, number in given for trigger in condition.triggers]
    return Watch(stop_table(rows), tuple(sorted(cycles)), tuple(probes), tuple(triggers))
