"""Define the contract of a machine: deterministic, forward-only, all state in one root record."""

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
    """A range of a memory that holds one thing now.

    address, size_bytes  absolute byte range in the memory, of its first bank if `banks` is more than 1
    tensor, label        the tensor that it holds (-1: none) and a short text
    shape, dtype         how to read the bytes as numbers
    is_valid             False while the bytes are still on their way
    since                cycle at which it was allocated
    instruction          the instruction that writes it, -1 if none
    banks                the range is repeated in this many consecutive banks, as a tile over
                         partitions is; `shape` then covers all of them, with the banks as first dimension
    aliases              further names that the program's text has for it
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
    aliases: tuple[str, ...] = ()

    def is_called(self, name: str) -> bool:
        """Whether this is one of its names."""
        return bool(name) and (name == self.label or name in self.aliases)

    def holds(self, address: int, bank_bytes: int) -> bool:
        """Whether a byte address of the memory, whose banks have this size, lies in the region."""
        bank, inside = (
            divmod(address - self.address, bank_bytes) if self.banks > 1 else (0, address - self.address)
        )
        return 0 <= bank < self.banks and 0 <= inside < self.size_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of the region in all of its banks."""
        return self.size_bytes * self.banks


class QueueEntry(NamedTuple):
    """One entry of a queue: its text and the instruction that it carries (-1: none).

    word  id of the fabric's word that the entry is (npuviz.sim.fabric), -1 for other entries
    """

    text: str
    instruction: int = -1
    node: int = -1
    word: int = -1


class Activity(NamedTuple):
    """An interval that the trace does not have yet: it is under way, or has ended but not retired.

    planned_end  -1 if it is not known; it may lie in the past
    """

    track: int
    start: int
    planned_end: int
    kind: int
    node: int
    instruction: int


class UnitState(NamedTuple):
    """What a unit does now: a word for it, the reason if it waits, and the instruction that it holds."""

    unit: int
    status: str
    role: str
    detail: str = ""
    instruction: int = -1
    since: int = -1


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Totals of the run so far, counted by the machine.

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
    """The memories of a machine as they were at one cycle, while the machine may go on.

    Another thread may call it meanwhile; the first call may take long.
    """

    def regions(self, memory: int) -> Sequence[Region]:
        """Return what `Machine.regions` returned at that cycle."""
        ...

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Return what `Machine.read_memory` returned at that cycle."""
        ...


@runtime_checkable
class HasTensors(Protocol):
    """An object that knows the tensors' values at its cycle; the result of `still_memories` should be one."""

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Return what `Machine.tensor` returned at its cycle."""
        ...


@runtime_checkable
class HasStillMemories(Protocol):
    """A machine whose memory contents may take long to compute,
    so that a window asks for them in another thread."""

    def still_memories(self) -> StillMemories:
        """Return the memories as they are now. Only copies the state."""
        ...


@dataclass(frozen=True, slots=True)
class Wait:
    """A unit that waits for a semaphore, until `value comparison needed` holds."""

    unit: int
    instruction: int
    comparison: str
    needed: int


@dataclass(frozen=True, slots=True)
class SemaphoreState:
    """A semaphore now.

    group    hierarchical name of the unit group that it belongs to ("Core[0]")
    use      name of the unit or queue that updates it ("qSpLoad", "PE"); "" if unknown
    waiting  units that wait for it now
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
        """Return every semaphore that the program uses, by id."""
        ...


HOST_OPERATOR = "host-operator"
"""Kind of the hazard that an operator could not be computed on the Host."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something that the hardware leaves to the programmer and that went wrong.

    kind  short stable word, e.g. "input-range"; text is one sentence for the user
    level "error": on the chip results are wrong or the program hangs; "warning": they may be wrong
    other the second instruction involved, such as the write that a read does not wait for; -1: none
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
    """What is wrong, by cycle. not_checked  what was not checked or not listed, in words"""

    hazards: tuple[Hazard, ...] = ()
    not_checked: tuple[str, ...] = ()


@runtime_checkable
class HasHazards(Protocol):
    """A machine that looks for hazards in what its instructions compute.

    The result of `HasStillMemories.still_memories` may implement it too: a window then calls it in another
    thread, while the machine may go on.
    """

    def hazards(self) -> Sequence[Hazard]:
        """Return the hazards up to now, by cycle. May compute values first, which may take seconds."""
        ...


@runtime_checkable
class ChecksMemory(Protocol):
    """A machine that finds reads and writes which nothing orders, whether or not the bytes were right.

    The result of `still_memories` may implement it too, as with `HasHazards`.
    """

    def memory_hazards(self) -> Findings:
        """Return the findings (npuviz.sim.checks) about everything that has completed up to now."""
        ...


@runtime_checkable
class LogsHazards(HasHazards, Protocol):
    """A machine that records hazards while it runs,
    so that `hazards` computes nothing and may be called at any time."""

    @property
    def logs_hazards(self) -> bool:
        """Whether the machine records hazards in its present mode."""
        ...


@runtime_checkable
class HasReports(Protocol):
    """A machine that sums up its run so far in tables of its own: by operator, by bottleneck."""

    def reports(self) -> Sequence[DetailTable]:
        """Return tables about what has finished up to now."""
        ...


@runtime_checkable
class HasEmptyReports(Protocol):
    """A machine that tells which of its reports have nothing to say yet, or any more."""

    def empty_reports(self) -> Sequence[DetailTable]:
        """Return the tables that have no rows now, beside those of `HasReports.reports`."""
        ...


@runtime_checkable
class HasHostTimes(Protocol):
    """A machine that knows how long the Host takes for each operator that runs there."""

    def host_cycles(self) -> Mapping[int, int]:
        """Return the Host's cycles by node, with nominal latencies;
        node -1 stands for conversions of no operator."""
        ...


@dataclass(frozen=True, slots=True)
class Peak:
    """What a run used of a resource, and the most that it can use.

    used, limit  in units of `measure`; is_exact: both count the same thing in two places and must be equal
    """

    name: str
    used: float
    limit: float
    measure: str
    is_exact: bool = False

    @property
    def is_plausible(self) -> bool:
        """Whether no more was used than there is and, with `is_exact`, nothing is missing."""
        rounding = 1e-9 * max(abs(self.limit), 1.0)
        return self.used <= self.limit + rounding and not (
            self.is_exact and self.used < self.limit - rounding
        )


@runtime_checkable
class HasPeaks(Protocol):
    """A machine that knows how much its parts can do at most, and counts what they did."""

    def peaks(self) -> Sequence[Peak]:
        """Return the peaks of all limited resources up to now; work still under way is not counted."""
        ...


@dataclass(frozen=True, slots=True)
class WaitLink:
    """One link of a chain of waits: something that cannot go on, or the reason why the link before it cannot.

    unit   its unit; that of the link before if it has none
    what   one sentence that does not name the unit; `instruction` is the one it concerns, -1 none
    waits  whether something else has to happen first, which the next link is, if it is known
    """

    unit: int
    what: str
    instruction: int = -1
    waits: bool = True


@runtime_checkable
class HasWaitChains(Protocol):
    """A machine that can follow from its state what a unit waits for, through other units, to the cause."""

    def wait_chain(self, unit: int) -> Sequence[WaitLink]:
        """Return the chain from what a unit waits for now to the cause; () for a unit at work."""
        ...


@runtime_checkable
class HasUnitStops(Protocol):
    """A machine whose instructions belong to no unit of the listing,
    and which makes the stops for a unit itself."""

    def unit_stops(self, unit: int) -> np.ndarray:
        """Return stop rows, with breakpoint id 0, that hit when a unit starts its next piece of work."""
        ...


class Machine(Protocol):
    """One simulated chip with one program. The same spec, program and state lead to the same next state,
    however `advance` is cut into calls and whether or not the run is recorded."""

    @property
    def description(self) -> MachineDescription:
        """What the machine consists of."""
        ...

    @property
    def program(self) -> Program:
        """The program that the machine runs."""
        ...

    @property
    def cycle(self) -> int:
        """Number of base-clock cycles completed."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether the program has ended."""
        ...

    @property
    def event_rows_per_cycle(self) -> int:
        """Most event rows that one cycle may need: the least capacity of a buffer for `advance`."""
        ...

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        """Run until `cycle == until`, a stop row hits, a fault, the end of the program,
        or a full event buffer.

        until   absolute cycle; if it is not later than `cycle`, nothing happens
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
        """Return a hexadecimal digest of the whole state."""
        ...

    @property
    def probes(self) -> Sequence[Probe]:
        """All observation points."""
        ...

    def read(self, probe: str) -> Any:
        """Return the value of a probe: a Python number for a scalar, else an array of its shape and type.

        Raises KeyError for an unknown probe.
        """
        ...

    def write(self, probe: str, value: Any) -> None:
        """Set a writable probe. Raises KeyError (unknown) or ValueError (not writable, bad value)."""
        ...

    def regions(self, memory: int) -> Sequence[Region]:
        """Return what a memory holds now, sorted by address."""
        ...

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Return bytes of a memory now; bytes never written are 0. Raises ValueError outside the memory."""
        ...

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on. Raises ValueError outside the memory."""
        ...

    def queue_entries(self, queue: int) -> Sequence[QueueEntry]:
        """Return the entries of a queue now, head first."""
        ...

    def unit_states(self, most: int | None = None) -> Sequence[UnitState]:
        """Return what every unit does now, by unit id; or only the first `most` units."""
        ...

    def next_instructions(self) -> dict[int, int]:
        """Return, for each unit id, the index of the instruction that its sequencer
        executes next (the program counter)."""
        ...

    def activities(self) -> Sequence[Activity]:
        """Return the intervals under way now, which the trace does not have yet."""
        ...

    def summary(self) -> RunSummary:
        """Return the totals so far."""
        ...

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Return a tensor's values as the machine holds them now (elements not yet written are 0),
        or None."""
        ...
