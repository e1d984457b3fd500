"""The inspector's pages as data: sections with fields and tables, whose cells may be links."""

import csv
import io
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from npuviz.base.units import THIN_SPACE, format_bytes, format_count, format_cycles_as_time, format_share
from npuviz.workbench.selection import Selection

COMPUTING = "computing the values\u2026"
_LAYOUT_CHARACTERS = dict.fromkeys(map(ord, THIN_SPACE + "\u2007\u200b\u200d\u2588"))


@dataclass(frozen=True, slots=True)
class Cell:
    """A value on a page.

    link        what is selected when the cell is clicked

    is_number   right-aligned, digits of equal width
    is_estimated  the value is an assumption of the model
    role        colour role of the text, "" for the usual one
    fraction    0..1 draws a small bar before the text, negative draws none
    """

    text: str
    link: Selection | None = None
    is_number: bool = False
    is_estimated: bool = False
    role: str = ""
    fraction: float = -1.0


@dataclass(frozen=True, slots=True)
class Field:
    """A label with one or more cells in a row."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under headers; `left_out` rows are not shown."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int = 0


def is_heading(row: tuple[Cell, ...]) -> bool:
    """Return whether a row is the heading of those below it: only its first cell has a text."""
    return len(row) > 1 and bool(row[0].text) and not any(cell.text for cell in row[1:])


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a page: sentences, then fields, then a table.

    divides  where the table is too wide, its columns stand in parts below each other, each beside the first
    is_continued  it has further columns of the section before it
    """

    title: str
    fields: tuple[Field, ...] = ()
    table: Table | None = None
    sentences: tuple[Cell, ...] = ()
    divides: bool = False
    is_continued: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page about one thing. `kind` says what it is; `op_type` gives its colour."""

    kind: str
    title: str
    subtitle: str = ""
    sections: tuple[Section, ...] = ()
    op_type: str = ""


def count_cell(value: int, link: Selection | None = None, measure: str = "") -> Cell:
    """Make a cell of a whole number in groups of three digits, with its measure if given."""
    text = format_count(value)
    return Cell(f"{text} {measure}" if measure else text, link, is_number=True)


def text_cell(text: str, link: Selection | None = None, role: str = "") -> Cell:
    """Make a cell of text."""
    return Cell(text, link, role=role)


def bytes_cell(size: int) -> Cell:
    """Make a cell of a size in bytes, followed by its short form from 1 KiB on."""
    text = f"{format_count(size)} B"
    return Cell(f"{text} ({format_bytes(size)})" if size >= 1024 else text, is_number=True)


def address_cell(address: int, link: Selection | None = None) -> Cell:
    """Make a cell of an address in hexadecimal."""
    return Cell(f"0x{address:x}", link, is_number=True)


def share_cell(part: float) -> Cell:
    """Make a cell of a share (0..1) as a percentage with a bar."""
    bounded = min(1.0, max(0.0, part))
    # Padded, so that bars of one column stand under each other.
    return Cell(format_share(part).rjust(7, "\u2007"), is_number=True, fraction=bounded)


def span_cells(start: int, end: int, frequency_hz: float, link: Selection | None = None) -> tuple[Cell, ...]:
    """Make two cells: a range of cycles, and its length in cycles and time."""
    length = f"{format_count(end - start)} {'cycle' if end - start == 1 else 'cycles'}"
    took = format_cycles_as_time(end - start, frequency_hz) if end > start else ""
    return (
        Cell(f"{format_count(start)} \u2013 {format_count(end)}", link, is_number=True),
        Cell(f"{length}, {took}" if took else length, is_number=True),
    )


def muted_cell(text: str) -> Cell:
    """Make a cell of text in the muted colour."""
    return text_cell(text, role="text-muted")


def number_cell(text: str) -> Cell:
    """Make a number cell of a number that is formatted already."""
    return Cell(text, is_number=True)


def remark(title: str, text: str) -> Section:
    """Make a section of one sentence in the muted colour."""
    return Section(title, sentences=(muted_cell(text),))


def listed(
    title: str,
    headers: tuple[str, ...],
    items: Any,
    row: Callable[..., tuple[Cell, ...]],
    most: int | None = None,
) -> list[Section]:
    """Make a section with a table of one row for each item, at most `most`; none without items."""
    rows = tuple(row(item) for item in items[:most])
    return [Section(title, table=Table(headers, rows, len(items) - len(rows)))] if rows else []


def field(label: str, *cells: Cell) -> Field:
    """Make a field."""
    return Field(label, cells)


def changed_cells(old: Page, new: Page) -> set[int]:
    """Return the `id`s of cells whose text differs from an earlier state of the page; none for another
    page.
    """
    if (old.kind, old.title, old.subtitle) != (new.kind, new.title, new.subtitle):
        return set()
    known = {id(section) for section in old.sections}
    same = {id(section) for section in new.sections if id(section) in known}
    before = {place: cell.text for place, cell in _places(old, same)}
    return {id(cell) for place, cell in _places(new, same) if before.get(place, cell.text) != cell.text}


def _places(page: Page, left_out: Collection[int]) -> Iterator[tuple[tuple[str, str, int], Cell]]:
    """Yield ((section, label or row, number), cell) of a page, without the sections of these ids."""
    title, column = "", 0
    for section in page.sections:
        if section.title or not section.is_continued:
            title, column = section.title, 0
        begin = column
        column += len(section.table.headers) if section.table else 0
        if id(section) in left_out:
            continue
        for item in section.fields:
            for number, cell in enumerate(item.cells):
                yield (title, item.label, number), cell
        for row in section.table.rows if section.table else ():
            for number, cell in enumerate(row[1:], begin):
                yield (title, f"\t{row[0].text}", number), cell


def plain(text: str) -> str:
    """Return a text for other programs, without spaces that only group, pad or break."""
    return text.translate(_LAYOUT_CHARACTERS)


def table_as_csv(table: Table) -> str:
    """Return a table as comma-separated values, headers first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.headers)
    for row in table.rows:
        writer.writerow([plain(cell.text) for cell in row])
    return out.getvalue()


def page_as_text(page: Page) -> str:
    """Return a page as plain text: headings, `label: value` lines, tables with tabs."""
    lines = [page.title]
    if page.subtitle:
        lines.append(page.subtitle)
    for section in page.sections:
        lines += ["", section.title] if section.title else [""]
        lines += [plain(cell.text) for cell in section.sentences]
        for item in section.fields:
            lines.append(f"{item.label}: {'  '.join(plain(cell.text) for cell in item.cells)}")
        if section.table is not None:
            lines.append("\t".join(section.table.headers))
            lines += ["\t".join(plain(cell.text) for cell in row) for row in section.table.rows]
    return "\n".join(lines) + "\n"
