"""Deliberately wrong machines: each breaks one promise of the contract, and the suite must say so."""

from typing import ClassVar

import numpy as np

from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.stop import StopReason
from tests.toy.machine import ToyMachine
from tests.toy.pipeline import Pipeline
from tests.toy.program import ToySpec, make_program


class _HiddenRow(Pipeline):
    """Remembers something outside the state record that changes later latencies."""

    _starts = 0

    def _begin(self, unit: int, index: int, now: int, cycles: int) -> None:
        self._starts += 1
        super()._begin(unit, index, now, cycles + self._starts % 3)


class _SharedRow(Pipeline):
    """Remembers it in the class, so that two machines disturb each other."""

    starts: ClassVar[list[int]] = [0]

    def __init__(self, spec: ToySpec, payload: dict[int, np.ndarray]) -> None:
        super().__init__(spec, payload)
        self.starts[0] = 0

    def _begin(self, unit: int, index: int, now: int, cycles: int) -> None:
        self.starts[0] += 1
        super()._begin(unit, index, now, cycles + self.starts[0] % 3)


class _SlowWhenRecorded(Pipeline):
    """Takes longer while someone records."""

    def _begin(self, unit: int, index: int, now: int, cycles: int) -> None:
        super()._begin(unit, index, now, cycles + (self._events is not None))


class _Overlapping(Pipeline):
    """Claims that work began a cycle before it did."""

    def _emit(self, kind: int, track: int, code: int, a: int, b: int, c: int) -> None:
        super()._emit(kind, track, code, a - (kind == 1), b, c)


class _Miscalculating(Pipeline):
    """Gets one element of one tile wrong."""

    def _fill(self, tile: int, part: int) -> None:
        super()._fill(tile, part)
        if tile == 5 and part == 2:
            bank = self.spec.bank_bytes // 4
            self.state["spad"][(tile % 4) * bank + 2 * self.spec.elements] += 1


class HiddenState(ToyMachine):
    pipeline_class = _HiddenRow


class SharedState(ToyMachine):
    pipeline_class = _SharedRow


class SlowWhenRecorded(ToyMachine):
    pipeline_class = _SlowWhenRecorded


class OverlappingIntervals(ToyMachine):
    pipeline_class = _Overlapping


class Miscalculating(ToyMachine):
    pipeline_class = _Miscalculating


class ChunkDependent(ToyMachine):
    """Behaves differently when `advance` is called more often."""

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        self._state["latency"] = 5 + self.cycle % 2
        return super().advance(until, stops, events)


class LateBreakpoint(ToyMachine):
    """Stops a cycle late at every other hit."""

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        reason = super().advance(until, stops, events)
        if reason.breakpoints and reason.cycle % 2 and reason.cycle < until:
            super().advance(reason.cycle + 1, stops[:0], events)
            return StopReason(reason.kind, self.cycle, reason.breakpoints)
        return reason


def make_wrong(kind: type[ToyMachine]) -> Machine:
    """A wrong machine at cycle 0."""
    spec = ToySpec(blocks=4)
    return kind(spec, make_program(spec, {}, "toy"))
