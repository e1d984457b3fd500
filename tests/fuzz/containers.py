"""Zip archives as plain members, for families whose inputs are archives or folders."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath


def unpacked(data: bytes) -> dict[str, bytes]:
    """Members by name; those that cannot be read are left out."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.file_size < 1 << 24:
                    found[info.filename] = archive.read(info)
    except Exception:
        return found
    return found


def packed(
    members: Mapping[str, bytes], comment: bytes = b"", compression: int = zipfile.ZIP_STORED
) -> bytes:
    """An archive of members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
        archive.comment = comment
    return stream.getvalue()


def spread(members: Mapping[str, bytes], folder: Path) -> None:
    """Write members with plain names as files of a folder."""
    for name, data in members.items():
        plain = PurePosixPath(name).name
        if plain not in ("", ".", "..") and "\0" not in plain and len(plain.encode(errors="replace")) < 200:
            (folder / plain).write_bytes(data)
