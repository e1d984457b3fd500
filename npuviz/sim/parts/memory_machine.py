"""Add memories to kernel machines: contents follow from the state and an image of bytes written by hand."""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from npuviz.sim.machine import Findings, Hazard, Region, StillMemories
from npuviz.sim.parts.kernel_machine import KernelMachine


class MemoryContents(Protocol):
    """Reads the memories of a state. Images are of the target's own type and never change."""

    def regions(self, memory: int, image: Any, /) -> Sequence[Region]:
        """Return what a memory holds, sorted by address."""
        ...

    def read(self, memory: int, address: int, size_bytes: int, image: Any, /) -> bytes:
        """Return bytes of a memory. Raises ValueError outside of it."""
        ...

    def write(self, memory: int, address: int, data: bytes, image: Any, /) -> Any:
        """Return an image with these bytes changed from now on. Raises ValueError outside of the memory."""
        ...

    def tensor(self, tensor: int, image: Any, /) -> np.ndarray | None:
        """Return the values of a tensor as far as they are stored, None where there are none."""
        ...

    def still(self) -> "MemoryContents":
        """Return the contents of a copy of the present state."""
        ...


class CheckedContents(MemoryContents, Protocol):
    """Contents that also find reads and writes which nothing orders."""

    def memory_hazards(self, image: Any, /) -> Findings:
        """Return the findings about everything that has completed up to now."""
        ...

    def still(self) -> "CheckedContents":
        """Return the contents of a copy of the present state."""
        ...


class HazardContents(CheckedContents, Protocol):
    """Contents that also find what goes wrong while values are computed."""

    def hazards(self, image: Any, /) -> Sequence[Hazard]:
        """Return the hazards so far, by cycle; computes the values first."""
        ...

    def still(self) -> "HazardContents":
        """Return the contents of a copy of the present state."""
        ...


Memories = TypeVar("Memories", bound=MemoryContents)
Checked = TypeVar("Checked", bound=CheckedContents)
Computed = TypeVar("Computed", bound=HazardContents)


class StillContents:
    """The memories as they were at one cycle, for another thread."""

    def __init__(self, contents: MemoryContents, image: Any) -> None:
        self._contents = contents
        self._image = image

    def regions(self, memory: int) -> Sequence[Region]:
        """Return what a memory held."""
        return self._contents.regions(memory, self._image)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Return bytes of a memory. Raises ValueError outside of it."""
        return self._contents.read(memory, address, size_bytes, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Return the values of a tensor at that cycle."""
        return self._contents.tensor(tensor, self._image)


class StillOrders(StillContents):
    """The memories as they were at one cycle, with the findings about their reads and writes up to it."""

    def __init__(self, contents: CheckedContents, image: Any) -> None:
        super().__init__(contents, image)
        self._checked = contents

    def memory_hazards(self) -> Findings:
        """Return the findings about reads and writes up to that cycle."""
        return self._checked.memory_hazards(self._image)


class StillHazards(StillOrders):
    """The memories as they were at one cycle, with all hazards up to it."""

    def __init__(self, contents: HazardContents, image: Any) -> None:
        super().__init__(contents, image)
        self._computed = contents

    def hazards(self) -> Sequence[Hazard]:
        """Return the hazards up to that cycle."""
        return self._computed.hazards(self._image)


class MemoryMachine(KernelMachine, Generic[Memories]):
    """The half of npuviz.sim.machine.Machine that KernelMachine lacks; a derived class sets `_contents`."""

    _contents: Memories

    def regions(self, memory: int) -> Sequence[Region]:
        """Return what a memory holds now."""
        return self._contents.regions(memory, self._image)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Return bytes of a memory now."""
        return self._contents.read(memory, address, size_bytes, self._image)

    def still_memories(self) -> StillMemories:
        """Return the memories as they are now, for another thread."""
        return StillContents(self._contents.still(), self._image)

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on; results computed from them change too."""
        self._image = self._contents.write(memory, address, data, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Return the values of a tensor as far as they are stored."""
        return self._contents.tensor(tensor, self._image)


class CheckedMachine(MemoryMachine[Checked]):
    """A machine that finds reads and writes which nothing orders."""

    def still_memories(self) -> StillMemories:
        """Return the memories as they are now, with the findings about reads and writes,
        for another thread."""
        return StillOrders(self._contents.still(), self._image)

    def memory_hazards(self) -> Findings:
        """Return the findings about reads and writes, whether or not this run read the right bytes."""
        return self._contents.memory_hazards(self._image)


class HazardMachine(CheckedMachine[Computed]):
    """A machine that finds hazards in computed values, too."""

    def still_memories(self) -> StillMemories:
        """Return the memories as they are now, with their hazards, for another thread."""
        return StillHazards(self._contents.still(), self._image)

    def hazards(self) -> Sequence[Hazard]:
        """Return the hazards up to now; computes the values first."""
        return self._contents.hazards(self._image)
