"""Makes a page fit a width: one line per row of a table, texts end in an ellipsis, sections may be folded."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from npuviz.base.names import ELLIPSIS, fitting
from npuviz.ui.inspector.page import Cell, Field, Page, Section, Table, is_heading

GAP = 8
"""Pixels between two columns."""
READABLE = 72
"""Columns of text shrink to this before numbers lose what they say twice."""
NARROWEST = 40


@dataclass(frozen=True, slots=True)
class Measure:
    """Pixels of a cell as it is painted; `text` of a text in its font, `head` of a title of a column."""

    cell: Callable[[Cell], int]
    text: Callable[[Cell, str], int]
    head: Callable[[str], int]


def fit_page(
    page: Page,
    room: int,
    folded: Collection[str],
    measure: Measure,
    before: tuple[Page, Page] | None = None,
) -> Page:
    """The page with the contents of folded sections left out and of others cut to `room` pixels.

    before  a page and what became of it with all else equal: sections that both pages have are taken over
    """
    old, fitted = before or (Page("", ""), Page("", ""))
    known = {id(a): b for a, b in zip(old.sections, fitted.sections, strict=True)}
    sections = (
        known.get(id(section)) or _fit_section(section, room, folded, measure) for section in page.sections
    )
    return replace(page, sections=tuple(sections))


def _fit_section(section: Section, room: int, folded: Collection[str], measure: Measure) -> Section:
    """A section, its title alone if it is folded, else cut to `room` pixels."""
    if section.title and fold_name(section.title) in folded:
        return Section(section.title)
    return replace(
        section,
        fields=tuple(_fit_field(item, section.fields, room, measure) for item in section.fields),
        table=_fit_table(section.table, room, measure) if section.table is not None else None,
    )


def fold_name(title: str) -> str:
    """A title without the numbers in it: "Cycles 0 - 180" is the same section at another cycle."""
    return re.split(r"\d", title)[0].rstrip(" ,\u2013")


def brief(cell: Cell) -> Cell:
    """A number alone, without what is said a second time: "112 cycles, 112 ns" becomes "112"."""
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
        # A bar says again what the number beside it says: it goes before a text is cut.
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
    """Pixels that the cells of each column need, without what is between columns."""
    return [
        max([measure.head(title), *(measure.cell(row[i]) for row in table.rows if i or not is_heading(row))])
        for i, title in enumerate(table.headers)
    ]


def _shrink(table: Table, widths: list[int], room: int, least: int) -> list[int]:
    """Widths that fit the room, if columns of text need not be narrower than `least` for it."""
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
    """A text abbreviated by rule or with an ellipsis where its column ends; numbers are never cut."""
    if cell.is_number or measure.cell(cell) <= width:
        return cell
    room = width - (measure.cell(cell) - measure.text(cell, cell.text))
    return replace(cell, text=fitting(cell.text, lambda text: measure.text(cell, text) <= room) or ELLIPSIS)
