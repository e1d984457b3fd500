"""What the memory panel asks a machine in one go, so that it can be asked in another thread."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from npuviz.sim.description import Memory
from npuviz.sim.machine import Region, StillMemories
from npuviz.ui.memory.layout import MAX_SHOWN_BANKS
from npuviz.ui.memory.partitions import over_banks
from npuviz.workbench.selection import MemoryRange

MAX_KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The regions of a memory at one cycle and the bytes that are shown of it.

    pieces  address -> bytes; empty where nothing is shown or it is larger than MAX_KEPT_BYTES; more are
            added when they are wanted
    """

    source: StillMemories
    memory: int
    regions: tuple[Region, ...]
    pieces: dict[int, bytes]

    def kept(self, address: int, size_bytes: int) -> bytes | None:
        """Bytes that are there already, None if the machine would have to be asked."""
        found = self.pieces.get(address)
        if found is not None and len(found) >= size_bytes:
            return found[:size_bytes]
        for start, data in self.pieces.items():
            offset = address - start
            if offset >= 0 and offset + size_bytes <= len(data):
                return data[offset : offset + size_bytes]
        return None


def ask_pieces(source: StillMemories, memory: int, wanted: Iterable[tuple[int, int]]) -> dict[int, bytes]:
    """Bytes of some ranges (address, size)."""
    return {address: source.read_memory(memory, address, size) for address, size in wanted}


def ask_memory(source: StillMemories, memory: Memory, chosen: MemoryRange | None) -> MemoryAnswer:
    """Regions of a memory and the bytes of a range; None: of its first region.

    Of a memory of partitions, regions that are alike in neighbours are joined.
    """
    regions: Sequence[Region] = source.regions(memory.id)
    if memory.num_banks > MAX_SHOWN_BANKS:
        regions = over_banks(regions, memory.bank_bytes)
    if chosen is not None:
        address, size, banks = chosen.address, chosen.size_bytes, chosen.banks
    elif regions:
        address, size, banks = regions[0].address, regions[0].size_bytes, regions[0].banks
    else:
        address, size, banks = 0, 0, 1
    pieces: dict[int, bytes] = {}
    if 0 < size * banks <= MAX_KEPT_BYTES:
        starts = [address + bank * memory.bank_bytes for bank in range(banks)]
        pieces = {start: source.read_memory(memory.id, start, size) for start in starts}
    return MemoryAnswer(source, memory.id, tuple(regions), pieces)
