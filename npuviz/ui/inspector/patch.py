"""Changes single values of a page that is on the screen, because laying out all of it costs 30 ms.

Every row is a table of the document: Qt lays out the whole table that an edit touches, and all tables between
the first and the last change of a joint edit.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from PySide6.QtGui import QTextCursor, QTextDocument, QTextTable

from npuviz.ui.inspector.page import Cell, Page, Section, Table

HEAD_TABLES = 1
"""Tables of the document before those of the first section: the title."""


class Place(NamedTuple):
    """A value in a document: number of its table, which has one row, and column there."""

    table: int
    column: int


def values(page: Page) -> Iterator[tuple[Place, tuple[Cell, ...]]]:
    """Every value in a table of a page's document, with its cells."""
    number = HEAD_TABLES
    for section in page.sections:
        yield from _values_of(section, number)
        number += _num_tables(section)


def differing(old: Page, new: Page, stale: Collection[Place]) -> Iterator[tuple[Place, tuple[Cell, ...]]]:
    """Values of a page that differ from those of one with the same frame, or stand at a stale place."""
    number, tables = HEAD_TABLES, {place.table for place in stale}
    for a, b in zip(old.sections, new.sections, strict=True):
        numbers = range(number, number + _num_tables(b))
        if a is not b or not tables.isdisjoint(numbers):
            for (place, cells), (_, before) in zip(_values_of(b, number), _values_of(a, number), strict=True):
                if cells != before or place in stale:
                    yield place, cells
        number = numbers.stop


def _num_tables(section: Section) -> int:
    """Tables that a section has in the document: one for each field, the titles of columns, and each row."""
    rows = section.table.rows if section.table is not None else ()
    return len(section.fields) + (len(rows) + 1 if rows else 0)


def _values_of(section: Section, number: int) -> Iterator[tuple[Place, tuple[Cell, ...]]]:
    """Values of a section whose first table in the document has this number."""
    for item in section.fields:
        yield Place(number, 1), item.cells
        number += 1
    if section.table is not None:
        for row, cells in enumerate(section.table.rows, number + 1):
            for column, cell in enumerate(cells):
                yield Place(row, column), (cell,)


def rows_of_tables(page: Page) -> dict[int, int]:
    """Tables of a page's document that are rows of a table of the page, with the number of their section."""
    number, found = HEAD_TABLES, dict[int, int]()
    for place, section in enumerate(page.sections):
        end = number + _num_tables(section)
        found.update(dict.fromkeys(range(number + len(section.fields), end), place))
        number = end
    return found


def has_same_frame(old: Page, new: Page) -> bool:
    """Whether the documents of two pages differ in values only: `values` gives the same places."""
    if (old.kind, old.title, old.subtitle, old.op_type, len(old.sections)) != (
        new.kind,
        new.title,
        new.subtitle,
        new.op_type,
        len(new.sections),
    ):
        return False
    return all(a is b or _is_same_section(a, b) for a, b in zip(old.sections, new.sections, strict=True))


def column_is_number(table: Table) -> list[bool]:
    """Columns that are aligned to the right, of a table with rows."""
    columns = zip(*table.rows, strict=True)
    return [all(cell.is_number or not cell.text for cell in column) for column in columns]


def document_tables(document: QTextDocument) -> list[QTextTable]:
    """The tables of a document from top to bottom."""
    return [frame for frame in document.rootFrame().childFrames() if isinstance(frame, QTextTable)]


def reaches_into(table: QTextTable, top: float, bottom: float) -> bool:
    """Whether a table stands, in part at least, between two heights of the document."""
    box = table.document().documentLayout().frameBoundingRect(table)
    return box.bottom() >= top and box.top() <= bottom


def replace_value(table: QTextTable, place: Place, html: str) -> None:
    """Write other rich text into a cell of a table."""
    cell = table.cellAt(0, place.column)
    cursor = cell.firstCursorPosition()
    cursor.setPosition(cell.lastCursorPosition().position(), QTextCursor.MoveMode.KeepAnchor)
    cursor.insertHtml(html)


def _is_same_section(old: Section, new: Section) -> bool:
    if (old.title, old.sentences) != (new.title, new.sentences):
        return False
    if [item.label for item in old.fields] != [item.label for item in new.fields]:
        return False
    if old.table is None or new.table is None:
        return old.table is new.table
    a, b = old.table, new.table
    return (a.headers, a.left_out, _filled(a)) == (b.headers, b.left_out, _filled(b)) and (
        not a.rows or column_is_number(a) == column_is_number(b)
    )


def _filled(table: Table) -> list[list[bool]]:
    """Which values have a text: Qt spaces what follows an empty one differently."""
    return [[bool(cell.text) for cell in row] for row in table.rows]
