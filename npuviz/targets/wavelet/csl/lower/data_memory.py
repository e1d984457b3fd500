"""Lay out the 48 KB of a PE: addresses of globals and constants, and their initial bytes."""

import struct
from dataclasses import dataclass, field

import numpy as np

from npuviz.targets.wavelet.csl.comptime import floats
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import Storage
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import Span

PE_BYTES = 49_152
"""Memory of a PE for code and data (APP)."""
RUNTIME_BYTES = 4_176
"""Bytes that the smallest host-connected program takes (FAB); data starts behind them."""
RESERVED_VARIABLE = "NPUVIZ_CSL_RESERVED"
"""Environment variable with a value in place of RUNTIME_BYTES: that of older SDKs is not known, and their
programs fill a PE to the last byte."""
ARRAY_ALIGN = 8
"""Variables of this many bytes or more begin at a multiple of it. Assumed: arrays then lie alike in the
banks, as the f32 multiply-add and the attention kernels of FAB show; an example that wants them in different
banks begins an array at element 1."""


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Bytes taken by one variable or constant."""

    name: str
    address: int
    size: int
    at: Span | None


@dataclass
class DataMemory:
    """Give out addresses upwards from what is reserved for the runtime, and collect initial bytes."""

    reserved: int = RUNTIME_BYTES
    end: int = -1
    blocks: list[MemoryBlock] = field(default_factory=list[MemoryBlock])
    addresses: dict[Storage, int] = field(default_factory=dict[Storage, int])
    constants: dict[tuple[str, bytes], int] = field(default_factory=dict[tuple[str, bytes], int])
    contents: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])

    def __post_init__(self) -> None:
        self.end = max(self.end, self.reserved)

    @property
    def room(self) -> int:
        """Bytes that the runtime library leaves."""
        return PE_BYTES - self.reserved

    def take(self, name: str, size: int, align: int, at: Span | None = None) -> int:
        """Return the address of `size` fresh bytes."""
        if size >= ARRAY_ALIGN:
            align = max(align, ARRAY_ALIGN)
        address = -(-self.end // align) * align
        self.end = address + size
        self.blocks.append(MemoryBlock(name, address, size, at))
        return address

    def constant(self, kind: t.Type, data: bytes) -> int:
        """Return the address of constant bytes; equal constants share one place."""
        key = (str(kind), data)
        address = self.constants.get(key)
        if address is None:
            address = self.constants[key] = self.take(f"constant {kind}", len(data), kind.alignment)
            self.contents.append((address, data))
        return address

    def check(self, where: str, frame_bytes: int) -> None:
        """Raise CslError if data and the largest frame do not fit beside the runtime library."""
        if self.end + frame_bytes <= PE_BYTES:
            return
        largest = sorted(self.blocks, key=lambda block: -block.size)[:3]
        names = ", ".join(f"{block.name} {block.size:,} bytes" for block in largest)
        need = f"data need {self.end - self.reserved:,} bytes"
        if frame_bytes:
            need += f" and a function {frame_bytes:,}"
        raise CslError(
            largest[0].at if largest else None,
            f"{where}: {need}, a PE has {self.room:,} beside the runtime library",
            f"largest: {names}; {RESERVED_VARIABLE} sets what that library takes ({self.reserved:,})",
        )

    def image(self) -> np.ndarray:
        """Return the memory from address 0 to the end of the data, uint8."""
        data = np.zeros(self.end, np.uint8)
        for address, content in self.contents:
            data[address : address + len(content)] = np.frombuffer(content, np.uint8)
        return data


def scalar_bits(kind: t.Type, number: int | float) -> int:
    """Return the register word of a number: floats as raw bits, integers as they are (u64 as int64)."""
    if isinstance(kind, t.FloatType):
        return floats.to_bits(kind if kind.size else t.F32, float(number))
    value = int(number)
    return value - (1 << 64) if value >= 1 << 63 else value


def scalar_bytes(kind: t.Type, number: int | float) -> bytes:
    """Return the bytes of a number in PE memory, low byte first."""
    return struct.pack("<q", scalar_bits(kind, number))[: kind.size]
