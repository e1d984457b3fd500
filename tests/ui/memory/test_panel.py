"""The memory panel: map, lifetimes and contents."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, QPointF, Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from npuviz.ui.kit.colors import pixel
from npuviz.ui.memory import statistics
from npuviz.ui.memory.layout import Painted, fit, paint_map, view_of
from npuviz.ui.memory.panel import SPEC, MemoryPanel
from npuviz.ui.memory.statistics import Statistics, statistics_of
from npuviz.ui.memory.table import HEX, Contents, MemoryTable, format_cell
from npuviz.workbench.selection import MemoryRange, Selection
from tests.ui.driver import Driver
from tests.ui.panel_stage import Stage


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> MemoryPanel:
    assert isinstance(stage.panel, MemoryPanel)
    return stage.panel


class PaintCount(QObject):
    """Counts how often a widget is painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.number = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.number += event.type() == QEvent.Type.Paint
        return False


class SignalCount:
    """Counts how often a table says that it is another."""

    def __init__(self, table: MemoryTable) -> None:
        self.number = 0
        table.dataChanged.connect(self._count)
        table.modelReset.connect(self._count)

    def _count(self) -> None:
        self.number += 1


sizes = st.integers(1, 1 << 26)


@given(sizes, st.sampled_from([1, 2, 4]), st.integers(1, 900), st.integers(1, 500), st.data())
def test_every_shown_address_has_its_pixel(
    bank_bytes: int, banks: int, width: int, height: int, data: st.DataObject
) -> None:
    layout = fit(view_of(bank_bytes * banks, banks), width, height)
    address = data.draw(st.integers(0, bank_bytes * banks - 1))
    runs = layout.runs(address, 1)
    assert len(runs) == 1
    bank, first, last = runs[0]
    assert bank == address // bank_bytes
    line, x = divmod(first, layout.width)
    assert line < layout.lines
    found = layout.address_at(x, layout.top_of_line(bank, line))
    assert found is not None
    assert found <= address < found + (last - first) * layout.bytes_per_pixel + layout.bytes_per_pixel


@given(st.integers(1, 5000), st.integers(0, 5000), st.integers(1, 5000))
def test_pieces_cover_what_runs_cover(size: int, address: int, length: int) -> None:
    layout = fit(view_of(size, 1), 50, 200)
    cells = sum(last - first for _bank, first, last in layout.runs(address, length))
    area = sum(
        (piece.right - piece.left) * -(-(piece.bottom - piece.top) // layout.line_height)
        for piece in layout.pieces(address, length)
    )
    assert area == cells


def test_the_map_shows_the_heads_that_are_used() -> None:
    view = view_of(32 << 20, 2, [(0, 1000), (16 << 20, 3000)])
    assert view.shown_bytes == 4096
    assert not view.is_whole
    layout = fit(view, 400, 200)
    assert layout.address_of_line(1, 0) == 16 << 20
    zoomed = view.zoomed(0.5, 3000)
    assert zoomed.shown_bytes == 2048
    assert zoomed.offset <= 3000 < zoomed.offset + zoomed.shown_bytes
    assert view.zoomed(1e9, 0).is_whole
    assert zoomed.panned(-99).offset == 0


def test_the_map_shows_what_lies_far_behind_the_heads() -> None:
    base = 0x1000_0000
    view = view_of(base + 100_000, 1, [(base + 4096, 8192), (base + 90_000, 10_000)])
    assert view.offset == base
    assert view.shown_bytes == 100_000
    assert fit(view, 400, 200).runs(base + 4096, 8192)
    kept = view_of(base + 100_000, 1, [(base + 4096, 16), (view.offset, view.shown_bytes)])
    assert kept == view, "the map jumps while memory is freed"
    near = view_of(1 << 20, 1, [(3000, 5000)])
    assert (near.offset, near.shown_bytes) == (0, 8192), "the heads cost little: they stay"
    across = view_of(1 << 28, 1, [((1 << 27) - 33, 128)])
    assert across.offset <= (1 << 27) - 33
    assert across.offset + across.shown_bytes >= (1 << 27) + 95


def test_lifetimes_far_behind_the_heads_are_spread(stage: Stage) -> None:
    base = 0x1000_0000
    lifetimes = panel_of(stage).lifetimes
    lifetimes._view = view_of(base + 100_000, 1, [(base, 1 << 16)])
    down = lifetimes._down(np.array([base, base + (1 << 15)], dtype=np.int64))
    assert down.tolist() == [0.0, 0.5]
    assert lifetimes._address_at(0.5) == base + (1 << 15)


def test_paint_colours_ranges_and_hatches_what_is_on_its_way() -> None:
    layout = fit(view_of(1 << 20, 2), 64, 100)
    pixels = paint_map(
        layout, [Painted(0, 1 << 18, 5), Painted(1 << 19, 1 << 19, 6, is_hatched=True)], 1, 2, 9
    )
    assert pixels.shape == (100, 64)
    top = pixels[0]
    assert set(top[:-1].tolist()) == {5}
    second = layout.top_of_line(1, 0)
    assert set(pixels[second : second + layout.ink_height].ravel().tolist()) >= {6, 9}
    assert 2 in pixels
    assert 1 in pixels[layout.lines * layout.line_height : second]


def test_regions_are_drawn_in_the_colour_of_their_tensor(stage: Stage) -> None:
    session = stage.open_toy(run_to=400)
    panel = panel_of(stage)
    regions = session.machine.regions(1)
    assert panel.map.regions == tuple(regions)
    valid = next(region for region in regions if region.is_valid)
    image = panel.map.grab().toImage()
    hits = 0
    for x in range(100, panel.map.width() - 20, 9):
        for y in range(8, panel.map.height() - 8, 3):
            address = panel.map.address_at(QPointF(x, y))
            if address is not None and panel.map.region_at(address) == valid:
                hits += image.pixelColor(x, y).rgb() & 0xFFFFFFFF == pixel(panel.colors.color(valid.tensor))
    assert hits > 20


def test_click_on_a_region_shows_its_numbers(stage: Stage, qtbot: QtBot) -> None:
    session = stage.open_toy(run_to=400)
    panel = panel_of(stage)
    region = next(region for region in session.machine.regions(1) if region.is_valid)
    point = next(
        QPoint(x, y)
        for x in range(80, panel.map.width(), 5)
        for y in range(panel.map.height())
        if panel.map.region_at(panel.map.address_at(QPointF(x, y)) or 0) == region
        and panel.map.address_at(QPointF(x, y)) is not None
    )
    qtbot.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=point)
    selection = stage.context.selection.current
    assert selection.memory == MemoryRange(1, region.address, region.size_bytes)
    assert selection.tensor == region.tensor
    contents = panel.table.contents
    assert (contents.address, contents.size_bytes, contents.dtype) == (
        region.address,
        region.size_bytes,
        "float32",
    )
    expected = np.frombuffer(session.machine.read_memory(1, region.address, region.size_bytes), np.float32)
    shown = [
        panel.table.index(cell // contents.num_columns, cell % contents.num_columns).data()
        for cell in range(len(expected))
    ]
    assert shown == [f"{value:.5g}" for value in expected]
    assert f"mean {expected.mean():.5g}" in panel.numbers.text()
    assert f"max {expected.max():.5g}" in panel.numbers.text()


def test_numbers_follow_the_machine(stage: Stage) -> None:
    session = stage.open_toy(run_to=400)
    panel = panel_of(stage)
    panel.context.selection.set(Selection(memory=MemoryRange(1, 0, 64)))
    panel.on_selection_changed(panel.context.selection.current)
    for cycle in (410, 500, 30, 0):
        session.go_to(cycle)
        stage.moved()
        expected = np.frombuffer(session.machine.read_memory(1, 0, 64), np.float32)
        shown = [panel.table.index(0, column).data() for column in range(4)]
        assert shown == [f"{value:.5g}" for value in expected[:4]]


def test_cells_are_painted_only_when_bytes_change(stage: Stage, qtbot: QtBot) -> None:
    session = stage.open_toy(run_to=20)
    panel = panel_of(stage)
    qtbot.waitUntil(lambda: panel.is_filled)
    qtbot.wait(50)
    painted = PaintCount(panel.view.viewport())
    told = SignalCount(panel.table)
    for _ in range(40):
        qtbot.wait(1)
        before = painted.number, told.number
        session.step(1)
        stage.stepped()
        qtbot.waitUntil(lambda: panel.is_filled)
        QApplication.processEvents()
        assert (painted.number > before[0]) == (told.number > before[1])
    assert 0 < painted.number < 40, painted.number


def test_dram_shows_what_is_allocated(stage: Stage) -> None:
    session = stage.open_toy(run_to=100)
    panel = panel_of(stage)
    panel.chooser.setCurrentIndex(0)
    ends = [a.address + a.size_bytes for a in session.program.memory_map.allocations if a.memory == 0]
    assert panel.map.view is not None
    assert panel.map.view.bank_bytes == max(ends, default=session.description.memories[0].size_bytes)


def test_lifetimes_are_those_of_the_trace(stage: Stage, qtbot: QtBot) -> None:
    session = stage.open_toy(run_to=800)
    panel = panel_of(stage)
    stage.panel.restore_state({"view": 1})
    assert session.trace is not None
    rows = session.trace.lifetimes(1, (0, 10_000))
    assert len(panel.lifetimes.lifetimes()) == len(rows) > 0
    panel.lifetimes.resize(700, 240)
    panel.lifetimes.grab()
    row = rows[len(rows) // 2]
    view = panel.lifetimes
    found = None
    for y in range(6, 220, 2):
        x = 76 + view.viewport.x_of((int(row["start"]) + int(row["end"])) / 2)
        hit = view.lifetime_at(QPointF(x, y))
        if hit is not None and hit == row:
            found = QPoint(round(x), y)
    assert found is not None
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=found)
    assert stage.context.selection.current.cycles is not None


class _Config:
    def getini(self, _name: str) -> str:
        return ""


def test_huge_memories_are_virtual(qtbot: QtBot) -> None:
    asked: list[tuple[int, int]] = []

    def read(address: int, size: int) -> bytes:
        asked.append((address, size))
        return bytes((address + i) & 255 for i in range(size))

    table = MemoryTable(read)
    table.set_contents(Contents(0, 32 << 20, HEX))
    assert table.rowCount(QModelIndex()) == 2 << 20
    assert not asked
    assert table.index(2, 3).data() == f"{2 * 16 + 3:02x}"
    assert sum(size for _address, size in asked) <= 4096
    assert table.headerData(2, Qt.Orientation.Vertical, Qt.ItemDataRole.DisplayRole) == "0x20"
    table.set_contents(Contents(100, 50, "int16", (5, 5)))
    ModelTester(_Config()).check(table)
    assert (table.rowCount(QModelIndex()), table.columnCount(QModelIndex())) == (5, 5)
    assert table.index(1, 1).data() == str(np.frombuffer(bytes([112, 113]), np.int16)[0])
    table.set_contents(Contents(0, 10, "float32"))
    assert table.rowCount(QModelIndex()) == 1
    assert table.index(0, 2).data() == "", "the third number is not whole"


def test_unreadable_while_running(qtbot: QtBot) -> None:
    table = MemoryTable(lambda _address, _size: None)
    table.set_contents(Contents(0, 64, "float32"))
    assert table.index(0, 0).data() == ""
    assert table.pieces(0, 64) is None


def test_cells_are_short() -> None:
    assert format_cell(b"\xff", HEX) == "ff"
    assert format_cell(np.float32(1 / 3).tobytes(), "float32") == "0.33333"
    assert format_cell(np.int8(-5).tobytes(), "int8") == "-5"
    assert format_cell(np.float32("nan").tobytes(), "float32") == "nan"


def test_statistics_count_what_is_not_finite() -> None:
    values = np.array([1, 5, np.nan, np.inf, -3], dtype=np.float32)
    found = statistics_of([values.tobytes()], "float32")
    assert found is not None
    assert (found.low, found.high, found.num_not_finite, found.count) == (-3.0, 5.0, 2, 5)
    assert found.mean == pytest.approx(1.0)
    nothing = statistics_of([np.full(3, np.nan, np.float32).tobytes()], "float32")
    assert nothing is not None
    assert (nothing.num_not_finite, nothing.count) == (3, 3)
    assert statistics_of([b"abc"], "float32") is None, "not one whole number"


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_statistics_of_pieces_are_those_of_all_their_numbers(dtype: str) -> None:
    values = (np.random.default_rng(5).standard_normal((3, 50_000)) * 40).astype(dtype)
    found = statistics_of([row.tobytes() + b"?" * (values.itemsize - 1) for row in values], dtype)
    assert found is not None
    assert (found.count, found.num_not_finite) == (150_000, 0)
    assert (found.low, found.high) == (float(values.min()), float(values.max()))
    assert found.mean == pytest.approx(float(values.astype(np.float64).mean()), rel=1e-9)


def test_numbers_of_a_large_range_are_not_waited_for(
    stage: Stage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = Event()

    def slow(pieces: Sequence[bytes], dtype: str) -> Statistics | None:
        assert go.wait(60)
        return statistics_of(pieces, dtype)

    stage.open_toy(run_to=400)
    panel = panel_of(stage)
    monkeypatch.setattr(statistics, "statistics_of", slow)
    panel._found.forget()
    panel._show_numbers()
    assert not panel.is_filled
    assert "min" not in panel.numbers.text()
    go.set()
    qtbot.waitUntil(lambda: panel.is_filled)
    assert "min" in panel.numbers.text()


@pytest.mark.parametrize("state", [{}, {"view": 7, "sizes": "x"}, {"view": 1, "sizes": [10, 20]}])
def test_restoring_damaged_state_is_harmless(stage: Stage, state: dict[str, object]) -> None:
    stage.open_toy(run_to=50)
    stage.panel.restore_state(state)
    assert panel_of(stage).pictures.currentIndex() == (1 if state.get("view") == 1 else 0)
    stage.context.model.show_opened(None)
    stage.panel.grab()


def test_nothing_chosen_shows_the_first_region_in_use(stage: Stage) -> None:
    session = stage.open_toy(run_to=400)
    first = session.machine.regions(1)[0]
    contents = panel_of(stage).table.contents
    assert (contents.address, contents.size_bytes) == (first.address, first.size_bytes)
    assert panel_of(stage).numbers.text().startswith(first.label)
    session.go_to(0)
    stage.moved()
    panel_of(stage).chooser.setCurrentIndex(1)
    assert panel_of(stage).table.contents.size_bytes == session.description.memories[1].size_bytes


def test_an_empty_memory_is_not_shown_first(stage: Stage) -> None:
    session = stage.open_toy()
    panel = panel_of(stage)
    assert not session.machine.regions(1)
    assert panel.chooser.currentText() == "DRAM", "the scratchpad is empty yet"
    session.go_to(400)
    stage.context.model.num_verbs += 1
    stage.moved()
    assert panel.chooser.currentText() == "Core[0].SPAD"
    panel.chooser.setCurrentIndex(0)
    session.go_to(500)
    stage.context.model.num_verbs += 1
    stage.moved()
    assert panel.chooser.currentText() == "DRAM", "what was chosen stays"


@pytest.mark.parametrize("height", [60, 104, 160, 230, 400, 900])
def test_texts_beside_twelve_banks_do_not_overlap(height: int) -> None:
    layout = fit(view_of(12 * 32768, 12), 400, height)
    marks = layout.rows(24)
    assert marks[0].text == "0x0"
    places = [mark.place for mark in marks]
    assert all(after - before >= 12 for before, after in pairwise(places))
    if height >= 12 * 13:
        assert sum(mark.is_main for mark in marks) == 12


def test_five_rows_of_numbers_can_be_seen_in_a_small_window(toy: Driver) -> None:
    toy.window.resize(1280, 800)
    toy.do("debug.run")
    toy.qtbot.wait(50)
    panel = toy.window.docks.panel("memory")
    assert isinstance(panel, MemoryPanel)
    row = panel.view.verticalHeader().defaultSectionSize()
    assert panel.view.viewport().height() >= 5 * row
    assert panel.map.height() >= 48


def test_memory_follows_instructions_and_operators(stage: Stage) -> None:
    session = stage.open_toy(run_to=200)
    panel = panel_of(stage)
    listing = session.program.listing
    is_plain = [memory.num_banks < 2 for memory in session.description.memories]
    number, written = next(
        (index, place)
        for index in range(len(listing))
        for place in listing.describe(index).writes
        if is_plain[place.memory] and not any(r.instruction == index for r in panel.map.regions)
    )
    panel.on_selection_changed(Selection(instruction=number))
    assert panel.chooser.currentIndex() == written.memory
    assert panel.table.contents.address == written.address
    assert panel.table.contents.size_bytes == written.size_bytes
    held = session.program.memory_map.allocations[0]
    producers = [node for node in session.program.graph.nodes if held.tensor in node.outputs]
    chosen = Selection(node=producers[0].id) if producers else Selection(tensor=held.tensor)
    panel.on_selection_changed(chosen)
    assert panel.chooser.currentIndex() == held.memory
    assert panel.table.contents.address == held.address
