"""Find what the selected instruction reads and writes, in the memory that is shown and around it."""

from collections.abc import Sequence

from npuviz.program.instruction import HasTouched, Touched
from npuviz.program.program import Program
from npuviz.sim.description import Memory
from npuviz.workbench.selection import MemoryRange


def touched_in(program: Program | None, memory: Memory | None, instruction: int | None) -> list[Touched]:
    """Return the pieces of a memory that an instruction touches; [] where that is not known."""
    listing = program.listing if program is not None else None
    if memory is None or instruction is None or not isinstance(listing, HasTouched):
        return []
    if program is None or not 0 <= instruction < len(program.listing):
        return []
    return [each for each in listing.touched_by(instruction) if each.memory == memory.id]


def range_touched(program: Program, memories: Sequence[Memory], instruction: int) -> MemoryRange | None:
    """Return the range around what an instruction writes, or else reads; None where that is not known."""
    listing = program.listing
    if not isinstance(listing, HasTouched):
        return None
    pieces = listing.touched_by(instruction)
    mine = [each for each in pieces if each.is_written] or list(pieces)
    if not mine or not 0 <= mine[0].memory < len(memories):
        return None
    first, size = mine[0], memories[mine[0].memory].bank_bytes
    same = [each for each in mine if (each.memory, each.banks) == (first.memory, first.banks)]
    same = [each for each in same if each.address // size == first.address // size]
    end = max(each.address + each.size_bytes for each in same)
    return MemoryRange(first.memory, first.address, end - first.address, first.banks)
