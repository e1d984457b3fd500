"""Ways to run a machine, and what is remembered of the straight run that all others must equal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.stop import NO_STOPS, StopKind, StopReason

FOREVER = 1 << 50
BUFFER_ROWS = 1 << 14

Make = Callable[[], Machine]


@dataclass(frozen=True)
class StraightRun:
    """A run in one go, without recording."""

    end_cycle: int
    digest: str
    stop: StopReason

    def sample(self, count: int) -> list[int]:
        """Cycles spread over the run: the first, the last, and `count` between."""
        inner = np.linspace(1, max(1, self.end_cycle - 1), count).astype(int).tolist()
        return sorted({0, *inner, self.end_cycle})


def run_straight(make: Make) -> StraightRun:
    machine = make()
    stop = machine.advance(FOREVER, NO_STOPS, None)
    assert stop.kind is StopKind.FINISHED, f"the program of a contract case must end, but: {stop}"
    assert machine.is_finished
    assert machine.cycle == stop.cycle > 0
    return StraightRun(machine.cycle, machine.digest(), stop)


def run_to(machine: Machine, until: int) -> Machine:
    machine.advance(until, NO_STOPS, None)
    return machine


def run_recorded(machine: Machine, chunks: Sequence[int] = (FOREVER,), rows: int = BUFFER_ROWS) -> np.ndarray:
    """Run to the end in chunks of these sizes, over and over; returns all event rows."""
    buffer = EventBuffer(max(rows, machine.event_rows_per_cycle))
    parts: list[np.ndarray] = []
    for chunk in cycle(chunks):
        goal = machine.cycle + chunk
        while machine.cycle < goal and not machine.is_finished:
            before = machine.cycle, int(buffer.count[0])
            stop = machine.advance(goal, NO_STOPS, buffer)
            if stop.kind is StopKind.EVENTS_FULL:
                assert before != (machine.cycle, 0), "an empty event buffer cannot be full"
                parts.append(buffer.take())
        if machine.is_finished:
            parts.append(buffer.take())
            return np.concatenate(parts)
    raise AssertionError("no chunks")


def run_with_stops(machine: Machine, stops: np.ndarray, chunks: Sequence[int]) -> list[StopReason]:
    """Run to the end in chunks; returns every breakpoint stop."""
    hits: list[StopReason] = []
    for chunk in cycle(chunks):
        goal = machine.cycle + chunk
        while machine.cycle < goal and not machine.is_finished:
            stop = machine.advance(goal, stops, None)
            if stop.kind is StopKind.BREAKPOINT:
                assert stop.cycle == machine.cycle
                hits.append(stop)
        if machine.is_finished:
            return hits
    raise AssertionError("no chunks")
