"""Split linear address ranges of a memory into bytes of partitions and variables."""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.ids import MEMORIES_PER_CORE, hbm_memory
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.values.chip import Chip, HbmArray
from npuviz.targets.neuroncore.values.memory import GRANULE, Mask, Sram


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes offset..offset+size-1 of a partition or variable; `start` is their place in the range."""

    memory: HbmArray | Sram
    partition: int
    offset: int
    start: int
    size: int

    def view(self) -> np.ndarray:
        """Return a view of the bytes."""
        if isinstance(self.memory, Sram):
            return self.memory.rows[self.partition, self.offset : self.offset + self.size]
        return self.memory.flat[self.offset : self.offset + self.size]

    def mask(self) -> Mask | None:
        """Return the mask of the bytes, None if all are known to be written."""
        first, end = self.offset // GRANULE, -(-(self.offset + self.size) // GRANULE)
        if isinstance(self.memory, Sram):
            return Mask(self.memory.written[first:end, self.partition])
        flags = self.memory.written
        return None if flags is None else Mask(flags[first:end])


def spans_of(chip: Chip, memory: int, address: int, size: int) -> list[Span]:
    """Return the spans of a linear range that exist; HBM has nothing between variables.


    Raises ValueError for an unknown memory.
    """
    found: list[Span] = []
    if memory == hbm_memory(chip.spec):
        for array in chip.variables:
            begin = max(address, array.variable.address)
            end = min(address + size, array.variable.address + array.size)
            if begin < end:
                offset = begin - array.variable.address
                found.append(Span(array, 0, offset, begin - address, end - begin))
        return found
    core, space = divmod(memory, MEMORIES_PER_CORE)
    if not 0 <= core < len(chip.sbuf):
        raise ValueError(f"there is no memory {memory}")
    sram = (chip.psum if space else chip.sbuf)[core]
    at = address
    while at < address + size:
        partition, offset = divmod(at, sram.partition_bytes)
        if not 0 <= partition < NUM_PARTITIONS:
            break
        count = min(sram.partition_bytes - offset, address + size - at)
        found.append(Span(sram, partition, offset, at - address, count))
        at += count
    return found
