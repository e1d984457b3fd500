"""The contract of a machine: deterministic, forward-only, all state in one root record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.events import EventBuffer
from npuviz.sim.probe import Probe
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import StopReason


@dataclass(frozen=True, slots=True)
class Region:
    """A range of a memory as it is now.

    address, size_bytes  absolute byte range in the memory, of its first bank if `banks` is more than 1
    tensor, label        what it holds: tensor id (-1: none) and a short text
    shape, dtype         how to read the bytes as numbers
    is_valid             False while the bytes are still on their way
    since                cycle at which it was allocated
    instruction          the instruction that writes it, -1 if none
    banks                the same range lies in this many banks that follow each other, as a tile over
                         partitions does; `shape` then tells of all of them, the first dimension the banks
    """

    address: int
    size_bytes: int
    tensor: int
    label: str
    shape: tuple[int, ...]
    dtype: str
    is_valid: bool
    since: int
    instruction: int = -1
    banks: int = 1

    def holds(self, address: int, bank_bytes: int) -> bool:
        """Whether a byte of the memory, whose banks have this size, lies in the region."""
        bank, inside = (
            divmod(address - self.address, bank_bytes) if self.banks > 1 else (0, address - self.address)
        )
        return 0 <= bank < self.banks and 0 <= inside < self.size_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes in all of its banks."""
        return self.size_bytes * self.banks


class QueueEntry(NamedTuple):
    """One entry of a queue, head first: its text and the instruction it carries (-1: none).

    word  id of the word of a fabric that it is (npuviz.sim.fabric), -1 for other entries
    """

    text: str
    instruction: int = -1
    node: int = -1
    word: int = -1


class Activity(NamedTuple):
    """An interval that the trace does not hold yet: under way, or ended but not retired.

    planned_end  -1 if it is not known; it may lie before now
    """

    track: int
    start: int
    planned_end: int
    kind: int
    node: int
    instruction: int


class UnitState(NamedTuple):
    """A unit now: a word for what it does, the reason if it waits, and the instruction it holds."""

    unit: int
    status: str
    role: str
    detail: str = ""
    instruction: int = -1
    since: int = -1


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Totals of the run so far, all of them counted by the machine.

    units     (name, busy cycles, waiting cycles) of each unit that has a track of intervals, as
              npuviz.trace.unit_times counts them
    queues    (name, peak entries, capacity)
    memories  (name, peak bytes in use, size in bytes); counters: name -> value
    """

    units: tuple[tuple[str, int, int], ...] = ()
    queues: tuple[tuple[str, int, int], ...] = ()
    memories: tuple[tuple[str, int, int], ...] = ()
    counters: dict[str, int] = field(default_factory=dict[str, int])


@runtime_checkable
class StillMemories(Protocol):
    """The memories of a machine at one cycle, whatever the machine does meanwhile.

    Another thread may ask while the machine goes on; an answer may take long the first time.
    """

    def regions(self, memory: int) -> Sequence[Region]:
        """As `Machine.regions` at that cycle."""
        ...

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """As `Machine.read_memory` at that cycle."""
        ...


@runtime_checkable
class HasTensors(Protocol):
    """Something that knows tensors as they are; what `still_memories` returns should."""

    def tensor(self, tensor: int) -> np.ndarray | None:
        """As `Machine.tensor` at its cycle."""
        ...


@runtime_checkable
class HasStillMemories(Protocol):
    """A machine whose contents may be costly to ask for, so that a window asks in another thread."""

    def still_memories(self) -> StillMemories:
        """The memories as they are now. Costs a copy of the state, no more."""
        ...


@dataclass(frozen=True, slots=True)
class Wait:
    """A unit that waits for a semaphore: it goes on once `value comparison needed` holds."""

    unit: int
    instruction: int
    comparison: str
    needed: int


@dataclass(frozen=True, slots=True)
class SemaphoreState:
    """A semaphore now.

    group    hierarchical name of what it belongs to ("Core[0]")
    use      who updates it, for people ("qSpLoad", "PE"); "" if unknown
    waiting  who waits for it now
    updater  the instruction that changed it last, -1 if none has
    """

    id: int
    name: str
    group: str
    value: int
    use: str = ""
    waiting: tuple[Wait, ...] = ()
    updater: int = -1


@runtime_checkable
class HasSemaphores(Protocol):
    """A machine whose units synchronise by counting semaphores."""

    def semaphores(self) -> Sequence[SemaphoreState]:
        """Every semaphore the program uses, by id."""
        ...


HOST_OPERATOR = "host-operator"
"""Kind of the hazard that the Host could not compute an operator."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something the hardware leaves to the programmer went wrong.

    kind  short stable word, e.g. "input-range"; text is one sentence for the user
    level "error": on the chip results are wrong or nothing goes on; "warning": they may be
    other the second instruction that it takes, such as the write that a read does not wait for; -1: none
    place the bytes or the thing it concerns, for people; mend  what to change in the program; "" if unknown
    """

    cycle: int
    unit: str
    instruction: int
    kind: str
    text: str
    level: Literal["error", "warning"] = "error"
    other: int = -1
    place: str = ""
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong, by cycle; not_checked  what was not looked at or not listed."""

    hazards: tuple[Hazard, ...] = ()
    not_checked: tuple[str, ...] = ()


@runtime_checkable
class HasHazards(Protocol):
    """A machine that looks for hazards in what its instructions compute.

    What `HasStillMemories.still_memories` returns may have it too: a window then asks that, in another
    thread, while the machine may go on.
    """

    def hazards(self) -> Sequence[Hazard]:
        """Hazards up to now, by cycle. May have to compute values first, which may take seconds."""
        ...


@runtime_checkable
class ChecksMemory(Protocol):
    """A machine that can tell which reads and writes nothing ordered, whether or not the bytes were right.

    What `still_memories` returns may have it too, as with `HasHazards`.
    """

    def memory_hazards(self) -> Findings:
        """Of everything that has completed up to now (npuviz.sim.checks)."""
        ...


@runtime_checkable
class LogsHazards(HasHazards, Protocol):
    """A machine that notes hazards while it runs: asking computes nothing, so everybody may ask any time."""

    @property
    def logs_hazards(self) -> bool:
        """Whether it does so in this mode."""
        ...


@runtime_checkable
class HasReports(Protocol):
    """A machine that can sum up its run so far in tables of its own: by operator, by bottleneck."""

    def reports(self) -> Sequence[DetailTable]:
        """Tables about what has finished up to now."""
        ...


@runtime_checkable
class HasHostTimes(Protocol):
    """A machine that knows how long the Host takes for each operator that it runs."""

    def host_cycles(self) -> Mapping[int, int]:
        """Node -> cycles of the Host in a run without other latencies (-1: conversions of no operator)."""
        ...


@dataclass(frozen=True, slots=True)
class Peak:
    """What a run used of something that it cannot use more of than there is.

    used, limit  in `measure`; with is_exact they are the same thing counted in two places, and equal
    """

    name: str
    used: float
    limit: float
    measure: str
    is_exact: bool = False

    @property
    def is_plausible(self) -> bool:
        """Whether nothing was used that was not there, and nothing got lost."""
        rounding = 1e-9 * max(abs(self.limit), 1.0)
        return self.used <= self.limit + rounding and not (
            self.is_exact and self.used < self.limit - rounding
        )


@runtime_checkable
class HasPeaks(Protocol):
    """A machine that knows what its parts can do at most, and counts what they did."""

    def peaks(self) -> Sequence[Peak]:
        """Of everything that has a peak, up to now. Nothing is said of what is still under way."""
        ...


@dataclass(frozen=True, slots=True)
class WaitLink:
    """Something that cannot go on, or the reason why the one before it cannot.

    unit   whose it is; that of the link before where the place has no unit
    what   one sentence without its unit; `instruction` is the one it concerns, -1 none
    waits  whether something else has to happen first: the next link tells it, if it is known
    """

    unit: int
    what: str
    instruction: int = -1
    waits: bool = True


@runtime_checkable
class HasWaitChains(Protocol):
    """A machine that knows from its state what a unit waits for, through other units, to a reason."""

    def wait_chain(self, unit: int) -> Sequence[WaitLink]:
        """From what a unit waits for now to the reason; () for one at work."""
        ...


@runtime_checkable
class HasUnitStops(Protocol):
    """A machine whose instructions belong to no unit of the listing: it tells itself what a unit starts."""

    def unit_stops(self, unit: int) -> np.ndarray:
        """Stop rows, with breakpoint id 0, that hit when a unit starts its next piece of work."""
        ...


class Machine(Protocol):
    """One simulated chip with one program. The same spec, program and state give the same next state,
    in any chunking of `advance`, with recording on or off."""

    @property
    def description(self) -> MachineDescription:
        """What the machine consists of."""
        ...

    @property
    def program(self) -> Program:
        """What it runs."""
        ...

    @property
    def cycle(self) -> int:
        """Base-clock cycles completed."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether the program has ended."""
        ...

    @property
    def event_rows_per_cycle(self) -> int:
        """Event rows one cycle may need at most: the least capacity of a buffer for `advance`."""
        ...

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        """Run until `cycle == until`, a stop row hits, a fault, the end, or a full event buffer.

        until   absolute cycle; not after it: nothing happens
        stops   (n, 6) int64 rows of npuviz.sim.stop
        events  where events go, or None to record nothing
        """
        ...

    def snapshot(self) -> Snapshot:
        """Copy the whole state."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot of this machine."""
        ...

    def digest(self) -> str:
        """Hexadecimal digest of the whole state."""
        ...

    @property
    def probes(self) -> Sequence[Probe]:
        """All observation points."""
        ...

    def read(self, probe: str) -> Any:
        """Value of a probe: a Python number for a scalar, else an array of its shape and type.

        Raises KeyError for an unknown probe.
        """
        ...

    def write(self, probe: str, value: Any) -> None:
        """Set a writable probe. Raises KeyError (unknown) or ValueError (not writable, bad value)."""
        ...

    def regions(self, memory: int) -> Sequence[Region]:
        """What a memory holds now, sorted by address."""
        ...

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory now; bytes nobody wrote are 0. Raises ValueError outside the memory."""
        ...

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on. Raises ValueError outside the memory."""
        ...

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        """Entries of a queue now, head first."""
        ...

    def unit_states(self, most: int | None = None) -> Sequence[UnitState]:
        """What every unit does now, by unit id; of the first `most` units alone if that is given."""
        ...

    def next_instructions(self) -> dict[int, int]:
        """Unit id -> index of the instruction its sequencer holds next (the program counter)."""
        ...

    def activities(self) -> Sequence[Activity]:
        """Intervals under way now, which the trace does not hold yet."""
        ...

    def summary(self) -> RunSummary:
        """Totals so far."""
        ...

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor as the machine holds them now (elements not yet written are 0), or None."""
        ...
