"""Exports bundles and prints query results, for the command line."""

from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.base.progress import Progress
from npuviz.base.registry import EXPORTERS, load_plugins
from npuviz.base.text_table import table_lines
from npuviz.export.exporter import DrawsTracks
from npuviz.trace.bundle.bundle import open_checked_bundle
from npuviz.trace.bundle.query import QueryResult
from npuviz.workbench.opening import text_of_bundle
from npuviz.workbench.tracks.by_loop import with_loops


def export_bundle(bundle: Path, form: str, out: Path, window: str, progress: Progress) -> None:
    """Write a bundle with an exporter. Raises UsageError, FormatError, ExportError or Cancelled."""
    exporters = load_plugins(EXPORTERS)
    if form not in exporters:
        raise UsageError(f"unknown export format {form!r}; known: {', '.join(exporters)}")
    cycles = parse_window(window) if window else None
    reader = open_checked_bundle(bundle)
    text = text_of_bundle(reader)
    shown = with_loops(reader, text) if isinstance(exporters[form], DrawsTracks) else reader
    exporters[form].export(shown, cycles, out, progress)


def parse_window(text: str) -> tuple[int, int]:
    """Parse a half-open range of cycles from `A:B`; a missing side means the beginning or the end.

    Raises UsageError.
    """
    first, colon, last = text.partition(":")
    try:
        window = int(first or 0), int(last) if last else 1 << 62
    except ValueError:
        window = 0, 0
    if not colon or window[0] >= window[1] or window[0] < 0 or window[1] > 1 << 62:
        raise UsageError(f"window {text!r}: expected A:B with cycles A < B, for example 1000:2000")
    return window


def table_text(result: QueryResult) -> str:
    """Lay out the rows of a query result as text in columns, numbers aligned to the right."""
    cells = [["" if value is None else str(value) for value in row] for row in result.rows]
    widths = [
        max(len(name), *(len(row[i]) for row in cells)) if cells else len(name)
        for i, name in enumerate(result.columns)
    ]
    numbers = [i for i in range(len(widths)) if all(isinstance(row[i], int | float) for row in result.rows)]
    lines = [result.columns, tuple("-" * width for width in widths), *cells]
    return "\n".join(table_lines(lines, numbers))
