"""Define the contract of an exporter, which writes a trace as a file of another tool."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from npuviz.base.errors import ExportError
from npuviz.base.progress import Progress
from npuviz.trace.reader import TraceReader

CycleWindow = tuple[int, int]
"""Half-open range of cycles."""


class Exporter(Protocol):
    """A frozen dataclass whose fields are its options."""

    @property
    def name(self) -> str:
        """Name of the format on the command line."""
        ...

    @property
    def suffix(self) -> str:
        """Usual ending of the file, with the dot."""
        ...

    @property
    def title(self) -> str:
        """Name of the format for menus."""
        ...

    def export(self, reader: TraceReader, window: CycleWindow | None, out: Path, progress: Progress) -> None:
        """Write what overlaps the window (None: everything) to `out`, all of it or nothing.

        Raises ExportError (writing failed), FormatError (a damaged bundle) or Cancelled.
        """
        ...


@runtime_checkable
class DrawsTracks(Exporter, Protocol):
    """An exporter for a viewer of tracks: it is given those of the program's loops, too."""

    @property
    def draws_tracks(self) -> bool:
        """True."""
        ...


@contextmanager
def replacing(out: Path) -> Generator[Path]:
    """Yield a path beside `out` to write to; it replaces `out` at the end, or is removed on any failure.

    Turns OSError into ExportError. Refuses a device or a pipe, which renaming would replace by a file.
    """
    if out.is_dir():
        raise ExportError(f"{out}: cannot write: expected the name of a file, found a folder")
    if out.exists() and not out.is_file():
        raise ExportError(f"{out}: cannot write: expected the name of a file, found a device or a pipe")
    temporary = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        try:
            yield temporary
            os.replace(temporary, out)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ExportError(f"{out}: cannot write: {error.strerror or str(error).splitlines()[0]}") from None


def whole_or(window: CycleWindow | None, reader: TraceReader) -> CycleWindow:
    """Return the given window, or the whole trace for None.
    Raises ExportError for one that is empty or begins too late."""
    if window is None:
        return 0, reader.end_cycle + 1
    if window[0] >= window[1] and reader.end_cycle > 0:
        raise ExportError(f"window {window[0]}:{window[1]} is empty: the first cycle must be below the last")
    if window[0] > reader.end_cycle:
        raise ExportError(
            f"window from cycle {window[0]}: expected an earlier one, the trace ends at {reader.end_cycle}"
        )
    return window
