"""Read and write bytes of a PE's memory inside the words of the state, low bytes first."""

from npuviz.sim.parts.bits_kernels import inlined, kernel


@inlined
def load_8(wafer, memory, address):
    """Return a byte; the caller has checked the address."""
    return (wafer[memory + (address >> 3)] >> ((address & 7) << 3)) & 0xFF


@inlined
def store_8(wafer, memory, address, value):
    """Write a byte."""
    at = memory + (address >> 3)
    shift = (address & 7) << 3
    word = wafer[at]
    # Xor keeps the other bytes and needs no mask with the sign bit set.
    wafer[at] = word ^ ((((word >> shift) ^ value) & 0xFF) << shift)


@kernel
def load_16(wafer, memory, address):
    """Return a 16-bit word, unsigned."""
    if (address & 7) == 7:
        return load_8(wafer, memory, address) | (load_8(wafer, memory, address + 1) << 8)
    return (wafer[memory + (address >> 3)] >> ((address & 7) << 3)) & 0xFFFF


@kernel
def store_16(wafer, memory, address, value):
    """Write a 16-bit word."""
    if (address & 7) == 7:
        store_8(wafer, memory, address, value)
        store_8(wafer, memory, address + 1, value >> 8)
    else:
        at = memory + (address >> 3)
        shift = (address & 7) << 3
        word = wafer[at]
        wafer[at] = word ^ ((((word >> shift) ^ value) & 0xFFFF) << shift)


@kernel
def load_32(wafer, memory, address):
    """Return a 32-bit word, unsigned."""
    if (address & 7) > 4:
        return load_16(wafer, memory, address) | (load_16(wafer, memory, address + 2) << 16)
    return (wafer[memory + (address >> 3)] >> ((address & 7) << 3)) & 0xFFFF_FFFF


@kernel
def store_32(wafer, memory, address, value):
    """Write a 32-bit word."""
    if (address & 7) > 4:
        store_16(wafer, memory, address, value)
        store_16(wafer, memory, address + 2, value >> 16)
    else:
        at = memory + (address >> 3)
        shift = (address & 7) << 3
        word = wafer[at]
        wafer[at] = word ^ ((((word >> shift) ^ value) & 0xFFFF_FFFF) << shift)


@kernel
def load_bytes(wafer, memory, address, size):
    """Return 1, 2, 4 or 8 bytes as an unsigned word (8 bytes: as a signed one)."""
    if size == 2:
        return load_16(wafer, memory, address)
    if size == 4:
        return load_32(wafer, memory, address)
    if size == 1:
        return load_8(wafer, memory, address)
    return load_32(wafer, memory, address) | (load_32(wafer, memory, address + 4) << 32)


@kernel
def store_bytes(wafer, memory, address, size, value):
    """Write 1, 2, 4 or 8 bytes."""
    if size == 2:
        store_16(wafer, memory, address, value)
    elif size == 4:
        store_32(wafer, memory, address, value)
    elif size == 1:
        store_8(wafer, memory, address, value)
    else:
        store_32(wafer, memory, address, value & 0xFFFF_FFFF)
        store_32(wafer, memory, address + 4, value >> 32)


@kernel
def wrapped(value, kind):
    """Return an integer wrapped to an integer type (T_U8 .. T_I64), extended by its sign or by zero."""
    if kind == 2:
        return value & 0xFFFF
    if kind == 3:
        return ((value & 0xFFFF) ^ 0x8000) - 0x8000
    if kind == 4:
        return value & 0xFFFF_FFFF
    if kind == 5:
        return ((value & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000
    if kind == 0:
        return value & 0xFF
    if kind == 1:
        return ((value & 0xFF) ^ 0x80) - 0x80
    return value


@inlined
def size_of(kind):
    """Return the bytes of a value type in memory."""
    if kind <= 1:
        return 1
    if kind <= 3 or kind == 8 or (kind >= 10 and kind <= 11):
        return 2
    if kind <= 5 or kind == 9:
        return 4
    return 8
