"""Fit a page to a width: one line per row of a table, texts shortened, folded sections left out."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from npuviz.base.names import ELLIPSIS, fitting
from npuviz.ui.inspector.page import Cell, Field, Page, Section, Table, is_heading

GAP = 8
"""Pixels between two columns."""
READABLE = 72
"""Pixels to which columns of text shrink before numbers are shortened by `brief`."""
NARROWEST = 40
NAME = 110
"""Pixels to which the first column of a divided table shrinks before it is divided further."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Functions that return widths in pixels: of a whole cell, of a text in a cell's font, of a column
    title.
    """

    cell: Callable[[Cell], int]
    text: Callable[[Cell, str], int]
    head: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A page, and the sections that each of its sections became."""

    source: Page
    parts: tuple[tuple[Section, ...], ...]

    @property
    def page(self) -> Page:
        """The page with these sections."""
        return replace(self.source, sections=tuple(section for part in self.parts for section in part))


def fit_page(
    page: Page,
    room: int,
    folded: Collection[str],
    measure: Measure,
    before: Fitted | None = None,
) -> Fitted:
    """Fit a page to `room` pixels, without the contents of folded sections.

    before  an earlier page, fitted with the same other arguments; sections that are the same objects in both
            pages are reused
    """
    known: dict[int, tuple[Section, ...]] = {}
    if before is not None:
        known = {id(a): b for a, b in zip(before.source.sections, before.parts, strict=True)}
    parts = (
        known.get(id(section)) or _fit_section(section, room, folded, measure) for section in page.sections
    )
    return Fitted(page, tuple(parts))


def _fit_section(
    section: Section, room: int, folded: Collection[str], measure: Measure
) -> tuple[Section, ...]:
    """Return a section fitted to `room` pixels, in several parts where it divides; only its title if it is
    folded.
    """
    if section.title and fold_name(section.title) in folded:
        return (Section(section.title),)
    fields = tuple(_fit_field(item, section.fields, room, measure) for item in section.fields)
    if section.table is None:
        return (replace(section, fields=fields),)
    tables = _divided(section.table, room, measure) if section.divides else [section.table]
    first, *others = (_fit_table(table, room, measure) for table in tables)
    further = (Section("", table=table, is_continued=True) for table in others)
    return (replace(section, fields=fields, table=first), *further)


def _divided(table: Table, room: int, measure: Measure) -> list[Table]:
    """Return tables that each have the first column and as many others as fit beside it, at least one."""
    widths = [width + GAP for width in column_widths(table, measure)]
    # Names are shortened a little before numbers are torn apart.
    widths[0] = min(widths[0], NAME + GAP)
    parts: list[list[int]] = []
    for column in range(1, len(widths)):
        taken = sum(widths[i] for i in parts[-1]) + widths[column] if parts else room + 1
        if taken <= room:
            parts[-1].append(column)
        else:
            parts.append([0, column])
    if len(parts) < 2:
        return [table]
    tables = [
        Table(tuple(table.headers[i] for i in part), tuple(tuple(row[i] for i in part) for row in table.rows))
        for part in parts
    ]
    return [*tables[:-1], replace(tables[-1], left_out=table.left_out)]


def fold_name(title: str) -> str:
    """Return a title up to its first number: "Cycles 0 - 180" names the same section at every cycle."""
    return re.split(r"\d", title)[0].rstrip(" ,\u2013")


def brief(cell: Cell) -> Cell:
    """Return a number cell without unit and without a second form: "112 cycles, 112 ns" becomes "112"."""
    if not cell.is_number:
        return cell
    text = cell.text.partition(", ")[0].partition(" (")[0]
    text = text.removesuffix(" cycles").removesuffix(" cycle")
    return cell if text == cell.text else replace(cell, text=text)


def _without_bar(cell: Cell) -> Cell:
    return cell if cell.fraction < 0 else replace(cell, fraction=-1.0)


def _fit_field(item: Field, all_fields: tuple[Field, ...], room: int, measure: Measure) -> Field:
    label = max(measure.head(other.label) for other in all_fields) + 2 * GAP
    needed = sum(measure.cell(cell) + GAP for cell in item.cells)
    return item if needed + label <= room else Field(item.label, tuple(brief(cell) for cell in item.cells))


def _fit_table(table: Table, room: int, measure: Measure) -> Table:
    if not table.rows:
        return table
    columns = range(len(table.headers))
    widths = column_widths(table, measure)
    if sum(widths) + GAP * len(widths) <= room:
        return table
    if any(cell.fraction >= 0 for row in table.rows for cell in row):
        # A bar only repeats the number beside it, so it is dropped before a text is cut.
        table = replace(table, rows=tuple(tuple(map(_without_bar, row)) for row in table.rows))
        return _fit_table(table, room, measure)
    rows = table.rows
    shrunk = _shrink(table, widths, room, READABLE)
    if sum(shrunk) + GAP * len(shrunk) > room:
        rows = tuple(tuple(brief(cell) for cell in row) for row in rows)
        table = replace(table, rows=rows)
        shrunk = _shrink(table, column_widths(table, measure), room, READABLE)
    if sum(shrunk) + GAP * len(shrunk) > room:
        shrunk = _shrink(table, shrunk, room, NARROWEST)
    fitted = tuple(
        # A heading reaches over all columns.
        row if is_heading(row) else tuple(_cut(row[i], shrunk[i], measure) for i in columns)
        for row in rows
    )
    headers = tuple(
        fitting(table.headers[i], lambda title, most=shrunk[i]: measure.head(title) <= most) or ELLIPSIS
        for i in columns
    )
    return replace(table, headers=headers, rows=fitted)


def column_widths(table: Table, measure: Measure) -> list[int]:
    """Return the pixels that the cells of each column need, without the gaps between columns."""
    return [
        max([measure.head(title), *(measure.cell(row[i]) for row in table.rows if i or not is_heading(row))])
        for i, title in enumerate(table.headers)
    ]


def _shrink(table: Table, widths: list[int], room: int, least: int) -> list[int]:
    """Shrink columns of text, the widest first and none below `least`, until all fit or none can shrink."""
    found = list(widths)
    is_text = [any(not row[i].is_number and row[i].text for row in table.rows) for i in range(len(widths))]
    too_much = sum(found) + GAP * len(found) - room
    while too_much > 0:
        texts = sorted(
            (i for i in range(len(found)) if is_text[i] and found[i] > least), key=found.__getitem__
        )
        if not texts:
            break
        widest = texts[-1]
        # Down to the next one, so that several wide columns shrink together.
        below = max(found[texts[-2]], least) if len(texts) > 1 else least
        cut = max(min(too_much, found[widest] - below), 1)
        found[widest] -= cut
        too_much -= cut
    return found


def _cut(cell: Cell, width: int, measure: Measure) -> Cell:
    """Return a cell whose text is shortened to the width of its column; numbers are never cut."""
    if cell.is_number or measure.cell(cell) <= width:
        return cell
    room = width - (measure.cell(cell) - measure.text(cell, cell.text))
    return replace(cell, text=fitting(cell.text, lambda text: measure.text(cell, text) <= room) or ELLIPSIS)
