"""Restricts a server to files below its folders, and to the files that npuviz itself needs.

Paths from a client are checked when they arrive, with links followed. Files that readers open by themselves
(because a description names them) are checked by an audit hook when Python opens them. The hook cannot be
removed: use it only in a process that does nothing else.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import npuviz
from npuviz.base.errors import UsageError
from npuviz.base.names import echo, resolved
from npuviz.workbench.resources import manual_path, resource_path, sample_models_path

MOST_ENTRIES = 20_000
"""Most entries of a folder that is searched for links."""
SYSTEM = ("/usr/lib", "/usr/share", "/usr/local/lib", "/lib", "/lib64", "/proc", "/sys", "/dev")
"""Folders that the interpreter and its libraries read. Not /etc: it holds secrets."""
CODE = (".py", ".pyc", ".pyi", ".so", ".dll", ".dylib", ".pth", ".typed", ".json", ".toml")
"""Suffixes of files that may be read from Python's path."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.link",
    "os.symlink", "os.utime", "shutil.rmtree", "shutil.move",
}  # fmt: skip
"""Audit events that change the file system; see Python's audit events table."""
LISTINGS = {"os.listdir", "os.scandir"}


class Folders:
    """The folders of a server. Raises UsageError for a path that is no folder."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.roots: list[Path] = []
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"--folder {folder}: no such folder")
            self.roots.append(folder.resolve())

    def inside(self, text: str) -> Path:
        """Resolve a path of a client, relative to the first folder, with all links followed.

        Raises UsageError for a path that lies outside, does not exist, or holds links that lead outside.
        """
        path = resolved(self.roots[0] / text)
        if path is None or not self.holds(path):
            roots = ", ".join(map(str, self.roots))
            raise UsageError(f"{echo(text)}: outside of the folders of this server ({roots})")
        if not path.exists():
            raise UsageError(f"{echo(text)}: no such file in {self.roots[0]}")
        if path.is_dir():
            self._check_links(path)
        return path

    def holds(self, path: Path) -> bool:
        """Return whether a path without links lies in one of the folders."""
        return any(path.is_relative_to(root) for root in self.roots)

    def _check_links(self, folder: Path) -> None:
        count = 0
        for place, folders, files in os.walk(folder):
            for name in (*folders, *files):
                count += 1
                entry = Path(place, name)
                if entry.is_symlink() and not self.holds(entry.resolve()):
                    raise UsageError(f"{echo(str(entry))}: a link that leads outside of the server's folders")
            if count > MOST_ENTRIES:
                raise UsageError(f"{echo(str(folder))}: more than {MOST_ENTRIES} files; name a folder in it")


class Guard:
    """Raises PermissionError when Python opens a file outside of the folders, from `start` to `stop`."""

    def __init__(self, folders: Folders, scratch: Path) -> None:
        package = Path(npuviz.__file__).parent
        own = [package, resource_path(""), sample_models_path(), manual_path()]
        libraries = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), *map(Path, SYSTEM)]
        cache = Path(os.environ["NUMBA_CACHE_DIR"])
        self._writable = [path.resolve() for path in (scratch, cache)]
        self._readable = [*folders.roots, *self._writable, *(path.resolve() for path in (*own, *libraries))]
        self._code = [Path(entry).resolve() for entry in sys.path if entry]
        self._is_on = False

    def start(self) -> None:
        """Start to refuse, and make the scratch folder the current one, which relative paths then refer to.

        The audit events do not tell that a name is relative to an open folder, as in `shutil.rmtree`.
        """
        os.chdir(self._writable[0])
        self._is_on = True
        sys.addaudithook(self._audit)

    def stop(self) -> None:
        """Stop to refuse, since the process is about to end."""
        self._is_on = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on:
            return
        if event == "open":
            path, mode, flags = arguments
            is_written = bool(flags & WRITES) if isinstance(flags, int) else "r" not in (mode or "r")
            self._check(path, is_written=is_written)
        elif event in CHANGES:
            # Making a symbolic link neither reads nor changes its target; opening the link is checked then.
            changed = arguments[1:2] if event == "os.symlink" else arguments[:2]
            for path in changed if event != "os.mkdir" else changed[:1]:
                self._check(path, is_written=True)
        elif event in LISTINGS:
            self._check(arguments[0], is_written=False)

    def _check(self, path: Any, *, is_written: bool) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str | os.PathLike) or str(path) in (os.devnull, ""):
            return  # a file that is open already
        found = Path(os.path.realpath(path))
        allowed = self._writable if is_written else self._readable
        if any(found.is_relative_to(root) for root in allowed):
            return
        is_code = not is_written and (found.suffix in CODE or found.is_dir())
        if is_code and any(found.is_relative_to(root) for root in self._code):
            return
        raise PermissionError(1, "outside of the folders of this server", str(path))


def own_scratch() -> tempfile.TemporaryDirectory[str]:
    """Make a temporary folder, and put all further temporary files of this process in it."""
    scratch = tempfile.TemporaryDirectory(prefix="npuviz-mcp-")
    tempfile.tempdir = scratch.name
    os.environ["TMPDIR"] = scratch.name
    return scratch
