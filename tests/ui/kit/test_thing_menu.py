"""What can be done with a thing, by right clicks in a window with several panels on show."""

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QMenu

from npuviz.sim.stop import StopKind
from npuviz.trace.reader import TraceReader
from npuviz.ui.costs.panel import CostsPanel
from npuviz.ui.graph.panel import GraphPanel
from npuviz.ui.memory.panel import MemoryPanel
from npuviz.ui.queues.panel import QueuesPanel
from npuviz.ui.timeline.canvas import TOP
from npuviz.ui.timeline.panel import TimelinePanel
from npuviz.ui.timeline.view import TimelineView
from npuviz.workbench.selection import Selection
from tests.toy.program import ALU
from tests.ui.driver import Driver
from tests.ui.menus import choose, entries, entry, inner, right_click


@pytest.fixture
def ran(toy: Driver) -> Driver:
    """The toy in the middle of its run, all of which is recorded."""
    toy.do("debug.run_to_end")
    toy.model.go_to(300)
    toy.idle()
    toy.qtbot.wait(50)
    return toy


def reader_of(driver: Driver) -> TraceReader:
    assert driver.model.reader is not None
    return driver.model.reader


def timeline_of(driver: Driver) -> TimelineView:
    panel = driver.window.docks.panel("timeline")
    assert isinstance(panel, TimelinePanel)
    return panel.view


def slice_of(driver: Driver, *, waits: bool) -> tuple[int, int, int]:
    """(start, end, instruction) of a slice of the ALU that is or is no wait."""
    reader = reader_of(driver)
    kinds = {kind.id: kind.role.startswith("wait") for kind in reader.schema.kinds}
    columns = reader.interval_columns(ALU)
    rows = zip(columns.start, columns.end, columns.kind, columns.instruction, strict=True)
    fitting = [
        (int(a), int(b), int(n))
        for a, b, kind, n in rows
        if kinds[int(kind)] == waits and b - a > 2 and n >= 0
    ]
    return fitting[len(fitting) // 2]


def menu_of_slice(driver: Driver, span: tuple[int, int, int]) -> QMenu:
    view = timeline_of(driver)
    view.zoom_to(span[0] - 20, span[1] + 20)
    view.bring_up(ALU)
    row = view.state.layout.of_track(ALU)
    assert row is not None
    x = view.state.header_width + view.state.viewport.x_of((span[0] + span[1]) / 2)
    return right_click(view, QPoint(round(x), TOP + row.top - view.state.scroll + row.height // 2))


def told(driver: Driver) -> str:
    driver.idle()
    driver.qtbot.waitUntil(lambda: bool(driver.window.error_bar.text))
    return driver.window.error_bar.text


def test_a_wait_says_why(ran: Driver) -> None:
    choose(menu_of_slice(ran, slice_of(ran, waits=True)), "Why it waits")
    assert "wait" in told(ran)
    assert ran.session.cycle == 300, "asking moves nothing"


def test_work_names_who_needs_it(ran: Driver) -> None:
    menu = menu_of_slice(ran, slice_of(ran, waits=False))
    assert "Why it waits" not in entries(menu)
    users = inner(menu, "Who needs this")
    choose(users, "Core[0].ST: STORE")
    chosen = ran.window.selection.current.instruction
    assert chosen is not None
    assert ran.session.program.listing.describe(chosen).opcode == "STORE"
    menu.close()


def test_stop_here_stops_there(ran: Driver) -> None:
    start, end, instruction = slice_of(ran, waits=False)
    choose(menu_of_slice(ran, (start, end, instruction)), "Stop here")
    ran.do("debug.restart")
    ran.do("debug.run")
    assert ran.session.stop.kind is StopKind.BREAKPOINT
    assert start <= ran.session.cycle < end


def test_an_instruction_stops_when_it_starts(ran: Driver) -> None:
    start, end, instruction = slice_of(ran, waits=False)
    choose(menu_of_slice(ran, (start, end, instruction)), "Stop when it starts")
    assert [item.text for item in ran.session.breakpoints.all] == [f"instr {instruction}"]
    ran.do("debug.restart")
    ran.do("debug.run")
    assert ran.session.stop.kind is StopKind.BREAKPOINT
    assert ran.session.cycle in (start, start + 1)


def test_zoom_and_copy(ran: Driver) -> None:
    span = slice_of(ran, waits=False)
    choose(menu_of_slice(ran, span), "Zoom to it")
    shown = timeline_of(ran).state.viewport
    assert shown.start <= span[0] < span[1] <= shown.end
    assert shown.span < 3 * (span[1] - span[0]) + 10
    choose(menu_of_slice(ran, span), "Copy")
    text = QApplication.clipboard().text()
    assert f"cycles {span[0]}..{span[1]}" in text
    assert f"{span[2]}" in text


def test_bytes_stop_when_written_and_tell_their_writer(ran: Driver) -> None:
    ran.do("view.panel.memory")
    panel = ran.window.docks.panel("memory")
    assert isinstance(panel, MemoryPanel)
    ran.qtbot.waitUntil(lambda: bool(panel.map.regions) and panel.is_settled)
    region = panel.map.regions[0]
    panel.map.grab()
    spots = (QPoint(x, y) for y in range(4, panel.map.height(), 4) for x in range(4, panel.map.width(), 4))
    spot = next(
        s for s in spots if panel.map.address_at(s.toPointF()) in range(region.address, region.address + 8)
    )
    menu = right_click(panel.map, spot)
    assert {"Stop when written", "Stop when read", "Who reads this next"} <= set(entries(menu))
    choose(menu, "Who wrote this")
    assert f"{region.address:#x} was written by" in told(ran)
    choose(right_click(panel.map, spot), "Stop when written")
    assert ran.session.breakpoints.all[0].text.startswith("write Core[0].SPAD")
    ran.do("debug.restart")
    ran.do("debug.run")
    assert ran.session.stop.kind is StopKind.BREAKPOINT


def test_a_queue_stops_when_it_holds_enough(ran: Driver) -> None:
    ran.do("view.panel.queues")
    panel = ran.window.docks.panel("queues")
    assert isinstance(panel, QueuesPanel)
    ran.qtbot.wait(20)
    index = panel.table.index(panel.table.row_of(0), 0)
    menu = right_click(panel.view.viewport(), panel.view.visualRect(index).center())
    choose(inner(menu, "Stop when it holds"), "2 (full)")
    menu.close()
    queue = ran.session.description.queues[0]
    assert [item.text for item in ran.session.breakpoints.all] == [f"queue {queue.name} >= 2"]
    ran.do("debug.restart")
    ran.do("debug.run")
    assert len(ran.session.machine.queue_entries(queue.id)) >= 2


def test_an_operator_is_run_to_and_compared(ran: Driver) -> None:
    ran.do("view.panel.graph")
    panel = ran.window.docks.panel("graph")
    assert isinstance(panel, GraphPanel)
    ran.qtbot.waitUntil(lambda: panel.view.picture is not None)
    node = next(node for node in ran.session.program.graph.nodes if node.name == "mix")

    def menu_of_node() -> QMenu:
        ran.window.selection.set(Selection(node=node.id))
        panel.view.fit_selected()
        panel.view.grab()
        picture = panel.view.picture
        assert picture is not None
        layout = picture.layout
        spot = panel.view.camera.to_screen(float(layout.x[node.id]), float(layout.y[node.id]))
        return right_click(panel.view, QPoint(round(spot[0]), round(spot[1])))

    choose(menu_of_node(), "Run to where it begins")
    ran.idle()
    begun = ran.session.cycle
    assert reader_of(ran) is not None
    ranges = ran.session.program.listing.ranges_of_node(node.id)
    ran.do("debug.restart")
    ran.session.run_to(f'op "{node.name}"')
    assert abs(ran.session.cycle - begun) <= 1, "as a breakpoint has it"
    choose(menu_of_node(), "First instruction")
    assert ran.window.selection.current.instruction == ranges[0][0]
    menu = menu_of_node()
    choose(menu, entry(menu, "Compare with the other").text())
    costs = ran.window.docks.panel("costs")
    assert isinstance(costs, CostsPanel)
    ran.qtbot.waitUntil(lambda: costs.is_settled and bool(costs.table.rows))
    assert {row.name.split()[0] for row in costs.table.rows} == {"Add"}
    rows = costs.view.selectionModel().selectedRows()
    assert [costs.table.rows[row.row()].key for row in rows] == [node.id]


def test_a_trace_without_machine_offers_only_what_it_can(ran: Driver) -> None:
    span = slice_of(ran, waits=True)
    opened = ran.model.opened
    assert opened is not None
    from npuviz.workbench.opening import Opened

    reader = reader_of(ran)
    ran.model.show_opened(Opened(opened.path, "run", opened.options, reader=reader))
    ran.qtbot.wait(20)
    found = entries(menu_of_slice(ran, span))
    assert "Why it waits" not in found
    assert not any(text.startswith("Stop here") for text in found)
    assert "Zoom to it" in found
