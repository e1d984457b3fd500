"""Implement what machines over a kernel's root state share: the contract around engine, observer and image.

A target's machine derives from KernelMachine and adds its own faults, probes and contents.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Activity, QueueEntry, RunSummary, UnitState
from npuviz.sim.parts.kernel_call import CYCLE_WORD, RESULT_UNTIL
from npuviz.sim.probe import Probe, ProbeTable
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import StopKind, StopReason

STATUS_WORD = 1
STATUS_FINISHED = 1

RESULT_FINISHED = 1
RESULT_EVENTS = 4
"""Result codes that mean the same in every target's `advance`; others are the target's own."""


class KernelEngine(Protocol):
    """The state words of a machine, and the kernel that advances them."""

    @property
    def state(self) -> np.ndarray:
        """(words,) int64 root state."""
        ...

    @property
    def event_margin(self) -> int:
        """Most event rows that one cycle may need."""
        ...

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run the kernel; return its result code and a hit word for each stop row."""
        ...

    def used_state(self) -> np.ndarray:
        """Return the words in use (a view)."""
        ...

    def restore_state(self, words: np.ndarray) -> None:
        """Replace the words in use by a copy that `used_state` returned earlier."""
        ...


class KernelObserver(Protocol):
    """Reads a root state for display."""

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Return the entries of a queue now, head first."""
        ...

    def unit_states(self) -> Iterable[UnitState]:
        """Return what every unit does now, by unit id; a machine of many units makes them one by one."""
        ...

    def next_instructions(self) -> dict[int, int]:
        """Return, for each unit id, the instruction that it takes next."""
        ...

    def activities(self) -> list[Activity]:
        """Return the intervals that the trace does not have yet."""
        ...

    def summary(self) -> RunSummary:
        """Return the totals so far."""
        ...


class KernelImage(Protocol):
    """The part of a snapshot beside its words: it is shared between snapshots and never changed."""

    def digest(self) -> str:
        """Return a digest of the whole image."""
        ...


class KernelMachine(ABC):
    """The half of npuviz.sim.machine.Machine around state, stops and probes;
    a derived class adds the contents."""

    def __init__(
        self,
        program: Program,
        description: MachineDescription,
        engine: KernelEngine,
        observer: KernelObserver,
        probes: ProbeTable,
        image: Any,
    ) -> None:
        self._program = program
        self._description = description
        self._kernel = engine
        self._eyes = observer
        self._probes = probes
        self._declared = probes.probes
        self._image = image

    @property
    def description(self) -> MachineDescription:
        """What the machine consists of."""
        return self._description

    @property
    def program(self) -> Program:
        """The program that the machine runs."""
        return self._program

    @property
    def cycle(self) -> int:
        """Number of base-clock cycles completed."""
        return int(self._kernel.state[CYCLE_WORD])

    @property
    def is_finished(self) -> bool:
        """Whether the program has ended."""
        return int(self._kernel.state[STATUS_WORD]) == STATUS_FINISHED

    @property
    def event_rows_per_cycle(self) -> int:
        """Most event rows that one cycle may need."""
        return self._kernel.event_margin

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        """Run as `Machine.advance` describes."""
        if until <= self.cycle and not self.is_finished:
            return StopReason(StopKind.UNTIL, self.cycle)
        result, hits = self._kernel.advance(until, stops, events)
        if hits.any():
            ids = tuple(sorted({int(stops[index, 5]) for index in np.flatnonzero(hits)}))
            return self._hit_reason(ids, hits)
        if result == RESULT_UNTIL:
            return StopReason(StopKind.UNTIL, self.cycle)
        if result == RESULT_FINISHED:
            return StopReason(StopKind.FINISHED, self.cycle, detail="the program has ended")
        if result == RESULT_EVENTS:
            return StopReason(StopKind.EVENTS_FULL, self.cycle)
        return self._broken(result)

    def _hit_reason(self, ids: tuple[int, ...], hits: np.ndarray) -> StopReason:
        """Return the stop at breakpoints; a machine whose hit words tell more adds unit,
        instruction and sentence."""
        return StopReason(StopKind.BREAKPOINT, self.cycle, ids)

    @abstractmethod
    def _broken(self, result: int) -> StopReason:
        """Return why the simulated chip cannot go on, from a result code of the target's own."""

    def snapshot(self) -> Snapshot:
        """Copy the whole state; values are computed from it."""
        return Snapshot(self.cycle, self._kernel.used_state().copy(), self._image)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot of this machine."""
        self._kernel.restore_state(snapshot.words)
        self._image = snapshot.image

    def digest(self) -> str:
        """Return a digest of state, program and image, from which all values follow."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self._kernel.used_state().data)
        digest.update(self._program.fingerprint().encode())
        image: KernelImage = self._image
        digest.update(image.digest().encode())
        return digest.hexdigest()

    @property
    def probes(self) -> Sequence[Probe]:
        """All observation points."""
        return self._declared

    def read(self, probe: str) -> Any:
        """Return the value of a probe. Raises KeyError for an unknown one."""
        return self._probes.read(probe)

    def write(self, probe: str, value: Any) -> None:
        """Set a writable probe. Raises KeyError (unknown) or ValueError (not writable, bad value)."""
        self._probes.write(probe, value)

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        """Return the entries of a queue now, head first."""
        return self._eyes.queue_entries(queue)

    def unit_states(self, most: int | None = None) -> Sequence[UnitState]:
        """Return what every unit does now; or only the first `most` units."""
        return list(islice(self._eyes.unit_states(), most))

    def next_instructions(self) -> dict[int, int]:
        """Return, for each unit id, the index of the instruction that it takes next."""
        return self._eyes.next_instructions()

    def activities(self) -> Sequence[Activity]:
        """Return the intervals under way now."""
        return self._eyes.activities()

    def summary(self) -> RunSummary:
        """Return the totals so far."""
        return self._eyes.summary()
