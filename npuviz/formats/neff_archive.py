"""The tar archive inside a NEFF, plain or gzip-compressed, read without trusting one number of it.

By hand and not through tarfile, because writing has to give back the very tar that was read.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from npuviz.base.errors import FormatError
from npuviz.base.units import format_bytes
from npuviz.formats.neff_model import ArchiveEntry, Payload

BLOCK = 512
GZIP_PADDING = 10240
"""The compressed stream is filled with zero bytes up to a multiple of this (measured on a real NEFF)."""
MEMBER_LIMIT = 100_000
NAME_LIMIT_BYTES = 1024
_CHUNK_BYTES = 1 << 20
_SMALL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Archive:
    """Members in order, how each stands in the tar, and what follows the last one."""

    members: dict[str, Payload]
    layout: tuple[ArchiveEntry, ...]
    trailer: int
    is_compressed: bool
    unused: int = 0
    """Bytes after the compressed stream that are not its zero padding."""


def read_archive(payload: memoryview, file: str, limit_bytes: int) -> Archive:
    """The archive of a NEFF. `payload` is what follows the header, at most data_size bytes.

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
            if len(content) > limit_bytes:
                raise _too_large(file, limit_bytes)
    except zlib.error as error:
        raise FormatError(file, field="archive", expected="a gzip stream", found=str(error)) from None
    rest = payload[position - len(stream.unused_data) :]
    return content, len(rest) if any(_chunks_with_data(rest)) else 0


# --- reading a tar -----------------------------------------------------------------------------


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
    """One member's header blocks: (entry, size of the content, where the content starts)."""
    start = position
    name_override = ""
    size_override = -1
    while True:
        block = bytes(tar[position : position + BLOCK])
        if len(block) < BLOCK:
            raise _tar_error(file, position, "the header of a member", "the end of the archive")
        if _octal(block[148:156], file, position, "checksum") != _checksum(block):
            raise _tar_error(file, position, "a tar header with a right checksum", "a wrong one")
        kind = block[156:157]
        size = _octal(block[124:136], file, position, "size")
        position += BLOCK
        if kind not in (b"x", b"g", b"L"):
            break
        # Headers that only carry a long name or size; neuron tools write none, other tars do.
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
    return _with_raw(entry, size, raw), size, position


def _read_pax(text: bytes, file: str, position: int, name: str, size: int) -> tuple[str, int]:
    """Name and size out of the records `LENGTH key=value\\n` of a pax header."""
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
    """The name as a relative path below the output folder, or FormatError."""
    while name.startswith("./") and len(name) > 2:
        name = name[2:]
    plain = name.rstrip("/") if is_folder and not name.startswith("/") else name
    if plain == "." and is_folder:
        return plain
    if reason := _unsafe(plain):
        raise _tar_error(file, position, "names of files inside the archive", f"{name[:80]!r}, {reason}")
    return plain


def member_name(name: str, file: str) -> str:
    """The name, if a member may have it. Raises FormatError."""
    if reason := _unsafe(name):
        raise FormatError(file, expected="names that an archive may hold", found=f"{name[:80]!r}, {reason}")
    return name


def _unsafe(name: str) -> str:
    """Why a name is not that of a file inside the archive; empty when it is."""
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or ":" in parts[0]:
        return "an absolute path or one of another system"
    if any(part in ("", ".", "..") for part in parts):
        return "a path with empty, '.' or '..' parts"
    if not name.isprintable():
        return "a name with control characters"
    if len(name.encode()) > NAME_LIMIT_BYTES or any(len(part.encode()) > 255 for part in parts):
        return "a name that no file system takes"
    return ""


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
        # Base 256, of GNU tar, for sizes over 8 GiB.
        return int.from_bytes(text[1:], "big")
    digits = text.strip(b" \0")
    if digits and not all(0x30 <= digit <= 0x37 for digit in digits):
        raise _tar_error(file, position, f"an octal {field}", _shown(text))
    return int(digits, 8) if digits else 0


def _decode(raw: bytes, file: str, position: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _tar_error(file, position, "a name in UTF-8", _shown(raw)) from None


def _shown(raw: bytes) -> str:
    return ascii(raw.split(b"\0", 1)[0][:40])[1:]


def _checksum(block: bytes) -> int:
    return sum(block[:148]) + 8 * 0x20 + sum(block[156:])


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


def _with_raw(entry: ArchiveEntry, size: int, raw: bytes) -> ArchiveEntry:
    if _header_block(entry, size) == raw:
        return entry
    return ArchiveEntry(
        entry.name,
        entry.is_folder,
        entry.mode,
        entry.uid,
        entry.gid,
        entry.mtime,
        entry.uname,
        entry.gname,
        raw,
    )


# --- writing -----------------------------------------------------------------------------------


def tar_chunks(
    members: Mapping[str, Payload], layout: Iterable[ArchiveEntry], trailer: int
) -> Iterator[Payload]:
    """The tar of these members, piece by piece. Entries of `layout` keep their place and headers.

    Members without an entry follow in their own order; entries without a member are left out.
    Raises FormatError for a name that does not fit a ustar header.
    """
    left = dict(members)
    for entry in layout:
        if entry.is_folder:
            yield entry.raw or _header_block(entry, 0)
        elif entry.name in left:
            yield from _member_chunks(entry, left.pop(entry.name))
    for name, content in left.items():
        yield from _member_chunks(ArchiveEntry(name), content)
    yield bytes(trailer)


def _member_chunks(entry: ArchiveEntry, content: Payload) -> Iterator[Payload]:
    header = entry.raw
    if header:
        size = header[-BLOCK + 124 : -BLOCK + 136].strip(b" \0")
        if not size.isdigit() or int(size, 8) != len(content):
            header = b""
    yield header or _header_block(entry, len(content))
    yield content
    if len(content) % BLOCK:
        yield bytes(BLOCK - len(content) % BLOCK)


def _header_block(entry: ArchiveEntry, size: int) -> bytes:
    """A ustar header block in the form of the vendor's packager (measured on a real NEFF)."""
    name, prefix = _split_name(entry.name + ("/" if entry.is_folder else ""))
    size_text = b"%011o " % size if size < 1 << 33 else b"\x80" + size.to_bytes(11, "big")
    block = bytearray(
        b"".join(
            (
                name.ljust(100, b"\0"),
                b"%06o \0" % (entry.mode & 0o777777),
                b"%06o \0" % (entry.uid & 0o777777),
                b"%06o \0" % (entry.gid & 0o777777),
                size_text,
                b"%011o " % entry.mtime,
                b" " * 8,
                b"5" if entry.is_folder else b"0",
                bytes(100),
                b"ustar\x0000",
                entry.uname.encode("ascii", "replace")[:31].ljust(32, b"\0"),
                entry.gname.encode("ascii", "replace")[:31].ljust(32, b"\0"),
                b"000000 \x00000000 \0",
                prefix.ljust(155, b"\0"),
                bytes(12),
            )
        )
    )
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def _split_name(name: str) -> tuple[bytes, bytes]:
    raw = name.encode()
    if len(raw) <= 100:
        return raw, b""
    for index in range(len(raw) - 100 - 1, min(156, len(raw))):
        if raw[index] == 0x2F and index <= 155:
            return raw[index + 1 :], raw[:index]
    raise FormatError(name, expected="a member name of at most 100 bytes, or 255 with a folder", found="more")


def gzip_chunks(chunks: Iterable[Payload], level: int) -> Iterator[bytes]:
    """The chunks as one gzip stream without a time stamp, filled up to a multiple of 10240 bytes."""
    stream = zlib.compressobj(level, zlib.DEFLATED, 31)
    written = 0
    for chunk in chunks:
        for start in range(0, len(chunk), _CHUNK_BYTES):
            part = stream.compress(chunk[start : start + _CHUNK_BYTES])
            written += len(part)
            if part:
                yield part
    part = stream.flush()
    yield part
    yield bytes(-(written + len(part)) % GZIP_PADDING)
