"""Notice when another program changes the open file."""

from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

SETTLE_MS = 400
"""Milliseconds of quiet before a change is reported: files are written in pieces, or replaced."""


class FileWatch(QObject):
    """Emits `changed` with the path when time or size of the watched file differ from the last known ones."""

    changed = Signal(Path)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path: Path | None = None
        self._stamp: tuple[int, int] | None = None
        self._watcher = QFileSystemWatcher(self)
        self._watcher.fileChanged.connect(self._touched)
        self._watcher.directoryChanged.connect(self._touched)
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self._compare)

    def watch(self, path: Path | None) -> None:
        """Watch a file instead of the previous one; folders and None watch nothing."""
        for watched in (*self._watcher.files(), *self._watcher.directories()):
            self._watcher.removePath(watched)
        self._settle.stop()
        self._path = path if path is not None and path.is_file() else None
        self._stamp = _stamp(self._path)
        if self._path is not None:
            # The folder too: a file replaced by renaming is otherwise lost to the watcher.
            self._watcher.addPaths([str(self._path), str(self._path.parent)])

    def _touched(self, _name: str) -> None:
        self._settle.start()

    def _compare(self) -> None:
        stamp = _stamp(self._path)
        if self._path is None or stamp is None or stamp == self._stamp:
            return
        self._stamp = stamp
        if str(self._path) not in self._watcher.files():
            self._watcher.addPath(str(self._path))
        self.changed.emit(self._path)


def _stamp(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
