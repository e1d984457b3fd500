"""Read and write the protobuf wire format as far as a NEFF's debug records use it;
their schema is not published."""

from collections.abc import Iterable, Iterator

from npuviz.base.errors import FormatError

VARINT = 0
BYTES = 2
_FIXED = {1: 8, 5: 4}


def wire_fields(data: bytes, file: str) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a message in order:
    int for numbers, bytes for texts, messages and lists.

    Raises FormatError with the first byte that is invalid.
    """
    position = 0
    end = len(data)
    while position < end:
        start = position
        key, position = _varint(data, position, file)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise FormatError(file, offset=start, expected="a protobuf field", found="field number 0")
        if wire == VARINT:
            value, position = _varint(data, position, file)
            yield number, value
            continue
        if wire == BYTES:
            size, position = _varint(data, position, file)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise FormatError(
                file, offset=start, expected="a protobuf wire type 0, 1, 2 or 5", found=str(wire)
            )
        if size > end - position:
            raise FormatError(
                file, offset=start, expected=f"{size} bytes of field {number}", found=f"{end - position}"
            )
        yield number, data[position : position + size]
        position += size


def packed(value: int | bytes, file: str) -> tuple[int, ...]:
    """Return a packed list of numbers, or the one number of an unpacked entry."""
    if isinstance(value, int):
        return (value,)
    if not value or max(value) < 0x80:
        return tuple(value)
    found: list[int] = []
    position = 0
    while position < len(value):
        number, position = _varint(value, position, file)
        found.append(number)
    return tuple(found)


def _varint(data: bytes, position: int, file: str) -> tuple[int, int]:
    start = position
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, position
        shift += 7
        if shift > 63:
            break
    raise FormatError(file, offset=start, expected="a protobuf number", found="a cut or endless one")


def put_number(out: bytearray, field: int, value: int) -> None:
    """Append a number; zero is left out, as in proto3."""
    if value:
        _put_varint(out, field << 3)
        _put_varint(out, value)


def put_bytes(out: bytearray, field: int, value: bytes) -> None:
    """Append a text or message, even if it is empty."""
    _put_varint(out, field << 3 | BYTES)
    _put_varint(out, len(value))
    out += value


def put_packed(out: bytearray, field: int, values: Iterable[int]) -> None:
    """Append a packed list; an empty one is left out."""
    content = bytearray()
    for value in values:
        _put_varint(content, value)
    if content:
        put_bytes(out, field, bytes(content))


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
