"""What the memory panel asks a machine in one go, so that it can be asked in another thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.sim.machine import Region, StillMemories

MAX_KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The regions of a memory at one cycle and the bytes that are shown of it.

    data  bytes from `address` on; empty where nothing is shown or it is larger than MAX_KEPT_BYTES
    """

    source: StillMemories
    memory: int
    regions: tuple[Region, ...]
    address: int
    data: bytes

    def read(self, address: int, size_bytes: int) -> bytes:
        """Bytes of the memory. Raises ValueError outside of it."""
        offset = address - self.address
        if offset >= 0 and offset + size_bytes <= len(self.data):
            return self.data[offset : offset + size_bytes]
        return self.source.read_memory(self.memory, address, size_bytes)


def ask_memory(source: StillMemories, memory: int, chosen: tuple[int, int] | None) -> MemoryAnswer:
    """Regions of a memory and the bytes of a range (address, size); None: of its first region."""
    regions = tuple(source.regions(memory))
    address, size = chosen if chosen is not None else _first(regions)
    data = source.read_memory(memory, address, size) if 0 < size <= MAX_KEPT_BYTES else b""
    return MemoryAnswer(source, memory, regions, address, data)


def _first(regions: Sequence[Region]) -> tuple[int, int]:
    return (regions[0].address, regions[0].size_bytes) if regions else (0, 0)
