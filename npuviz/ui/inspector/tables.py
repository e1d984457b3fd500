"""Turn tables of details and reports from programs and machines into sections for the narrow inspector."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby

from npuviz.program.instruction import DetailTable
from npuviz.ui.inspector.page import Cell, Field, Section, Table, field, listed, muted_cell, text_cell
from npuviz.workbench.selection import Selection

MAX_ROWS = 64
WIDE_COLUMNS = 4
"""Tables with more columns than this are transposed if they have few rows, else folded or divided."""
MAX_TURNED_ROWS = 3
KEPT_COLUMNS = 3
"""Columns of a folded table; the others become lines of the last one."""
MEASURES = ("ns", "us", "ms", "s", "x")
EARLIER = "before"
"""A column with this word in its title holds earlier values; a row with one is highlighted."""
_NUMBER = re.compile(
    r"[-+]?(0x[0-9a-f]+|[0-9][0-9 .,\u202f\u2009]*([eE][-+]?[0-9]+)?)(\u202f%)?", re.IGNORECASE
)


def detail_table(table: DetailTable) -> list[Section]:
    """Return a detail table as fields, transposed, folded by its first column, or unchanged."""
    is_wide = len(table.columns) > WIDE_COLUMNS
    if is_wide and len(table.rows) > MAX_TURNED_ROWS and _is_grouped(table):
        return _folded(table)
    return [_plain(table)]


def report_table(table: DetailTable, links: Mapping[str, Selection]) -> list[Section]:
    """Return a report table without empty columns; where it is too wide it is divided.

    links  text of the first column -> what is selected when it is clicked
    """
    filled = [i for i in range(1, len(table.columns)) if any(row[i] for row in table.rows)]

    def cells(row: tuple[str, ...]) -> tuple[Cell, ...]:
        return text_cell(row[0], links.get(row[0])), *(_cell(row[i]) for i in filled)

    headers = tuple(map(_head, (table.columns[0], *(table.columns[i] for i in filled))))
    return [replace(each, divides=True) for each in listed(table.title, headers, table.rows, cells, MAX_ROWS)]


def report_row(table: DetailTable, name: str) -> Section | None:
    """Return the row of a report table whose first column is this name, as fields; None if there is none."""
    row = next((row for row in table.rows if row[0] == name), None)
    return None if row is None or not name else Section(table.title, _fields(table, row, first=1))


def _plain(table: DetailTable) -> Section:
    rows = table.rows[:MAX_ROWS]
    left_out = max(0, len(table.rows) - MAX_ROWS)
    if len(table.columns) == 2 and not left_out and not any(_NUMBER.fullmatch(row[0]) for row in rows):
        # A table of names and values needs no column titles.
        return Section(table.title, tuple(field(name, _cell(value)) for name, value in rows))
    if len(table.columns) > WIDE_COLUMNS and len(rows) <= MAX_TURNED_ROWS and not left_out:
        if len(rows) == 1:
            return Section(table.title, _fields(table, rows[0], first=0))
        turned = tuple(
            (muted_cell(title), *(_cell(row[i]) for row in rows))
            for i, title in enumerate(table.columns)
            if i and any(row[i] for row in rows)
        )
        headers = (_head(table.columns[0]), *(row[0] for row in rows))
        return Section(table.title, table=Table(headers, turned))
    cells = tuple(tuple(_cell(text) for text in row) for row in rows)
    return Section(table.title, table=Table(tuple(map(_head, table.columns)), cells, left_out))


def _fields(table: DetailTable, row: tuple[str, ...], first: int) -> tuple[Field, ...]:
    named = list(zip(table.columns, row, strict=True))[first:]
    return tuple(field(title, _cell(text)) for title, text in named if text)


def _is_grouped(table: DetailTable) -> bool:
    """Return whether the first column names groups of consecutive rows, of two rows or more on average."""
    groups = [name for name, _ in groupby(row[0] for row in table.rows)]
    return len(groups) == len(set(groups)) and 2 * len(groups) <= len(table.rows)


def _folded(table: DetailTable) -> list[Section]:
    """Return one table for each group of rows; columns that do not fit become lines in the last one."""
    headers = table.columns[1 : KEPT_COLUMNS + 1]
    sections: list[Section] = []
    for group, found in groupby(table.rows, key=lambda row: row[0]):
        row = partial(_folded_row, table.columns)
        sections += listed(f"{table.title}: {group}", headers, list(found), row, MAX_ROWS)
    return sections


def _folded_row(columns: tuple[str, ...], row: tuple[str, ...]) -> tuple[Cell, ...]:
    named = list(zip(columns, row, strict=True))
    kept, others = named[1 : KEPT_COLUMNS + 1], named[KEPT_COLUMNS + 1 :]
    lines = [kept[-1][1], *(f"{title}: {text}" for title, text in others if text)]
    role = "warning" if any(EARLIER in title.split() and text for title, text in others) else ""
    head = tuple(
        Cell(text, is_number=_NUMBER.fullmatch(text) is not None, role=role) for _, text in kept[:-1]
    )
    return (*head, text_cell("\n".join(line for line in lines if line), role=role or "text-muted"))


def _cell(text: str) -> Cell:
    return Cell(text, is_number=_NUMBER.fullmatch(text) is not None)


def _head(title: str) -> str:
    """Return a column title with a capital letter; units of measure stay as they are written."""
    return title if title in MEASURES else title[:1].upper() + title[1:]
