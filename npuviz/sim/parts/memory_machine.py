"""Kernel machines with memories: contents follow from the state and an image of what was written by hand."""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from npuviz.sim.machine import Findings, Hazard, Region, StillMemories
from npuviz.sim.parts.kernel_machine import KernelMachine


class MemoryContents(Protocol):
    """Reads the memories of a state; images are the target's own and never change."""

    def regions(self, memory: int, image: Any, /) -> Sequence[Region]:
        """What a memory holds, sorted by address."""
        ...

    def read(self, memory: int, address: int, size_bytes: int, image: Any, /) -> bytes:
        """Bytes of a memory. Raises ValueError outside of it."""
        ...

    def write(self, memory: int, address: int, data: bytes, image: Any, /) -> Any:
        """An image with these bytes changed from now on. Raises ValueError outside of the memory."""
        ...

    def tensor(self, tensor: int, image: Any, /) -> np.ndarray | None:
        """Values of a tensor as far as they are stored, None where there are none."""
        ...

    def still(self) -> "MemoryContents":
        """The same for a copy of the present state."""
        ...


class CheckedContents(MemoryContents, Protocol):
    """Contents that tell which reads and writes nothing ordered."""

    def memory_hazards(self, image: Any, /) -> Findings:
        """Of everything that has completed up to now."""
        ...

    def still(self) -> "CheckedContents":
        """The same for a copy of the present state."""
        ...


class HazardContents(CheckedContents, Protocol):
    """Contents that tell what went wrong while they were computed."""

    def hazards(self, image: Any, /) -> Sequence[Hazard]:
        """Hazards so far, by cycle; values are computed first."""
        ...

    def still(self) -> "HazardContents":
        """The same for a copy of the present state."""
        ...


Memories = TypeVar("Memories", bound=MemoryContents)
Checked = TypeVar("Checked", bound=CheckedContents)
Computed = TypeVar("Computed", bound=HazardContents)


class StillContents:
    """The memories at one cycle, for another thread."""

    def __init__(self, contents: MemoryContents, image: Any) -> None:
        self._contents = contents
        self._image = image

    def regions(self, memory: int) -> Sequence[Region]:
        """What a memory held."""
        return self._contents.regions(memory, self._image)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory. Raises ValueError outside of it."""
        return self._contents.read(memory, address, size_bytes, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor at that cycle."""
        return self._contents.tensor(tensor, self._image)


class StillOrders(StillContents):
    """Memories at one cycle, and what nothing had ordered up to it."""

    def __init__(self, contents: CheckedContents, image: Any) -> None:
        super().__init__(contents, image)
        self._checked = contents

    def memory_hazards(self) -> Findings:
        """What is wrong in reads and writes up to that cycle."""
        return self._checked.memory_hazards(self._image)


class StillHazards(StillOrders):
    """Memories and hazards at one cycle."""

    def __init__(self, contents: HazardContents, image: Any) -> None:
        super().__init__(contents, image)
        self._computed = contents

    def hazards(self) -> Sequence[Hazard]:
        """Hazards up to that cycle."""
        return self._computed.hazards(self._image)


class MemoryMachine(KernelMachine, Generic[Memories]):
    """The half of npuviz.sim.machine.Machine that KernelMachine lacks; a derived class gives the contents."""

    _contents: Memories

    def regions(self, memory: int) -> Sequence[Region]:
        """What a memory holds now."""
        return self._contents.regions(memory, self._image)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        """Bytes of a memory now."""
        return self._contents.read(memory, address, size_bytes, self._image)

    def still_memories(self) -> StillMemories:
        """The memories as they are now, for another thread."""
        return StillContents(self._contents.still(), self._image)

    def write_memory(self, memory: int, address: int, data: bytes) -> None:
        """Change bytes of a memory from now on; they flow into results."""
        self._image = self._contents.write(memory, address, data, self._image)

    def tensor(self, tensor: int) -> np.ndarray | None:
        """Values of a tensor as far as they are stored."""
        return self._contents.tensor(tensor, self._image)


class CheckedMachine(MemoryMachine[Checked]):
    """A machine whose contents tell which reads and writes nothing ordered."""

    def still_memories(self) -> StillMemories:
        """The memories as they are now, and what nothing had ordered, for another thread."""
        return StillOrders(self._contents.still(), self._image)

    def memory_hazards(self) -> Findings:
        """Reads and writes that nothing ordered, whatever this run's timing made of them."""
        return self._contents.memory_hazards(self._image)


class HazardMachine(CheckedMachine[Computed]):
    """A machine whose contents tell of hazards."""

    def still_memories(self) -> StillMemories:
        """The memories and hazards as they are now, for another thread."""
        return StillHazards(self._contents.still(), self._image)

    def hazards(self) -> Sequence[Hazard]:
        """Hazards up to now; values are computed first."""
        return self._contents.hazards(self._image)
