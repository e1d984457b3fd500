"""Describe what a machine consists of as data, which shared code reads in place of asking for the target."""

from dataclasses import dataclass, field
from typing import Any, Literal

from npuviz.trace.schema import Kind, Track

MemoryRole = Literal["scratchpad", "accumulator", "dram"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A part that works: a sequencer, an array, a DRAM channel. `group` is the name of its parent."""

    id: int
    name: str
    group: str = ""
    doc: str = ""
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """A byte-addressed memory. Banks of equal size follow each other: bank b starts at b * bank_bytes."""

    id: int
    name: str
    role: MemoryRole
    size_bytes: int
    num_banks: int = 1
    dtype: str = "float32"
    doc: str = ""

    @property
    def bank_bytes(self) -> int:
        """Bytes of one bank."""
        return self.size_bytes // self.num_banks


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its capacity in entries, 0 for no limit.
    `probe` is the name of the probe of its occupancy."""

    id: int
    name: str
    unit: int
    capacity: int
    probe: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A connection between two units, for drawings."""

    source: int
    sink: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class ClockDomain:
    """A clock and its frequency in Hz. The first domain is the base clock."""

    name: str
    frequency_hz: float


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of the floorplan in abstract units; `unit` and `memory` are ids, -1 if it shows none."""

    x: float
    y: float
    width: float
    height: float
    label: str
    unit: int = -1
    memory: int = -1
    role: str = ""


@dataclass(frozen=True, slots=True)
class MachineDescription:
    """Everything that a machine consists of, as counts and rules, not one object per processing element.

    features  what the machine has beyond units and queues, by name, with plain data, for example
              {"systolic grid": {"rows": 128, "columns": 128}}; panels ask for features by name
    kinds     every interval kind the machine can emit
    limits    sentences about what the simulation leaves out
    """

    target: str
    title: str
    clocks: tuple[ClockDomain, ...]
    units: tuple[Unit, ...]
    memories: tuple[Memory, ...]
    queues: tuple[Queue, ...]
    links: tuple[Link, ...]
    tracks: tuple[Track, ...]
    kinds: tuple[Kind, ...]
    floorplan: tuple[Box, ...] = ()
    features: dict[str, Any] = field(default_factory=dict[str, Any])
    limits: tuple[str, ...] = ()

    @property
    def base_clock(self) -> ClockDomain:
        """The clock whose cycles the simulator counts."""
        return self.clocks[0]

    def unit_named(self, name: str) -> Unit | None:
        """Return the unit of this name, or None."""
        return next((unit for unit in self.units if unit.name == name), None)

    def queue_named(self, name: str) -> Queue | None:
        """Return the queue of this name, or None."""
        return next((queue for queue in self.queues if queue.name == name), None)

    def memory_named(self, name: str) -> Memory | None:
        """Return the memory of this name, or None."""
        return next((memory for memory in self.memories if memory.name == name), None)
