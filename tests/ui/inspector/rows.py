"""Rows of the inspector as they are on the screen."""

from typing import NamedTuple, cast

from PySide6.QtGui import QTextBlock

from npuviz.ui.inspector.view import InspectorView


class ShownRow(NamedTuple):
    """A row: the section in whose table it stands, -1 for a field, and its paragraph.

    columns  (text, left, right) of each value, in pixels of the paragraph's first line
    """

    section: int
    block: QTextBlock
    columns: tuple[tuple[str, float, float], ...]


def shown_rows(view: InspectorView) -> list[ShownRow]:
    """The rows of a page from top to bottom."""
    assert view.writer is not None
    document = view.document()
    found: list[ShownRow] = []
    for row in view.writer.rows:
        block = document.findBlockByNumber(row.block)
        # Asking for its place lays it out.
        document.documentLayout().blockBoundingRect(block)
        line, start = block.layout().lineAt(0), 0
        columns: list[tuple[str, float, float]] = []
        for part in block.text().split("\t"):
            end = start + len(part)
            left, right = (cast(tuple[float, int], line.cursorToX(at))[0] for at in (start, end))
            columns.append((part, left, right))
            start = end + 1
        found.append(ShownRow(row.section, block, tuple(columns[row.lead :])))
    return found
