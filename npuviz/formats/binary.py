"""Read files within limits: every length is checked before it is used."""

import os
import stat
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.base.units import format_bytes


def file_size(path: Path) -> int:
    """Return the size in bytes of a regular file. Raises FormatError if it cannot be read."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise FormatError(path, expected="a readable file", found=_reason(error)) from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "something that is not a regular file"
        raise FormatError(path, expected="a file", found=kind)
    return status.st_size


def read_file(path: Path, limit: int) -> bytes:
    """Read a whole file of at most `limit` bytes.

    Raises FormatError if it is missing, unreadable or larger; nothing is allocated before the
    size is known to be allowed.
    """
    size = file_size(path)
    if size > limit:
        raise FormatError(path, expected=f"at most {format_bytes(limit)}", found=format_bytes(size))
    try:
        with path.open("rb") as stream:
            # One byte more than the file has, to notice growth; the buffer is as large as the file, not as
            # the limit.
            data = stream.read(size + 1)
    except OSError as error:
        raise FormatError(path, expected="a readable file", found=_reason(error)) from None
    if len(data) > size:
        raise FormatError(
            path, expected=f"at most {format_bytes(limit)}", found="a file that grows while read"
        )
    return data


def read_text(path: Path, limit: int) -> str:
    """Read a whole file of at most `limit` bytes as UTF-8 text, without its byte order mark."""
    data = read_file(path, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            path, offset=error.start, expected="UTF-8 text", found=f"byte 0x{data[error.start]:02x}"
        ) from None


def read_head(path: Path, length: int = 64) -> bytes:
    """Read the first bytes of a file, fewer if it is shorter, to tell file kinds apart."""
    file_size(path)
    try:
        with path.open("rb") as stream:
            return stream.read(length)
    except OSError as error:
        raise FormatError(path, expected="a readable file", found=_reason(error)) from None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno).lower()
    return str(error)
