"""What machines over a kernel's root state have in common: the contract around engine, observer and image.

A target's machine derives from it and adds what is its own: faults, probes, contents.
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
    """State words of a machine and the one way to move them."""

    @property
    def state(self) -> np.ndarray:
        """(words,) int64 root state."""
        ...

    @property
    def event_margin(self) -> int:
        """Event rows one cycle may need."""
        ...

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> tuple[int, np.ndarray]:
        """Run the kernel; returns its result code and a hit word per stop row."""
        ...

    def used_state(self) -> np.ndarray:
        """The words in use (a view)."""
        ...

    def restore_state(self, words: np.ndarray) -> None:
        """Take over words that `used_state` gave."""
        ...


class KernelObserver(Protocol):
    """Reads a root state for people."""

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Entries of a queue now, head first."""
        ...

    def unit_states(self) -> Iterable[UnitState]:
        """What every unit does now, by unit id; where there are many, made one by one."""
        ...

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> instruction it takes next."""
        ...

    def activities(self) -> list[Activity]:
        """Intervals that the trace does not hold yet."""
        ...

    def summary(self) -> RunSummary:
        """Totals so far."""
        ...


class KernelImage(Protocol):
    """What snapshots share beside the words."""

    def digest(self) -> str:
        """Covers everything in it."""
        ...


class KernelMachine(ABC):
    """Half of npuviz.sim.machine.Machine; contents are the derived class's own."""

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
        """What it runs."""
        return self._program

    @property
    def cycle(self) -> int:
        """Base cycles completed."""
        return int(self._kernel.state[CYCLE_WORD])

    @property
    def is_finished(self) -> bool:
        """Whether the program has ended."""
        return int(self._kernel.state[STATUS_WORD]) == STATUS_FINISHED

    @property
    def event_rows_per_cycle(self) -> int:
        """Event rows one cycle may need at most."""
        return self._kernel.event_margin

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        """Run; see the contract."""
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
        """The stop at breakpoints, with what hit words tell of it: a unit, an instruction, a sentence."""
        return StopReason(StopKind.BREAKPOINT, self.cycle, ids)

    @abstractmethod
    def _broken(self, result: int) -> StopReason:
        """Why the simulated chip cannot go on: a result code of the target's own."""

    def snapshot(self) -> Snapshot:
        """Copy the whole state; values follow from it."""
        return Snapshot(self.cycle, self._kernel.used_state().copy(), self._image)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot of this machine."""
        self._kernel.restore_state(snapshot.words)
        self._image = snapshot.image

    def digest(self) -> str:
        """Digest of state and image; values follow from both and the program."""
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
        """Value of a probe. Raises KeyError for an unknown one."""
        return self._probes.read(probe)

    def write(self, probe: str, value: Any) -> None:
        """Set a writable probe. Raises KeyError (unknown) or ValueError (not writable, bad value)."""
        self._probes.write(probe, value)

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        """Entries of a queue now, head first."""
        return self._eyes.queue_entries(queue)

    def unit_states(self, most: int | None = None) -> Sequence[UnitState]:
        """What every unit does now; of the first `most` units alone if that is given."""
        return list(islice(self._eyes.unit_states(), most))

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> index of the instruction it takes next."""
        return self._eyes.next_instructions()

    def activities(self) -> Sequence[Activity]:
        """Intervals under way now."""
        return self._eyes.activities()

    def summary(self) -> RunSummary:
        """Totals so far."""
        return self._eyes.summary()
