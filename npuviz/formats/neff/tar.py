"""Write the tar archive of a NEFF, and check the names of its members.

Does not use tarfile, because writing has to reproduce exactly the tar that was read.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping

from npuviz.base.errors import FormatError
from npuviz.formats.neff.model import ArchiveEntry, Payload

BLOCK = 512
GZIP_PADDING = 10240
"""The compressed stream is padded with zero bytes to a multiple of this (measured on a real NEFF)."""
NAME_LIMIT_BYTES = 1024
_CHUNK_BYTES = 1 << 20


def member_name(name: str, file: str) -> str:
    """Return the name if a member may have it. Raises FormatError for any other."""
    if reason := unsafe_name(name):
        raise FormatError(file, expected="names that an archive may hold", found=f"{name[:80]!r}, {reason}")
    return name


def unsafe_name(name: str) -> str:
    """Return why a name cannot be that of a file inside the archive, "" if it can."""
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


def checksum(block: bytes) -> int:
    """Return the checksum that a header block must carry, computed with its own field as spaces."""
    return sum(block[:148]) + 8 * 0x20 + sum(block[156:])


def tar_chunks(
    members: Mapping[str, Payload], layout: Iterable[ArchiveEntry], trailer: int
) -> Iterator[Payload]:
    """Yield the tar of these members, piece by piece. Entries of `layout` keep their place and headers.

    Members without an entry follow in their own order; entries without a member are left out.
    Raises FormatError for a name that does not fit a ustar header.
    """
    left = dict(members)
    for entry in layout:
        if entry.is_folder:
            yield entry.raw or header_block(entry, 0)
        elif entry.name in left:
            yield from _member_chunks(entry, left.pop(entry.name))
    for name, content in left.items():
        yield from _member_chunks(ArchiveEntry(name), content)
    yield bytes(trailer)


def _member_chunks(entry: ArchiveEntry, content: Payload) -> Iterator[Payload]:
    header = entry.raw
    if header:
        size = header[-BLOCK + 124 : -BLOCK + 136].strip(b" \0").lstrip(b"0")
        if (size or b"0") != b"%o" % len(content):
            header = b""
    yield header or header_block(entry, len(content))
    yield content
    if len(content) % BLOCK:
        yield bytes(BLOCK - len(content) % BLOCK)


def header_block(entry: ArchiveEntry, size: int) -> bytes:
    """Return a ustar header block in the form of the vendor's packager (measured on a real NEFF)."""
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
                b"%011o " % (entry.mtime & (1 << 33) - 1),
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
    """Yield the chunks as one gzip stream without a time stamp, padded to a multiple of 10240 bytes."""
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
