"""Report errors of CSL texts: where, what is wrong, what to do; shown with their source line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from npuviz.base.errors import SourceError
from npuviz.targets.wavelet.csl.syntax.tree import SourceFile, Span


class CslError(Exception):
    """An error at a place; the front end turns it into a `SourceError` that knows the file.

    `notes` are further places, as (place, text): the calls and imports that led there, innermost first.
    """

    def __init__(
        self, at: Span | None, text: str, hint: str = "", note: tuple[Span, str] | None = None
    ) -> None:
        self.at = at
        self.text = text
        self.hint = hint
        self.notes: list[tuple[Span, str]] = [] if note is None else [note]
        super().__init__(text)


class NotComptime(CslError):
    """An expression depends on a value that only exists at run time."""

    def __init__(self, at: Span | None, text: str = "this value is not known at compile time") -> None:
        super().__init__(at, text)


class CslSourceError(SourceError):
    """An error in a CSL program; `source_line` is the line of text, `caret` marks the column under it."""

    def __init__(
        self,
        file: str,
        line: int,
        column: int,
        text: str,
        hint: str = "",
        source_line: str = "",
        notes: str = "",
    ) -> None:
        super().__init__(file, line, column, text, hint)
        self.source_line = source_line
        self.notes = notes

    @property
    def caret(self) -> str:
        """Line with `^` below the column of the error."""
        return " " * (self.column - 1) + "^"


def source_error(error: CslError, files: list[SourceFile]) -> CslSourceError:
    """Return the error for the user: with path, line and column in place of a span."""
    at = error.at
    if at is None or not 0 <= at.file < len(files):
        return CslSourceError("CSL program", 0, 0, error.text, error.hint)
    file = files[at.file]
    notes = "; ".join(
        f"{text} at {files[place.file].path}:{place.line}:{place.column}" for place, text in error.notes[:4]
    )
    hint = "; ".join(part for part in (error.hint, notes) if part)
    line = file.line(at.line)
    return CslSourceError(file.path, at.line, at.column, error.text, hint, line, notes)


def similar(name: str, candidates: Iterable[str]) -> str:
    """Return a hint with the most similar of some names, "" if none is similar."""
    found = difflib.get_close_matches(name, list(candidates), 1, 0.7)
    return f"did you mean {found[0]}?" if found else ""
