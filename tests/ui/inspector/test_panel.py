from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np
import pytest
from PySide6.QtGui import QFontMetrics, QGuiApplication

from npuviz.program.instruction import DetailTable, HasDependencies, Listing
from npuviz.sim.description import Unit
from npuviz.sim.machine import HasReports
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.instruction import _runs, detail_sections, instruction_page
from npuviz.ui.inspector.operator import value_fields
from npuviz.ui.inspector.page import Cell, Page, Section, Table, field, page_as_text, plain, table_as_csv
from npuviz.ui.inspector.page_choice import make_page
from npuviz.ui.inspector.panel import InspectorPanel
from npuviz.ui.inspector.patch import column_is_number
from npuviz.ui.inspector.tables import detail_table
from npuviz.ui.inspector.view import REFIT_MS
from npuviz.ui.inspector.writing import LEADING, ROW_GAP, PageWriter
from npuviz.ui.kit.trace_facts import NodeTimes, Run, intervals_of_instruction
from npuviz.workbench.choosing import find_file
from npuviz.workbench.opening import OpenOptions, open_file
from npuviz.workbench.selection import NOTHING, MemoryRange, Selection
from tests.toy.program import reference
from tests.toy.session import make_session
from tests.ui.inspector.rows import shown_rows
from tests.ui.panel_bench import Bench, bench, pixels

__all__ = ["bench"]
DRAM, SPAD = 0, 1


def finished_source() -> InspectorSource:
    session = make_session(blocks=4)
    session.run()
    assert session.trace is not None
    times = NodeTimes(session.trace, 4)
    times.advance()
    return InspectorSource(
        session.program,
        session.description,
        session.trace,
        session,
        session.cycle,
        times,
        True,
        session.program.graph.consumers(),
    )


@pytest.fixture(scope="module")
def source() -> InspectorSource:
    return finished_source()


def value(page: Page, label: str) -> str:
    """Text of the field with a label, without grouping."""
    found = [f for section in page.sections for f in section.fields if f.label == label]
    assert found, f"{label} in {[f.label for s in page.sections for f in s.fields]}"
    return " ".join(plain(cell.text) for cell in found[0].cells)


def links(page: Page) -> list[Selection]:
    cells = [c for s in page.sections for f in s.fields for c in f.cells]
    cells += [c for s in page.sections if s.table for row in s.table.rows for c in row]
    return [cell.link for cell in cells if cell.link is not None]


def table(page: Page, title: str) -> Table:
    found = next(section.table for section in page.sections if section.title == title)
    assert found is not None
    return found


def test_operator_page_recounts(source: InspectorSource) -> None:
    page = make_page(source, Selection(node=1))
    assert (page.kind, page.title, page.subtitle) == ("Operator", "Add", "shift")
    assert source.reader is not None
    columns = [source.reader.interval_columns(t) for t in range(3)]
    work = [
        (s, e)
        for c in columns
        for s, e, k, n in zip(c.start, c.end, c.kind, c.node, strict=True)
        if n == 1 and k < 4
    ]
    assert value(page, "Work") == f"{sum(int(e - s) for s, e in work)} unit cycles"
    assert value(page, "Cycles").startswith(f"{min(s for s, _ in work)} – {max(e for _, e in work)}")
    assert value(page, "Instructions").startswith("16")
    assert value(page, "Runs on") == "Core[0]"
    assert [row[0].text for row in table(page, "Inputs").rows] == ["y", "b"]
    assert Selection(tensor=3) in links(page)
    assert Selection(node=0) in links(page), "the producer of an input is a link"
    assert Selection(node=2) in links(page), "the consumer of the output is a link"


def test_instruction_page_says_when_it_ran(source: InspectorSource) -> None:
    page = make_page(source, Selection(instruction=6, node=0))
    assert (page.kind, page.title) == ("Instruction", "MUL")
    assert source.reader is not None
    run = intervals_of_instruction(source.reader, 6)[0]
    assert run.track == 1
    row = table(page, "When").rows[-1]
    assert plain(row[1].text) == f"{run.start} – {run.end}"
    assert row[1].link is not None
    assert row[1].link.cycles == (run.start, run.end)
    assert Selection(unit=1) in links(page)
    assert [r[0].text for r in table(page, "Reads").rows] == ["Core[0].SPAD", "Core[0].SPAD"]
    assert any(link.instruction == 7 for link in links(page)), "the store needs its result"


def test_code_that_several_units_ran_says_which_one(source: InspectorSource) -> None:
    assert source.reader is not None
    assert source.program is not None
    instruction = source.program.listing.describe(0)
    here, elsewhere = Run(0, 5, 9, 0), Run(1, 6, 10, 0)
    (alone,) = _runs(source, instruction, [here])
    assert alone.table is not None
    assert alone.table.headers == ("What", "Cycles", "Length")
    (shared,) = _runs(source, instruction, [here, elsewhere])
    assert shared.table is not None
    assert shared.table.headers == ("What", "Unit", "Cycles")
    names = [unit.name for unit in source.description.units] if source.description else []
    assert [row[1].text for row in shared.table.rows] == names[:2]


def test_a_heading_in_a_table_stands_alone(bench: Bench) -> None:
    panel = bench.make(InspectorPanel, width=170)
    bench.open_toy()
    bench.do(panel.model.run_through)
    rows = shown_rows(panel.view)
    heading = next(place for place, row in enumerate(rows) if row.columns[0][0] == "Core[0]")
    assert [len(row.columns) for row in rows[heading : heading + 3]] == [1, 3, 3]
    assert rows[heading].columns[0][1] == 0
    before = rows[heading + 1].columns[2][0]
    bench.do(panel.model.restart)
    bench.do(lambda: panel.model.go_to(9))
    rows = shown_rows(panel.view)
    assert rows[heading + 1].columns[2][0] != before
    assert rows[heading].columns[0][0] == "Core[0]"


def test_columns_of_a_table_stand_under_each_other_whatever_is_written(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    num_tables = 0
    for cycle in (0, 3, 40, 400):
        bench.do(partial(panel.model.go_to, cycle))
        bench.do(panel.model.step)
        view = panel.view
        rows = [row for row in shown_rows(view) if row.section >= 0 and len(row.columns) > 1]
        for number in {row.section for row in rows}:
            table, num_tables = view.page.sections[number].table, num_tables + 1
            assert table is not None
            for column, is_number in enumerate(column_is_number(table)):
                filled = [row.columns[column] for row in rows if row.section == number]
                edges = {place[2] if is_number else place[1] for place in filled if place[0]}
                assert max(edges) - min(edges) <= 0.1, (cycle, number, column, edges)
    assert num_tables > 4


def test_columns_do_not_become_narrower_while_a_page_is_shown(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    view = panel.view

    def show(text: str, title: str = "x") -> float:
        rows = ((Cell(text), Cell("1", is_number=True)),)
        table = Table(("Unit", "Count"), rows)
        view.show_page(Page("Unit", title, sections=(Section("A", table=table),)))
        return shown_rows(view)[0].columns[1][2]

    wide = show("waits for the queue of another unit")
    assert show("idle") == wide, "what stands beside it would jump at every step"
    assert show("idle", "y") < wide
    view.show_page(Page("Unit", "y"))
    assert show("waits for the queue of another unit", "y") == wide


def test_rows_of_texts_and_of_numbers_are_equally_high(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    bench.settle()
    layout = panel.view.document().documentLayout()
    boxes = [layout.blockBoundingRect(row.block) for row in shown_rows(panel.view) if row.section < 0]
    tops = [round(box.top(), 2) for box in boxes]
    assert len(tops) >= 4
    fonts = panel.theme.font_ui(), panel.theme.font_mono(), panel.view.document().defaultFont()
    needed = ROW_GAP + LEADING + max(QFontMetrics(font).height() for font in fonts)
    assert {round(after - before, 2) for before, after in pairwise(tops)} == {needed}, tops


def test_values_of_a_table_that_begins_with_numbers_are_written_anew(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    view = panel.view

    def show(first: int, name: str) -> None:
        row = Cell(str(first), is_number=True), Cell(name), Cell("7", is_number=True)
        table = Table(("#", "Name", "Count"), (row, row))
        view.show_page(Page("Task", "t", sections=(Section("A", table=table),)))

    show(10, "conv2d")
    writer = view.writer
    show(11, "relu")
    assert view.writer is writer
    assert [[text for text, _, _ in row.columns] for row in shown_rows(view)] == [["11", "relu", "7"]] * 2


def test_lines_of_a_value_stand_under_its_first(bench: Bench) -> None:
    panel = bench.make(InspectorPanel, width=220)
    bench.open_toy()
    long = Cell("a value of many words that has no room in a single line")
    cells = ((Cell("R0"), Cell("first\nsecond\nthird")),)
    sections = (Section("A", (field("label", long),)), Section("B", table=Table(("#", "What"), cells)))
    panel.view.show_page(Page("Task", "t", sections=sections))
    for row in shown_rows(panel.view):
        layout = row.block.layout()
        lines = [layout.lineAt(place) for place in range(layout.lineCount())]
        assert len(lines) > 1
        left = lines[0].position().x() + row.columns[1][1]
        assert {round(line.position().x() - left, 1) for line in lines[1:]} == {0.0}


def test_instruction_page_lists_who_waits_for_whom(source: InspectorSource) -> None:
    assert source.program is not None
    assert source.reader is not None
    listing = source.program.listing
    assert isinstance(listing, HasDependencies)
    index = 26
    page = make_page(source, Selection(instruction=index))
    said = listing.dependencies_of(index)
    before = [d for d in said if d.sink == index]
    after = [d for d in said if d.source == index]
    assert [row[0].text for row in table(page, "Waits for").rows] == [d.kind for d in before]
    assert [row[0].text for row in table(page, "Waited for by").rows] == [d.kind for d in after]
    for row, dependency in zip(table(page, "Waits for").rows, before, strict=True):
        run = intervals_of_instruction(source.reader, dependency.source)[-1]
        assert row[1].link is not None
        assert row[1].link.instruction == dependency.source
        assert plain(row[3].text) == str(run.end)
        assert row[3].link is not None
        assert row[3].link.cycles == (run.start, run.end)
    titles = [section.title for section in page.sections]
    assert "Needed" not in titles, "a flow of the trace that the program knows is told once"


def test_what_did_not_run_yet_has_no_cycle() -> None:
    session = make_session(blocks=4)
    session.go_to(60)
    page = make_page(InspectorSource(session.program, session.description, session.trace, session, 60),
                     Selection(instruction=2))  # fmt: skip
    ends = [row[3].text for row in table(page, "Waited for by").rows]
    assert ends[0] != "not yet"
    assert "not yet" in ends[1:]


def test_instruction_page_shows_the_programs_tables(source: InspectorSource) -> None:
    page = make_page(source, Selection(instruction=0))
    descriptors = table(page, "Descriptors")
    assert descriptors.headers == ("#", "From", "To", "Bytes")
    assert [row[3].text for row in descriptors.rows] == ["32", "32"]
    assert all(cell.is_number for row in descriptors.rows for cell in row)
    operands = table(page, "Operands")
    assert operands.headers == ("Is", "read", "written"), "a wide table of few rows is turned"
    assert [row[0].text for row in operands.rows] == ["Memory", "Address", "Count", "Step", "Type"]


def test_long_tables_say_what_is_left_out(source: InspectorSource) -> None:
    rows = tuple((str(i), "x") for i in range(500))

    class Detailed:
        def details_of(self, index: int) -> tuple[DetailTable, ...]:
            return (DetailTable("Many", ("#", "What"), rows),)

    assert source.program is not None
    program = replace(source.program, listing=cast(Listing, Detailed()))
    section = detail_sections(InspectorSource(program), 0)[0]
    assert section.table is not None
    assert len(section.table.rows) + section.table.left_out == 500


def test_reports_of_the_machine_are_on_its_page_and_on_the_operators_own() -> None:
    path = find_file("tiny_cnn_int8")
    opened = open_file(path, OpenOptions(target="rk3588", settings={"batch": "1"}))
    session = opened.session
    assert session is not None
    source = InspectorSource(session.program, session.description, session=session)
    before = make_page(source, NOTHING)
    assert not [s for s in before.sections if s.title.startswith("Operators")], "nothing has finished yet"
    session.run()
    machine = session.machine
    assert isinstance(machine, HasReports)
    report = machine.reports()[0]
    page = make_page(replace(source, cycle=session.cycle), NOTHING)
    parts = [s.table for s in page.sections if s.title == report.title and s.table is not None]
    assert len(parts) == 1
    heads = [h for part in parts for h in part.headers[1:]]
    assert [head.casefold() for head in heads] == [title.casefold() for title in report.columns[1:]]
    assert all(head == "us" or head[0].isupper() for head in heads)
    assert len(report.rows) > 8
    for number, row in enumerate(report.rows):
        shown = [part.rows[number] for part in parts]
        assert [cell.text for cells in shown for cell in cells[1:]] == list(row[1:])
        link = shown[0][0].link
        if link is None:
            assert row[0].startswith("task "), "copies of inputs and outputs belong to no operator"
            continue
        assert link.node is not None
        assert session.program.graph.nodes[link.node].name == row[0]
        own = make_page(source, link)
        assert value(own, "bottleneck") == row[report.columns.index("bottleneck")]


def test_rows_that_changed_something_stand_out_and_groups_are_complete() -> None:
    table = DetailTable(
        "Registers",
        ("block", "register", "value", "fields", "group before", "written"),
        tuple(
            ("A" if i < 60 else "B", f"R{i}", f"{i:#x}", f"size {i}", "0x7" if i % 50 == 9 else "", "")
            for i in range(100)
        ),
    )
    sections = detail_table(table)
    assert [s.title for s in sections] == ["Registers: A", "Registers: B"]
    rows = [row for s in sections if s.table is not None for row in s.table.rows]
    assert [row[0].text for row in rows] == [f"R{i}" for i in range(100)], "none is left out"
    assert [row[0].text for row in rows if row[0].role == "warning"] == ["R9", "R59"]
    assert rows[9][2].text == "size 9\ngroup before: 0x7"
    assert rows[8][2].text == "size 8"


def test_tensor_page_shows_the_real_values(source: InspectorSource) -> None:
    page = make_page(source, Selection(tensor=6))
    assert source.program is not None
    expected = reference(source.program.payload)[6]
    assert value(page, "Minimum") == f"{expected.min():.6g}"
    assert value(page, "Maximum") == f"{expected.max():.6g}"
    assert value(page, "Mean") == f"{expected.astype(np.float64).mean():.6g}"
    assert value(page, "First").split()[:2] == [f"{v:.6g}" for v in expected[:2]]
    assert Selection(node=3) in links(page)
    address = 6 * 4 * 64
    assert any(link.memory == MemoryRange(DRAM, address, 256) for link in links(page))


def test_memory_page_shows_bytes_and_who_lives_there(source: InspectorSource) -> None:
    page = make_page(source, Selection(memory=MemoryRange(DRAM, 0, 64)))
    assert page.subtitle == "0x0 – 0x3f"
    assert source.session is not None
    data = source.session.machine.read_memory(DRAM, 0, 64)
    assert value(page, "Bytes").startswith(data[:4].hex())
    assert value(page, "float32").split()[0] == f"{np.frombuffer(data[:4], np.float32)[0]:.6g}"
    assert Selection(tensor=0) in links(page)


def test_unit_page_sums_up_its_cycles(source: InspectorSource) -> None:
    page = make_page(source, Selection(unit=1))
    assert page.title == "Core[0].ALU"
    assert source.reader is not None
    columns = source.reader.interval_columns(1)
    muls = int((columns.end - columns.start)[columns.kind == 1].sum())
    rows = {row[0].text: plain(row[1].text) for s in page.sections if s.table for row in s.table.rows}
    assert rows["MUL"] == str(muls)
    assert value(page, "occupancy").startswith("0 entries")


def test_units_of_a_group_within_a_group_keep_what_tells_them_apart(source: InspectorSource) -> None:
    assert source.description is not None
    units = source.description.units
    more = tuple(Unit(len(units) + i, f"Core[0].DMA[{i}]", "Core[0].DMA", "copies") for i in range(2))
    page = make_page(replace(source, description=replace(source.description, units=units + more)), NOTHING)
    names = [row[0].text for row in table(page, "Units").rows]
    assert names == ["Core[0]", "LD", "ALU", "ST", "DMA[0]", "DMA[1]"]


def test_track_and_range_pages(source: InspectorSource) -> None:
    assert source.reader is not None
    row = source.reader.interval_columns(2)
    window = (int(row.start[0]), int(row.end[0]))
    page = make_page(source, Selection(track=2, cycles=window))
    assert value(page, "Cycles").startswith(f"{window[0]} – {window[1]}")
    counter = make_page(source, Selection(track=5))
    assert value(counter, "Highest") == str(int(source.reader.counter_columns(5).value.max()))
    everything = make_page(source, Selection(cycles=(0, source.cycle)))
    busy = {r[0].text: r[1].text for r in table(everything, "Units").rows}
    assert list(busy) == ["Core[0]", "ALU", "LD", "ST"]
    stores = source.reader.interval_columns(2)
    share = (stores.end - stores.start)[stores.kind < 4].sum() / source.cycle
    assert plain(busy["ST"]) == f"{share * 100:.1f}\u202f%"
    assert make_page(source, Selection(cycles=(5, 5))).title == "0 cycles"


def test_machine_page_says_what_is_not_modelled(source: InspectorSource) -> None:
    page = make_page(source, NOTHING)
    assert page.title == "Toy"
    assert value(page, "Instructions") == "64"
    text = page_as_text(page)
    assert "nothing of this machine exists in hardware" in text
    assert "every latency of the toy machine is invented" in text
    assert make_page(source, Selection(node=99, tensor=99, unit=99)).kind == "Machine"


def test_bundle_alone_still_answers() -> None:
    full = finished_source()
    alone = InspectorSource(reader=full.reader, cycle=full.cycle, times=full.times)
    overview = make_page(alone, NOTHING)
    assert overview.kind == "Trace"
    assert value(overview, "Operators") == "4"
    page = make_page(alone, Selection(node=1))
    assert page.subtitle == "shift"
    assert value(page, "Cycles") == value(make_page(full, Selection(node=1)), "Cycles")
    assert make_page(alone, Selection(track=0)).kind == "Track"
    assert make_page(alone, Selection(instruction=3)).kind == "Trace"


def test_before_the_first_cycle_nothing_has_run() -> None:
    session = make_session(blocks=2)
    assert session.trace is not None
    times = NodeTimes(session.trace, 4)
    times.advance()
    early = InspectorSource(session.program, session.description, session.trace, session, 0, times)
    assert value(make_page(early, Selection(node=0)), "Cycles") == "has not run yet"
    assert "It has not run yet." in page_as_text(make_page(early, Selection(instruction=0)))


def test_values_that_are_not_numbers_are_counted() -> None:
    fields = {f.label: f.cells[0].text for f in value_fields(np.array([1.0, np.nan, np.inf, 0.0]))}
    assert fields["Not finite"] == "2"
    assert fields["Zeros"] == "1"
    assert fields["Maximum"] == "1"


def test_csv_is_free_of_layout_spaces() -> None:
    made = Table(("a", "b"), ((Cell("1\u2009204", is_number=True), Cell("x, y")),))
    assert table_as_csv(made) == 'a,b\n1204,"x, y"\n'


def test_panel_without_session_and_after_closing(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    assert not panel.view.isVisible()
    pixels(panel)
    session = bench.open_toy()
    assert panel.view.isVisible()
    assert panel.view.page.title == "Toy"
    bench.open_bundle_of(session)
    assert panel.view.page.kind == "Trace"
    bench.model.close()
    assert not panel.view.isVisible()


def test_links_change_the_selection_and_back_returns(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    bench.select(node=1)
    assert panel.view.page.title == "Add"
    panel.view.followed.emit(Selection(tensor=3))
    bench.settle()
    assert bench.context.selection.current == Selection(tensor=3)
    assert panel.view.page.kind == "Tensor"
    panel.travel(-1)
    bench.settle()
    assert panel.view.page.title == "Add"
    panel.travel(-1)
    bench.settle()
    assert bench.context.selection.current == NOTHING
    panel.travel(-1)
    panel.travel(1)
    bench.settle()
    assert panel.view.page.title == "Add"
    bench.select(unit=2)
    panel.travel(1)
    assert bench.context.selection.current == Selection(unit=2), "a new step ends the way forward"


def test_follows_the_machine(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    bench.select(unit=0)
    before = page_as_text(panel.view.page)
    bench.do(lambda: bench.model.go_to(100))
    after = page_as_text(panel.view.page)
    assert before != after
    assert "LOAD" in after


def test_copied_numbers_have_no_thin_spaces(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy(blocks=64)
    assert "1\u202f024" in panel.view.toPlainText(), "digits of one number stay on one line"
    panel.view.selectAll()
    panel.view.copy()
    assert "1024" in QGuiApplication.clipboard().text()
    assert "\u2009" not in QGuiApplication.clipboard().text()
    panel.view.copy_page()
    assert "Instructions: 1024" in QGuiApplication.clipboard().text()


def test_the_page_of_an_instruction_says_its_opcode_once(source: InspectorSource) -> None:
    assert source.program is not None
    shown = source.program.listing.describe(0)
    line = replace(shown, opcode="LOAD", text="LOAD  a0, s0")
    assert instruction_page(source, line).subtitle == "a0, s0"
    assert instruction_page(source, replace(line, text="LOADS a0")).subtitle == "LOADS a0"
    assert instruction_page(source, replace(line, text="LOAD")).subtitle == ""


def test_times_of_operators_are_read_when_one_is_chosen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    advance = NodeTimes.advance
    monkeypatch.setattr(NodeTimes, "advance", lambda times: read.append(1) or advance(times))
    panel = bench.make(InspectorPanel)
    session = bench.open_toy()
    bench.do(lambda: bench.model.go_to(100))
    bench.do(lambda: bench.model.step(20))
    assert not read, "a page without operators must not read the trace"
    bench.select(node=0)
    bench.settle()
    assert session.trace is not None
    times = NodeTimes(session.trace, 4)
    advance(times)
    assert times.has_run(0)
    assert value(panel.view.page, "Cycles").startswith(str(times.first[0]))
    bench.do(lambda: bench.model.run_through())
    advance(times)
    assert str(times.last[0]) in value(panel.view.page, "Cycles")


def test_what_changed_in_the_last_step_is_marked(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    color = bench.context.theme.color("changed").name()
    bench.select(unit=0)
    assert color not in panel.view.toHtml()
    bench.do(lambda: bench.model.go_to(100))
    assert color not in panel.view.toHtml(), "after a run nearly everything differs: nothing is marked"
    bench.do(lambda: bench.model.step(20))
    assert color in panel.view.toHtml()
    bench.select(unit=1)
    assert color not in panel.view.toHtml(), "another thing is not a change"


def test_estimated_values_are_marked(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    page = Page("Unit", "x", sections=())
    panel.view.show_page(page)
    assert "\u2248" not in panel.view.toPlainText()
    panel.view.show_page(
        Page("Unit", "x", sections=(Section("", (field("a", Cell("7", is_estimated=True)),)),))
    )
    assert "\u2248" in panel.view.toPlainText()


def test_values_written_anew_look_like_a_page_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = bench.make(InspectorPanel)
    bench.open_toy()
    made: list[int] = []
    write = PageWriter.write
    monkeypatch.setattr(PageWriter, "write", lambda *given: (made.append(1), write(*given)))
    num_patched = 0
    for node in (None, 0):
        bench.select(node=node)
        for _ in range(6):
            page = panel.view.page
            made.clear()
            bench.do(lambda: bench.model.step(7))
            num_patched += panel.view.page != page and not made
            text, picture = panel.view.toPlainText(), pixels(panel.view)
            panel.view.refresh()
            assert panel.view.toPlainText() == text
            assert np.array_equal(pixels(panel.view), picture)
    assert num_patched > 3


def test_a_page_longer_than_the_panel_is_laid_out_once_and_then_rests(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    write = PageWriter.write
    monkeypatch.setattr(PageWriter, "write", lambda *given: (made.append(1), write(*given)))
    bench.open_toy()
    panel = bench.make(InspectorPanel, height=160)
    bench.settle()
    assert panel.view.verticalScrollBar().maximum() > 0
    bench.qtbot.wait(4 * REFIT_MS)
    count = len(made)
    bench.qtbot.wait(6 * REFIT_MS)
    assert len(made) == count


def test_what_cannot_be_seen_is_written_when_it_comes_into_sight_or_one_rests(bench: Bench) -> None:
    panel = bench.make(InspectorPanel, height=160)
    bench.open_toy()
    view = panel.view
    bar = view.verticalScrollBar()
    # However slow the machine is, one does not rest before the test says so.
    view._rest.setInterval(1 << 24)

    def is_new() -> bool:
        """Whether it looks as when it is made again, and says the same where nothing is late."""
        is_late, text, picture, place = bool(view._late), view.toPlainText(), pixels(view), bar.value()
        changed = view._changed
        view.refresh()
        view._changed = changed
        bar.setValue(place)
        return (is_late or text == view.toPlainText()) and np.array_equal(picture, pixels(view))

    def step_until_late() -> None:
        for _ in range(40):
            bench.do(lambda: bench.model.step(7))
            if view._late:
                return
        raise AssertionError("the page is longer than the panel")

    step_until_late()
    assert is_new(), "what can be seen"
    step_until_late()
    bar.setValue(bar.maximum())
    assert not view._late
    assert is_new()
    step_until_late()
    view._rest.start(0)
    bench.qtbot.waitUntil(lambda: not view._late)
    bar.setValue(0)
    assert is_new()


def test_a_number_is_not_parted_from_its_unit(bench: Bench) -> None:
    panel = bench.make(InspectorPanel, width=200)
    bench.open_toy()
    fields = (field("stream", Cell("0x10013600, 32 words")),)
    panel.view.show_page(Page("Task", "t", sections=(Section("A", fields=fields),)))
    block = shown_rows(panel.view)[0].block
    text, layout = block.text(), block.layout()
    lines = [layout.lineAt(place) for place in range(layout.lineCount())]
    shown = [text[line.textStart() : line.textStart() + line.textLength()].strip() for line in lines]
    assert len(shown) > 1
    assert [line for line in shown if "words" in line] == ["32\u00a0words"]
