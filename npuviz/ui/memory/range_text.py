"""Ranges of memories in words."""

from npuviz.base.units import format_bytes
from npuviz.sim.description import Memory
from npuviz.ui.memory.layout import MAX_SHOWN_BANKS


def range_text(memory: Memory, address: int, size_bytes: int, banks: int = 1) -> str:
    """Where a range lies and how large it is; in memories of partitions, in terms of those."""
    total = format_bytes(size_bytes * banks)
    bank, inside = divmod(address, max(memory.bank_bytes, 1))
    fits = inside + size_bytes <= memory.bank_bytes
    if memory.num_banks <= MAX_SHOWN_BANKS or not fits:
        return f"{address:#x} \u2013 {address + size_bytes:#x}  {total}"
    partitions = f"p{bank} \u2013 p{bank + banks - 1}" if banks > 1 else f"p{bank}"
    return f"{partitions}  {inside:#x} \u2013 {inside + size_bytes:#x}  {total}"
