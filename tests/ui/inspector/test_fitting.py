from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from npuviz.ui.inspector.fitting import ELLIPSIS, GAP, Measure, fit_page, fold_name
from npuviz.ui.inspector.page import Cell, Page, Section, Table, changed_cells
from npuviz.ui.inspector.panel import InspectorPanel
from npuviz.workbench.selection import Selection
from tests.ui.driver import Driver
from tests.ui.inspector.rows import shown_rows

CHAR = 7
PLAIN = Measure(
    lambda cell: CHAR * len(cell.text), lambda _cell, text: CHAR * len(text), lambda title: CHAR * len(title)
)
texts = st.text("abcdefgh ", max_size=40)


@given(
    st.lists(st.tuples(texts, texts, st.integers(0, 10**9)), min_size=1, max_size=8), st.integers(280, 900)
)
def test_a_table_fits_its_room_and_keeps_its_numbers(rows: list[tuple[str, str, int]], room: int) -> None:
    cells = tuple((Cell(a), Cell(b), Cell(str(n), is_number=True)) for a, b, n in rows)
    page = Page("", "", sections=(Section("T", table=Table(("A", "B", "N"), cells)),))
    found = fit_page(page, room, (), PLAIN).page.sections[0].table
    assert found is not None
    widths = [max(len(row[i].text) for row in found.rows) * CHAR for i in range(3)]
    assert sum(max(w, CHAR) + GAP for w in widths) <= room
    for before, after in zip(cells, found.rows, strict=True):
        assert before[2] == after[2]
        for old, new in zip(before[:2], after[:2], strict=True):
            assert new.text == old.text or (
                new.text.endswith(ELLIPSIS) and old.text.startswith(new.text[:-1])
            )


def test_a_title_of_a_column_is_cut_with_its_texts() -> None:
    row = Cell("operator 13"), Cell("64 (below 512)"), Cell("17 %", is_number=True)
    table = Table(("Line", "Bytes an element of the transfer", "Share"), (row,))
    found = (
        fit_page(Page("", "", sections=(Section("T", table=table),)), 250, (), PLAIN).page.sections[0].table
    )
    assert found is not None
    shown = (found.headers, *(tuple(cell.text for cell in each) for each in found.rows))
    assert sum(max(len(row[i]) for row in shown) * CHAR + GAP for i in range(3)) <= 250
    assert found.headers[1].startswith("Bytes an")


def test_what_fits_stays_as_it_is() -> None:
    table = Table(("What", "Length"), ((Cell("ADD"), Cell("1 cycle, 1 ns", is_number=True)),))
    page = Page("", "", sections=(Section("When", table=table),))
    assert fit_page(page, 400, (), PLAIN).page == page
    narrow = fit_page(page, 100, (), PLAIN).page.sections[0].table
    assert narrow is not None
    assert narrow.rows[0][1].text == "1"


def test_a_bar_goes_before_a_text_is_cut() -> None:
    row = Cell("loading weights"), Cell("84.7 %", is_number=True, fraction=0.847)
    measure = replace(PLAIN, cell=lambda cell: CHAR * (len(cell.text) + 4 * (cell.fraction >= 0)))
    page = Page("", "", sections=(Section("Units", table=Table(("Status", "Busy"), (row,))),))
    wide = fit_page(page, 220, (), measure).page.sections[0].table
    narrow = fit_page(page, 175, (), measure).page.sections[0].table
    assert wide is not None
    assert narrow is not None
    assert wide.rows == (row,)
    assert narrow.rows == ((row[0], replace(row[1], fraction=-1.0)),)


def test_headings_are_neither_cut_nor_counted() -> None:
    heading = (Cell("everything of Core[0]"), Cell(""))
    alone = Page("", "", sections=(Section("T", table=Table(("A", "B"), (heading, heading))),))
    assert fit_page(alone, 90, (), PLAIN).page == alone
    rows = (heading, (Cell("LD"), Cell("a long text that is cut")))
    found = fit_page(Page("", "", sections=(Section("T", table=Table(("A", "B"), rows)),)), 90, (), PLAIN)
    table = found.page.sections[0].table
    assert table is not None
    assert table.rows[0] == heading
    assert table.rows[1][0].text == "LD"
    assert table.rows[1][1].text.endswith(ELLIPSIS)


def test_a_folded_title_is_the_same_at_another_cycle() -> None:
    assert fold_name("Cycles 0 \u2013 2 864") == fold_name("Cycles 0 \u2013 99") == "Cycles"
    section = Section("Cycles 0 \u2013 99", table=Table(("A",), ((Cell("x"),),)))
    folded = fit_page(Page("", "", sections=(section,)), 100, ("Cycles",), PLAIN).page
    assert folded.sections == (Section("Cycles 0 \u2013 99"),)


def inspector_of(driver: Driver) -> InspectorPanel:
    panel = driver.window.docks.panel("inspector")
    assert isinstance(panel, InspectorPanel)
    return panel


def test_tables_keep_to_one_line_a_row(toy: Driver) -> None:
    toy.do("debug.run")
    toy.model.go_to(300)
    toy.idle()
    view = inspector_of(toy).view
    for width in (1280, 1000, 1700):
        toy.window.resize(width, 800)
        for selection in (Selection(), Selection(instruction=34), Selection(node=1), Selection(unit=1)):
            toy.window.selection.set(selection)
            toy.qtbot.wait(80)
            rows = [row for row in shown_rows(view) if row.section >= 0]
            assert rows
            assert {row.block.layout().lineCount() for row in rows} == {1}, (width, selection)
            assert view.horizontalScrollBar().maximum() == 0


def test_a_section_folds_by_a_click_and_stays_folded(toy: Driver) -> None:
    toy.do("debug.run")
    view = inspector_of(toy).view
    toy.window.selection.set(Selection(instruction=34))
    toy.qtbot.wait(80)
    height = view.document().size().height()
    spots = (QPoint(x, y) for y in range(view.height()) for x in (24,))
    spot = next(s for s in spots if view.anchorAt(s).startswith("fold:"))
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    toy.qtbot.wait(20)
    assert view.folded
    assert view.document().size().height() < height
    toy.window.selection.set(Selection(instruction=35))
    toy.qtbot.wait(80)
    assert view.folded
    state = inspector_of(toy).save_state()
    inspector_of(toy).restore_state({"folded": []})
    assert not view.folded
    inspector_of(toy).restore_state(state)
    assert view.folded


def test_a_table_that_divides_has_as_many_columns_beside_the_first_as_fit() -> None:
    headers = ("Loop", "Turns", "Cycles", "Others")
    rows = tuple(tuple(Cell(text, is_number=text.isdigit()) for text in row) for row in (
        ("block", "20", "36646495", "DVE"), ("  row", "1000", "36643124", "PE"),
    ))  # fmt: skip
    section = Section("Bounds of loops", table=Table(headers, rows, left_out=3), divides=True)
    page = Page("", "", sections=(section, Section("Next")))

    def parts(room: int) -> list[tuple[str, ...]]:
        sections = fit_page(page, room, (), PLAIN).page.sections
        assert [each.title for each in sections] == ["Bounds of loops", *[""] * (len(sections) - 2), "Next"]
        assert [each.is_continued for each in sections] == [False, *[True] * (len(sections) - 2), False]
        tables = [each.table for each in sections[:-1]]
        for table in tables:
            assert table is not None
            assert [row[0].text for row in table.rows] == ["block", "  row"]
        left_out = [table.left_out for table in tables if table is not None]
        assert left_out == [*[0] * (len(left_out) - 1), 3]
        return [table.headers for table in tables if table is not None]

    assert parts(1000) == [headers]
    assert parts((5 + 5 + 8) * CHAR + 3 * GAP) == [headers[:3], ("Loop", "Others")]
    assert [len(part) for part in parts(10)] == [2, 2, 2]
    assert parts(1000) == [headers]


def test_parts_of_a_table_are_kept_and_told_apart() -> None:
    def page(turns: str) -> Page:
        rows = ((Cell("block"), Cell(turns, is_number=True), Cell("36646495", is_number=True)),)
        return Page(
            "", "", sections=(Section("T", table=Table(("Loop", "Turns", "Cycles"), rows), divides=True),)
        )

    first = page("1")
    before = fit_page(first, 100, (), PLAIN)
    assert len(before.page.sections) == 2
    again = fit_page(first, 100, (), PLAIN, before)
    assert all(a is b for a, b in zip(before.page.sections, again.page.sections, strict=True))
    after = fit_page(page("2"), 100, (), PLAIN, before)
    changed = changed_cells(before.page, after.page)
    (table,) = {id(each.table.rows[0][1]) for each in after.page.sections[:1] if each.table is not None}
    assert changed == {table}
    assert changed_cells(before.page, fit_page(page("1"), 100, (), PLAIN).page) == set()
