"""Read FlatBuffers safely: every offset and length is checked before it is followed.

The `flatbuffers` library is used for writing only, because its reader follows offsets unchecked.
Layout: https://flatbuffers.dev/internals (root offset, tables with a virtual table, vectors, strings).
"""

import struct

import numpy as np
from numpy.typing import NDArray

from npuviz.base.errors import FormatError

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")
_DEEP = 32


class FlatBuffer:
    """A buffer, and the number of bytes that may still be read of it.

    Tables may share data, so that a small file could expand to a huge one; the bytes read in all are limited
    to a multiple of the size.
    """

    def __init__(self, data: bytes, *, file: str, at: int) -> None:
        self.data = data
        self.file = file
        self.at = at
        self.left = 8 * len(data) + (1 << 16)

    def fail(self, position: int, field: str, expected: str, found: str) -> FormatError:
        """Return the error for a place in the buffer."""
        return FormatError(
            self.file,
            offset=self.at + position,
            field=f"FlatBuffer, {field}",
            expected=expected,
            found=found,
            hint="the file is cut or damaged",
        )

    def take(self, position: int, length: int, field: str) -> None:
        """Check that `length` bytes lie at `position`, and count them as read."""
        if position < 0 or position + length > len(self.data):
            raise self.fail(
                max(position, 0),
                field,
                f"{length} bytes inside of the payload of {len(self.data)}",
                f"position {position}",
            )
        self.left -= length
        if self.left < 0:
            raise self.fail(position, field, "data of its own", "tables that share more data than there is")

    def u16(self, position: int, field: str) -> int:
        """Read an unsigned 16-bit value."""
        self.take(position, 2, field)
        return _U16.unpack_from(self.data, position)[0]

    def u32(self, position: int, field: str) -> int:
        """Read an unsigned 32-bit value."""
        self.take(position, 4, field)
        return _U32.unpack_from(self.data, position)[0]

    def root(self, identifier: bytes) -> "FlatTable":
        """Return the root table. Raises FormatError if the identifier is another."""
        self.take(0, 8, "header")
        if self.data[4:8] != identifier:
            raise self.fail(4, "identifier", repr(identifier), repr(self.data[4:8]))
        return FlatTable(self, self.u32(0, "root"), "root")


class FlatTable:
    """One table; values are named by the offset of their slot in the virtual table (4, 6, 8 ...)."""

    def __init__(self, buffer: FlatBuffer, position: int, field: str) -> None:
        self.buffer = buffer
        self.position = position
        self.field = field
        buffer.take(position, 4, field)
        self._virtual = position - _I32.unpack_from(buffer.data, position)[0]
        self._slots = buffer.u16(self._virtual, f"{field}, virtual table")
        self._size = buffer.u16(self._virtual + 2, f"{field}, virtual table")
        if self._slots < 4 or self._slots % 2:
            raise buffer.fail(
                self._virtual, f"{field}, virtual table", "an even size from 4 on", str(self._slots)
            )
        buffer.take(self._virtual, self._slots, f"{field}, virtual table")
        buffer.take(position, self._size, field)

    def _place(self, slot: int, length: int, field: str) -> int | None:
        """Return the position of a value, None if the table does not have it."""
        if slot + 2 > self._slots:
            return None
        offset = self.buffer.u16(self._virtual + slot, field)
        if offset == 0:
            return None
        if offset < 4 or offset + length > self._size:
            raise self.buffer.fail(
                self._virtual + slot,
                field,
                f"an offset inside of the table of {self._size} bytes",
                str(offset),
            )
        return self.position + offset

    def integer(self, slot: int, name: str, default: int = 0) -> int:
        """Read a signed 32-bit value."""
        place = self._place(slot, 4, f"{self.field}.{name}")
        if place is None:
            return default
        self.buffer.take(place, 4, f"{self.field}.{name}")
        return _I32.unpack_from(self.buffer.data, place)[0]

    def byte(self, slot: int, name: str, default: int = 0) -> int:
        """Read an unsigned 8-bit value."""
        place = self._place(slot, 1, f"{self.field}.{name}")
        if place is None:
            return default
        self.buffer.take(place, 1, f"{self.field}.{name}")
        return self.buffer.data[place]

    def _vector(self, slot: int, name: str, item: int) -> tuple[int, int]:
        """Return the position of the first item and the number of items; (0, 0) for a missing vector."""
        field = f"{self.field}.{name}"
        place = self._place(slot, 4, field)
        if place is None:
            return 0, 0
        start = place + self.buffer.u32(place, field)
        count = self.buffer.u32(start, f"{field}, length")
        self.buffer.take(start + 4, count * item, f"{field}, {count} items")
        return start + 4, count

    def fail(self, name: str, expected: str, found: str) -> FormatError:
        """Return the error for a value of this table."""
        return self.buffer.fail(self.position, f"{self.field}.{name}", expected, found)

    def data_at(self, slot: int, name: str) -> tuple[int, bytes]:
        """Return the position in the buffer and a copy of a vector of bytes."""
        start, count = self._vector(slot, name, 1)
        return start, self.buffer.data[start : start + count]

    def data(self, slot: int, name: str) -> bytes:
        """Return a copy of a vector of bytes."""
        return self.data_at(slot, name)[1]

    def text(self, slot: int, name: str) -> str:
        """Read a string. Raises FormatError if it is not UTF-8."""
        start, count = self._vector(slot, name, 1)
        raw = self.buffer.data[start : start + count]
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.buffer.fail(
                start + error.start, f"{self.field}.{name}", "UTF-8 text", f"byte 0x{raw[error.start]:02x}"
            ) from None

    def integers(self, slot: int, name: str) -> tuple[int, ...]:
        """Read a vector of signed 32-bit values."""
        start, count = self._vector(slot, name, 4)
        return struct.unpack_from(f"<{count}i", self.buffer.data, start)

    def pairs(self, slot: int, name: str) -> NDArray[np.uint32]:
        """Read a vector of structures of two unsigned 32-bit values, shape (n, 2), read-only."""
        start, count = self._vector(slot, name, 8)
        found = np.frombuffer(self.buffer.data, "<u4", count * 2, start) if count else np.zeros(0, "<u4")
        return found.reshape(-1, 2)

    def tables(self, slot: int, name: str) -> "tuple[FlatTable, ...]":
        """Read a vector of tables."""
        field = f"{self.field}.{name}"
        if field.count(".") > _DEEP:
            raise self.buffer.fail(self.position, field, f"at most {_DEEP} levels", "more")
        start, count = self._vector(slot, name, 4)
        found: list[FlatTable] = []
        for index in range(count):
            place = start + 4 * index
            found.append(FlatTable(self.buffer, place + self.buffer.u32(place, field), f"{field}[{index}]"))
        return tuple(found)
