"""Find the values of a page that differ from those on the screen, so that only these are written."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from npuviz.ui.inspector.page import Cell, Page, Section, Table


class Place(NamedTuple):
    """Place of a value: number of its row, counting fields and table rows of the whole page, and its
    column.
    """

    row: int
    column: int


def values(page: Page) -> Iterator[tuple[Place, tuple[Cell, ...]]]:
    """Yield every value of a page that is in a field or table, with its cells."""
    number = 0
    for section in page.sections:
        yield from _values_of(section, number)
        number += _num_rows(section)


def differing(old: Page, new: Page, stale: Collection[Place]) -> Iterator[tuple[Place, tuple[Cell, ...]]]:
    """Yield the values of `new` that differ from `old`, which has the same frame, or are at a stale place."""
    number, rows = 0, {place.row for place in stale}
    for a, b in zip(old.sections, new.sections, strict=True):
        numbers = range(number, number + _num_rows(b))
        if a is not b or not rows.isdisjoint(numbers):
            for (place, cells), (_, before) in zip(_values_of(b, number), _values_of(a, number), strict=True):
                if cells != before or place in stale:
                    yield place, cells
        number = numbers.stop


def _num_rows(section: Section) -> int:
    """Count the rows of a section: its fields and the rows of its table."""
    return len(section.fields) + (len(section.table.rows) if section.table is not None else 0)


def _values_of(section: Section, number: int) -> Iterator[tuple[Place, tuple[Cell, ...]]]:
    """Yield the values of a section whose first row has this number."""
    for item in section.fields:
        yield Place(number, 1), item.cells
        number += 1
    if section.table is not None:
        for row, cells in enumerate(section.table.rows, number):
            for column, cell in enumerate(cells):
                yield Place(row, column), (cell,)


def has_same_frame(old: Page, new: Page) -> bool:
    """Return whether two pages differ only in values, so that `values` yields the same places for both."""
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
    """Return for each column of a table, which must have rows, whether it is aligned right as numbers."""
    columns = zip(*table.rows, strict=True)
    return [all(cell.is_number or not cell.text for cell in column) for column in columns]


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
    """Return for each cell whether it has a text, which decides whether a row is a heading."""
    return [[bool(cell.text) for cell in row] for row in table.rows]
