"""Read and write the 1024-byte header of a NEFF."""

import struct
from dataclasses import astuple

from npuviz.base.errors import FormatError
from npuviz.formats.neff.model import NeffHeader

HEADER_BYTES = 1024
# Package version, header size, data size, major and minor version, build version, tpbs, hash, uuid, name,
# requested tpbs, tpbs per node, features, lnc size, pad. Natural C alignment leaves no gaps (measured).
_LAYOUT = struct.Struct("<5Q128sI32s16s256sI64sQI468s")
assert _LAYOUT.size == HEADER_BYTES


def parse_header(data: bytes | memoryview, file: str) -> NeffHeader:
    """Parse the header of a file, given its first bytes and all that follow.

    Raises FormatError when the file is shorter than a header, or when the header's sizes do not fit it.
    """
    if len(data) < HEADER_BYTES:
        raise FormatError(
            file, expected=f"a NEFF header of {HEADER_BYTES} bytes", found=f"a file of {len(data)} bytes"
        )
    header = NeffHeader(*_LAYOUT.unpack_from(data))
    if header.header_size != HEADER_BYTES:
        raise FormatError(
            file,
            offset=8,
            field="header_size",
            expected=str(HEADER_BYTES),
            found=str(header.header_size),
            hint="this is no NEFF, or its start is damaged",
        )
    present = len(data) - HEADER_BYTES
    if header.data_size > present:
        raise FormatError(
            file,
            offset=16,
            field="data_size",
            expected=f"at most {present}, the bytes after the header",
            found=str(header.data_size),
            hint="the file is cut off, or its header is damaged",
        )
    return header


def header_bytes(header: NeffHeader) -> bytes:
    """Return the header as bytes; texts longer than their field are cut."""
    return _LAYOUT.pack(*astuple(header))
