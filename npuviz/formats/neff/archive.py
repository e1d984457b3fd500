"""Read the archive inside a NEFF, a plain or gzip-compressed tar, checking every number in it."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from npuviz.base.errors import FormatError
from npuviz.base.units import format_bytes
from npuviz.formats.neff.model import ArchiveEntry, Payload
from npuviz.formats.neff.tar import BLOCK, checksum, header_block, unsafe_name

MEMBER_LIMIT = 100_000
_CHUNK_BYTES = 1 << 20
_SMALL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Archive:
    """Members in order, the tar header of each, and the number of bytes after the last one."""

    members: dict[str, Payload]
    layout: tuple[ArchiveEntry, ...]
    trailer: int
    is_compressed: bool
    unused: int = 0
    """Bytes after the compressed stream that are not its zero padding."""


def read_archive(payload: memoryview, file: str, limit_bytes: int) -> Archive:
    """Read the archive of a NEFF. `payload` is what follows the header, at most data_size bytes.

    At most `limit_bytes` are ever decompressed. Raises FormatError for anything that is not a tar of
    plain files with safe names.
    """
    is_compressed = bytes(payload[:2]) == b"\x1f\x8b"
    if is_compressed:
        content, unused = _decompress(payload, file, limit_bytes)
        tar = memoryview(content).toreadonly()
    elif bytes(payload[257:262]) == b"ustar":
        tar = payload
        unused = 0
    else:
        found = bytes(payload[:4]).hex(" ") or "nothing"
        raise FormatError(
            file,
            offset=1024,
            field="archive",
            expected="gzip (1f 8b) or tar (ustar at byte 257)",
            found=found,
        )
    if len(tar) > limit_bytes:
        raise _too_large(file, limit_bytes)
    members, layout, trailer = _read_tar(tar, file)
    return Archive(members, layout, trailer, is_compressed, unused)


def _too_large(file: str, limit_bytes: int) -> FormatError:
    return FormatError(
        file,
        field="archive",
        expected=f"at most {format_bytes(limit_bytes)} of content",
        found="more",
        hint="--set limit=BYTES raises the limit if the file is trusted",
    )


def _decompress(payload: memoryview, file: str, limit_bytes: int) -> tuple[bytearray, int]:
    stream = zlib.decompressobj(wbits=31)
    content = bytearray()
    position = 0
    # Content that is no tar is refused before gigabytes of it are decompressed.
    is_tar = False
    pending: bytes | memoryview = b""
    try:
        while not stream.eof:
            if not pending:
                if position >= len(payload):
                    raise FormatError(
                        file,
                        field="archive",
                        expected="a complete gzip stream",
                        found="its end missing",
                        hint="the file is cut off",
                    )
                pending = payload[position : position + _CHUNK_BYTES]
                position += len(pending)
            content += stream.decompress(pending, _CHUNK_BYTES)
            pending = stream.unconsumed_tail
            if not is_tar and len(content) >= BLOCK:
                _octal_checksum(bytes(content[:BLOCK]), file, 0)
                is_tar = True
            if len(content) > limit_bytes:
                raise _too_large(file, limit_bytes)
    except zlib.error as error:
        raise FormatError(file, field="archive", expected="a gzip stream", found=str(error)) from None
    rest = payload[position - len(stream.unused_data) :]
    return content, len(rest) if any(_chunks_with_data(rest)) else 0


def _read_tar(tar: memoryview, file: str) -> tuple[dict[str, Payload], tuple[ArchiveEntry, ...], int]:
    members: dict[str, Payload] = {}
    layout: list[ArchiveEntry] = []
    seen: dict[str, bool] = {}
    position = 0
    while position < len(tar):
        if len(tar) - position < BLOCK:
            raise _tar_error(file, position, f"a block of {BLOCK} bytes", f"{len(tar) - position} bytes")
        if not any(tar[position : position + BLOCK]):
            break
        entry, size, start = _read_entry(tar, position, file)
        if entry.name in seen or len(seen) >= MEMBER_LIMIT:
            found = f"{entry.name!r} twice" if entry.name in seen else f"more than {MEMBER_LIMIT} members"
            raise _tar_error(file, position, "each member once", found)
        seen[entry.name] = entry.is_folder
        if size > len(tar) - start:
            raise _tar_error(
                file,
                position,
                f"{size} bytes of {entry.name!r}",
                f"{len(tar) - start}, the archive is cut off",
            )
        content = tar[start : start + size]
        if not entry.is_folder:
            members[entry.name] = bytes(content) if size < _SMALL_BYTES else content
        layout.append(entry)
        position = start + -(-size // BLOCK) * BLOCK
    else:
        if position > len(tar):
            raise _tar_error(file, position, "a whole last block", "the archive cut off")
    rest = tar[position:]
    if any(_chunks_with_data(rest)):
        raise _tar_error(file, position, "zero bytes after the last member", "other bytes")
    _refuse_file_as_folder(seen, file)
    return members, tuple(layout), len(rest)


def _chunks_with_data(rest: memoryview) -> Iterator[bool]:
    for start in range(0, len(rest), _CHUNK_BYTES):
        part = rest[start : start + _CHUNK_BYTES]
        yield bytes(part).count(0) != len(part)


def _read_entry(tar: memoryview, position: int, file: str) -> tuple[ArchiveEntry, int, int]:
    """Read one member's header blocks; return (entry, size of the content, where the content starts)."""
    start = position
    name_override = ""
    size_override = -1
    while True:
        block = bytes(tar[position : position + BLOCK])
        if len(block) < BLOCK:
            raise _tar_error(file, position, "the header of a member", "the end of the archive")
        _octal_checksum(block, file, position)
        kind = block[156:157]
        size = _octal(block[124:136], file, position, "size")
        position += BLOCK
        if kind not in (b"x", b"g", b"L"):
            break
        # Headers that carry only a long name or size; Neuron's tools write none, other tars have them.
        if size > 1 << 20 or size > len(tar) - position:
            raise _tar_error(file, position, "a short extended header", f"one of {size} bytes")
        text = bytes(tar[position : position + size])
        if kind == b"L":
            name_override = _decode(text.rstrip(b"\0"), file, position)
        elif kind == b"x":
            name_override, size_override = _read_pax(text, file, position, name_override, size_override)
        position += -(-size // BLOCK) * BLOCK
    if kind not in (b"0", b"\0", b"5", b"7"):
        kinds = {
            b"1": "a hard link",
            b"2": "a symbolic link",
            b"3": "a device",
            b"4": "a device",
            b"6": "a pipe",
        }
        found = kinds.get(kind, f"type {kind!r}")
        raise _tar_error(file, position - BLOCK, "only files", f"{found} {_shown(block[:100])}")
    name = _decode(block[:100].split(b"\0", 1)[0], file, position)
    if block[257:262] == b"ustar" and (prefix := block[345:500].split(b"\0", 1)[0]):
        name = f"{_decode(prefix, file, position)}/{name}"
    name = name_override or name
    is_folder = kind == b"5" or name.endswith("/")
    entry = _entry_of(block, _safe_name(name, is_folder, file, position - BLOCK), is_folder)
    raw = bytes(tar[start:position])
    size = 0 if is_folder else size if size_override < 0 else size_override
    return entry if header_block(entry, size) == raw else replace(entry, raw=raw), size, position


def _read_pax(text: bytes, file: str, position: int, name: str, size: int) -> tuple[str, int]:
    """Return name and size from the records `LENGTH key=value\\n` of a pax header."""
    while text:
        length, separator, _ = text.partition(b" ")
        if not separator or not length.isdigit() or len(length) > 7 or not 3 < int(length) <= len(text):
            raise _tar_error(file, position, "a pax header", _shown(text))
        key, _, value = text[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"path":
            name = _decode(value, file, position)
        elif key == b"size":
            if not value.isdigit() or len(value) > 18:
                raise _tar_error(file, position, "a size in a pax header", _shown(value))
            size = int(value)
        text = text[int(length) :]
    return name, size


def _safe_name(name: str, is_folder: bool, file: str, position: int) -> str:
    """Return the name as a relative path below the output folder. Raises FormatError for an unsafe one."""
    while name.startswith("./") and len(name) > 2:
        name = name[2:]
    plain = name.rstrip("/") if is_folder and not name.startswith("/") else name
    if plain == "." and is_folder:
        return plain
    if reason := unsafe_name(plain):
        raise _tar_error(file, position, "names of files inside the archive", f"{name[:80]!r}, {reason}")
    return plain


def _refuse_file_as_folder(seen: Mapping[str, bool], file: str) -> None:
    files = {name for name, is_folder in seen.items() if not is_folder}
    for name in seen:
        parent = name.rpartition("/")[0]
        while parent:
            if parent in files:
                raise FormatError(
                    file,
                    field="archive",
                    expected="a name for one thing",
                    found=f"{parent!r} as file and folder",
                )
            parent = parent.rpartition("/")[0]


def _tar_error(file: str, position: int, expected: str, found: str) -> FormatError:
    return FormatError(file, field=f"archive, byte {position} of the tar", expected=expected, found=found)


def _octal(text: bytes, file: str, position: int, field: str) -> int:
    if text[:1] == b"\x80":
        # Base 256, as GNU tar writes sizes over 8 GiB.
        return int.from_bytes(text[1:], "big")
    digits = text.strip(b" \0")
    if digits and not all(0x30 <= digit <= 0x37 for digit in digits):
        raise _tar_error(file, position, f"an octal {field}", _shown(text))
    return int(digits, 8) if digits else 0


def _octal_checksum(block: bytes, file: str, position: int) -> None:
    """Raise FormatError for a block that is no tar header."""
    if _octal(block[148:156], file, position, "checksum") != checksum(block):
        raise _tar_error(file, position, "a tar header with a right checksum", "a wrong one")


def _decode(raw: bytes, file: str, position: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _tar_error(file, position, "a name in UTF-8", _shown(raw)) from None


def _shown(raw: bytes) -> str:
    return ascii(raw.split(b"\0", 1)[0][:40])[1:]


def _entry_of(block: bytes, name: str, is_folder: bool) -> ArchiveEntry:
    def number(start: int, end: int) -> int:
        digits = block[start:end].strip(b" \0")
        return int(digits, 8) if digits and all(0x30 <= digit <= 0x37 for digit in digits) else 0

    def text(start: int, end: int) -> str:
        return block[start:end].split(b"\0", 1)[0].decode("ascii", "replace")

    return ArchiveEntry(
        name,
        is_folder,
        mode=number(100, 108),
        uid=number(108, 116),
        gid=number(116, 124),
        mtime=number(136, 148),
        uname=text(265, 297),
        gname=text(297, 329),
    )
