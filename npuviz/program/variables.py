"""Tell where a program keeps what its text or graph has names for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class VariablePlace:
    """A place of a memory that has a name while the program runs, or for a time.

    address, size_bytes  byte range in the memory, of its first bank if `banks` is more than 1
    banks, bank_bytes    the range is repeated in this many banks, which are so far apart
    first, last          instructions from whose start to whose end it has the name; -1: all the time
    """

    name: str
    memory: int
    address: int
    size_bytes: int
    banks: int = 1
    bank_bytes: int = 0
    first: int = -1
    last: int = -1

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The half-open byte ranges of all banks."""
        starts = [self.address + bank * self.bank_bytes for bank in range(self.banks)]
        return [(start, start + self.size_bytes) for start in starts]

    def overlaps(self, other: "VariablePlace") -> bool:
        """Whether two places have a byte in common, at whatever time."""
        if self.memory != other.memory:
            return False
        pitch = self.bank_bytes or other.bank_bytes
        if not pitch:
            return self.address < other.address + other.size_bytes and other.address < (
                self.address + self.size_bytes
            )
        bank, low = divmod(self.address, pitch)
        other_bank, other_low = divmod(other.address, pitch)
        shares_banks = bank < other_bank + other.banks and other_bank < bank + self.banks
        return shares_banks and low < other_low + other.size_bytes and other_low < low + self.size_bytes


@runtime_checkable
class HasVariables(Protocol):
    """A listing that knows where the program keeps its variables or tiles."""

    @property
    def variable_places(self) -> Sequence[VariablePlace]:
        """All places with a name, in any order. Cheap to read; the same objects at every access."""
        ...
