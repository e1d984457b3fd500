"""The 48 KB of a PE: where globals and constants lie, and the bytes they hold at the start."""

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
"""What the smallest host-connected program takes (FAB); data starts behind it."""
RESERVED_VARIABLE = "NPUVIZ_CSL_RESERVED"
"""Environment variable with other bytes than these: those of older SDKs are not known, and programs of theirs
fill a PE to the last byte."""
ARRAY_ALIGN = 8
"""Variables of so many bytes or more begin at a multiple of it. Assumed: with it arrays lie alike in the
banks, as the f32 multiply-add and the attention kernels of FAB show; an example that wants them apart begins
an array at element 1."""


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Bytes taken by one variable or constant."""

    name: str
    address: int
    size: int
    at: Span | None


@dataclass
class DataMemory:
    """Gives out addresses upwards from what is reserved for the runtime; collects initial bytes."""

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
        """Bytes beside the runtime library."""
        return PE_BYTES - self.reserved

    def take(self, name: str, size: int, align: int, at: Span | None = None) -> int:
        """Address of `size` fresh bytes."""
        if size >= ARRAY_ALIGN:
            align = max(align, ARRAY_ALIGN)
        address = -(-self.end // align) * align
        self.end = address + size
        self.blocks.append(MemoryBlock(name, address, size, at))
        return address

    def constant(self, kind: t.Type, data: bytes) -> int:
        """Address of constant bytes; equal constants share one place."""
        key = (str(kind), data)
        address = self.constants.get(key)
        if address is None:
            address = self.constants[key] = self.take(f"constant {kind}", len(data), kind.alignment)
            self.contents.append((address, data))
        return address

    def check(self, where: str, frame_bytes: int) -> None:
        """Raises CslError if data and the largest frame do not fit beside the runtime library."""
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
        """The memory from address 0 to the end of the data, uint8."""
        data = np.zeros(self.end, np.uint8)
        for address, content in self.contents:
            data[address : address + len(content)] = np.frombuffer(content, np.uint8)
        return data


def scalar_bits(kind: t.Type, number: int | float) -> int:
    """The register word of a number: floats as raw bits, integers as they are (u64 as int64)."""
    if isinstance(kind, t.FloatType):
        return floats.to_bits(kind if kind.size else t.F32, float(number))
    value = int(number)
    return value - (1 << 64) if value >= 1 << 63 else value


def scalar_bytes(kind: t.Type, number: int | float) -> bytes:
    """The bytes of a number in PE memory, low byte first."""
    return struct.pack("<q", scalar_bits(kind, number))[: kind.size]
