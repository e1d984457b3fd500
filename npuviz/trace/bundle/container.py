"""Access a bundle's files, in a folder or in a zip archive of one."""

import glob
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from npuviz.base.errors import FormatError
from npuviz.base.names import printable
from npuviz.base.reading import reading
from npuviz.trace.bundle.manifest import MANIFEST_NAME

LARGEST_MEMBER_BYTES = 1 << 28
"""Largest size of a part in a zip archive, which is unpacked in memory."""


class Container(Protocol):
    """The files of one bundle, by plain name."""

    @property
    def path(self) -> Path:
        """Path of the folder or archive."""
        ...

    def describe(self, name: str) -> str:
        """Return where a file is, for messages."""
        ...

    def size_of(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if it is missing."""
        ...

    def read(self, name: str) -> Any:
        """Return contents as bytes or as a buffer over mapped memory. Raises FormatError."""
        ...

    def hold(self, name: str) -> None:
        """Make `read` return the present contents even if the file is replaced later. Raises FormatError."""
        ...


def open_container(path: Path) -> Container:
    """Open the folder or zip archive at `path`. Raises FormatError if it has no manifest."""
    if printable(path) != str(path):
        raise FormatError(printable(path), expected="a name in UTF-8", hint="rename the bundle")
    if path.is_dir():
        folder = _Folder(path)
        if folder.size_of(MANIFEST_NAME) is None:
            raise FormatError(
                path, expected=f"a trace bundle with {MANIFEST_NAME}", found="a folder without it"
            )
        return folder
    if not path.exists():
        pattern = f".{glob.escape(path.name)}.partial-*"
        remains = sorted(path.parent.glob(pattern)) if path.parent.is_dir() else []
        hint = f"an unfinished run left {remains[-1]}" if remains else ""
        raise FormatError(path, expected="a trace bundle", found="nothing there", hint=hint)
    if zipfile.is_zipfile(path):
        return _open_zip(path)
    raise FormatError(
        path, expected="a trace bundle (a folder or a zip of one)", found="another kind of file"
    )


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: dict[str, tuple[tuple[int, int], Any]] = {}

    def describe(self, name: str) -> str:
        return str(self.path / name)

    def hold(self, name: str) -> None:
        # Mapped memory survives the replacement or removal of its file, and takes no file handle.
        data = self._map(name)
        identity = self._identity(name)
        if identity is not None:
            self._held[name] = identity, data

    def _identity(self, name: str) -> tuple[int, int] | None:
        try:
            status = (self.path / name).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def size_of(self, name: str) -> int | None:
        path = self.path / name
        identity, data = self._held.get(name, (None, None))
        if data is not None and identity != self._identity(name):
            return len(data)
        try:
            if path.is_symlink():
                raise FormatError(path, expected="a file of the bundle", found="a link to somewhere else")
            return path.stat().st_size if path.is_file() else None
        except OSError:
            return None

    def read(self, name: str) -> Any:
        identity, data = self._held.get(name, (None, None))
        # A file that is still there is mapped again: it may have been cut, which mapped memory does not
        # survive.
        return self._map(name) if identity == self._identity(name) or data is None else data

    def _map(self, name: str) -> Any:
        import pyarrow as pa

        path = self.path / name
        try:
            if path.stat().st_size == 0:
                return b""
            with pa.memory_map(str(path)) as mapped:
                return mapped.read_buffer()
        except OSError as error:
            text = error.strerror or str(error).splitlines()[0]
            raise FormatError(path, found=text, hint="the file must be readable") from None


class _Zip:
    def __init__(self, path: Path, archive: zipfile.ZipFile, prefix: str) -> None:
        self.path = path
        self._archive = archive
        self._prefix = prefix

    def describe(self, name: str) -> str:
        return f"{self.path}:{self._prefix}{name}"

    def size_of(self, name: str) -> int | None:
        try:
            return self._archive.getinfo(self._prefix + name).file_size
        except KeyError:
            return None

    def hold(self, name: str) -> None:
        """Do nothing: the archive stays open, so that its files cannot change."""

    def read(self, name: str) -> Any:
        size = self.size_of(name) or 0
        if size > LARGEST_MEMBER_BYTES:
            raise FormatError(
                self.describe(name), expected=f"at most {LARGEST_MEMBER_BYTES} bytes", found=f"{size}"
            )
        with reading(self.describe(name)):
            return self._archive.read(self._prefix + name)


def _open_zip(path: Path) -> _Zip:
    with reading(path):
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
        manifests = [name for name in names if PurePosixPath(name).name == MANIFEST_NAME]
    if len(manifests) != 1:
        raise FormatError(path, expected=f"one {MANIFEST_NAME}", found=f"{len(manifests)}")
    if len(set(names)) != len(names):
        raise FormatError(path, expected="a name for each member", found="a name twice")
    return _Zip(path, archive, manifests[0][: -len(MANIFEST_NAME)])
