"""Describe where tensors lie in the large memories of a machine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor's place: byte range [address, address + size_bytes) of memory `memory`."""

    tensor: int
    memory: int
    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """All allocations, sorted by memory and address. Ranges of one memory may not overlap."""

    allocations: tuple[Allocation, ...] = ()

    def of_tensor(self, tensor: int) -> Allocation | None:
        """Return the allocation of a tensor, or None."""
        for allocation in self.allocations:
            if allocation.tensor == tensor:
                return allocation
        return None
