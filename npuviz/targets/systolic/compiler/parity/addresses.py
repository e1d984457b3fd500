"""ONNXim's address allocator: a bump pointer without reuse. Ref: systolic.md section 7."""

from dataclasses import dataclass, field

ALIGNMENT = 256
_SIZE_MODULUS = 1 << 32  # sizes are 32-bit in ONNXim (flaw F24)


@dataclass(slots=True)
class BumpAllocator:
    """Hands out rising base addresses; `places` records (name, address, size_bytes) in order."""

    pointer: int = 0
    places: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])

    def allocate(self, name: str, size_bytes: int) -> int:
        """Return the base address of a new range of `size_bytes` (modulo 2^32)."""
        size = size_bytes % _SIZE_MODULUS
        base = -(-self.pointer // ALIGNMENT) * ALIGNMENT
        end = base + size
        self.pointer = end + ALIGNMENT - end % ALIGNMENT
        self.places.append((name, base, size))
        return base
