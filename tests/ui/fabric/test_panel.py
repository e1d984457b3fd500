"""The fabric panel on a toy fabric: what is drawn, what can be picked, what follows from it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QImage, QRegion
from PySide6.QtWidgets import QApplication, QToolButton
from pytestqt.qtbot import QtBot

from npuviz.base.units import format_share
from npuviz.debug.session import Session
from npuviz.sim.fabric import (
    FULL,
    WORD_DTYPE,
    Area,
    HasElements,
    HasFabric,
    HasQueueFill,
    HasRoutes,
    HasWords,
)
from npuviz.ui.fabric.camera import FabricCamera, fitted
from npuviz.ui.fabric.cells import CellLayer, CellTexts
from npuviz.ui.fabric.frame import NO_COLOR, FabricWants, take_frame, waiting_together, word_places
from npuviz.ui.fabric.panel import SPEC, FabricPanel
from npuviz.ui.fabric.raster import FabricRaster, warm_up
from npuviz.ui.fabric.style import FabricStyle
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page_choice import make_page
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.selection import Selection
from tests.toy.fabric import FAULT, RUNNING, WATCHED, ToyFabric, make_fabric
from tests.toy.session import make_recorder
from tests.ui.panel_stage import Stage


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    warm_up()


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> FabricPanel:
    assert isinstance(stage.panel, FabricPanel)
    return stage.panel


def open_fabric(stage: Stage, run_to: int = 200, **sizes: int) -> ToyFabric:
    machine = make_fabric(**sizes)
    session = Session(machine, make_recorder(machine))
    session.go_to(run_to)
    stage.context.model.show_opened(Opened(Path("f.toy"), "f", OpenOptions(), session.trace, session))
    stage.moved()
    while not stage.panel.is_settled:
        QApplication.processEvents()
    QApplication.processEvents()
    stage.panel.grab()
    return machine


def wait_idle(stage: Stage, qtbot: QtBot) -> None:
    model = stage.context.model
    qtbot.waitUntil(lambda: not model.is_running and not model.is_busy)


def centre_of(panel: FabricPanel, column: float, row: float) -> QPoint:
    x, y = panel.view.camera.to_screen(column, row)
    return (panel.view.canvas.topLeft() + QPointF(x, y)).toPoint()


def test_the_toy_fulfils_every_contract() -> None:
    machine = make_fabric()
    for contract in (HasFabric, HasElements, HasQueueFill, HasRoutes, HasWords):
        assert isinstance(machine, contract)


def test_elements_have_the_colour_of_their_state(stage: Stage) -> None:
    machine = open_fabric(stage)
    panel = panel_of(stage)
    panel.bar.words.setChecked(False)
    image = panel.view.grab().toImage()
    style = panel.view.style_colors
    assert style is not None
    states = machine.element_states(machine.fabric.whole)
    plain = 0
    for column, row in [(c, r) for c in range(3, 37, 4) for r in range(3, 26, 3)]:
        state = int(states[row, column])
        # Left of the middle, where no lane and no word is.
        spot = centre_of(panel, column + 0.3, row + 0.3)
        if state == RUNNING:
            assert image.pixelColor(spot) == QColor(style.color_of_state(RUNNING).rgb())
            plain += 1
        else:
            assert image.pixelColor(spot) != QColor(style.color_of_state(RUNNING).rgb())
    assert plain > 10


def test_legend_counts_what_is_in_sight(stage: Stage) -> None:
    machine = open_fabric(stage)
    panel = panel_of(stage)
    frame = panel.view.frame
    assert frame is not None
    running = int((machine.element_states(frame.area) == RUNNING).sum())
    assert f"running {running}" in " ".join(panel.legend.texts).replace("\u2009", "")
    panel.bar.shade.setCurrentIndex(panel.bar.shade.findData("load"))
    panel.grab()
    loads = machine.link_loads(panel.view.frame.area)[..., 1:]  # pyright: ignore[reportOptionalMemberAccess]
    assert f"busiest link {format_share(int(loads.max()) / FULL, 0)}" in panel.legend.texts


def test_click_and_arrows_select_elements(stage: Stage, qtbot: QtBot) -> None:
    open_fabric(stage)
    panel = panel_of(stage)
    panel.bar.words.setChecked(False)
    panel.grab()
    for place in ((5, 7), (12, 20), (30, 3)):
        qtbot.mouseClick(
            panel.view, Qt.MouseButton.LeftButton, pos=centre_of(panel, place[0] + 0.4, place[1] + 0.4)
        )
        assert stage.context.selection.current.element == place
    qtbot.keyClick(panel.view, Qt.Key.Key_Right)
    qtbot.keyClick(panel.view, Qt.Key.Key_Down)
    assert stage.context.selection.current.element == (31, 4)


def test_element_and_unit_belong_together(stage: Stage) -> None:
    open_fabric(stage)
    panel = panel_of(stage)
    panel.view.element_chosen.emit(*WATCHED[1])
    assert stage.context.selection.current.unit == 1
    panel.on_selection_changed(Selection(unit=2))
    assert panel.view.marks.selected == WATCHED[2]


def test_click_on_a_word_follows_it_to_its_end(stage: Stage, qtbot: QtBot) -> None:
    machine = open_fabric(stage)
    panel = panel_of(stage)
    words = machine.words(machine.fabric.program)
    columns, rows = word_places(words, machine.cycle)
    # One that stands alone.
    apart = [
        number
        for number in range(len(words))
        if np.sort(np.hypot(columns - columns[number], rows - rows[number]))[1] > 1.5
        and not words["waits"][number]
        and words["port"][number] not in (0, 5)
    ]
    chosen = apart[0]
    spot = centre_of(panel, float(columns[chosen]), float(rows[chosen]))
    qtbot.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=spot)
    word = int(words["id"][chosen])
    assert stage.context.selection.current.word == word
    panel.grab()
    frame = panel.view.frame
    assert frame is not None
    assert frame.path == machine.word_path(word)
    assert frame.path is not None
    before = len(frame.path.hops)
    for _ in range(8):
        qtbot.keyClick(panel, Qt.Key.Key_BracketRight)
        wait_idle(stage, qtbot)
        stage.moved()
    after = machine.word_path(word)
    assert after is not None
    assert len(after.hops) > before
    last = after.hops[-1]
    assert panel.view.marks.selected == (last.column, last.row)


def test_routes_are_drawn_for_the_chosen_color(stage: Stage) -> None:
    machine = open_fabric(stage)
    panel = panel_of(stage)
    panel.bar.words.setChecked(False)
    without = panel.view.grab().toImage()
    panel.bar.route.setCurrentIndex(panel.bar.route.findData(2))
    image = panel.view.grab().toImage()
    style = panel.view.style_colors
    assert style is not None
    # Between two elements of one row, but not between two of one column.
    across, down = centre_of(panel, 6.0, 8.5), centre_of(panel, 6.5, 8.0)
    assert image.pixelColor(across) == QColor(style.color_of_route(2).rgb())
    assert image.pixelColor(down) == without.pixelColor(down)
    assert len(machine.routes(2, machine.fabric.whole)) == 40 * 30


def test_fit_go_to_and_keys_of_the_view(stage: Stage, qtbot: QtBot) -> None:
    machine = open_fabric(stage)
    panel = panel_of(stage)
    shown = panel.view.camera.visible(machine.fabric, panel.view.canvas.width(), panel.view.canvas.height())
    assert shown.columns >= machine.fabric.program.columns
    panel.bar.place.setText("PE(4, 6)")
    qtbot.keyClick(panel.bar.place, Qt.Key.Key_Return)
    assert stage.context.selection.current.element == (6, 8)
    large = panel.view.camera.scale
    qtbot.keyClick(panel.view, Qt.Key.Key_Minus)
    assert panel.view.camera.scale < large
    shades = [panel.bar.shade.currentData()]
    for _ in range(3):
        qtbot.keyClick(panel, Qt.Key.Key_L)
        shades.append(panel.bar.shade.currentData())
    assert shades == ["state", "load", "queue", "state"]
    panel.bar.place.setText("99999, 1")
    qtbot.keyClick(panel.bar.place, Qt.Key.Key_Return)
    assert stage.context.selection.current.element == (6, 8)


def test_breakpoint_on_words_that_come_to_an_element(stage: Stage) -> None:
    open_fabric(stage)
    panel = panel_of(stage)
    panel.add_word_breakpoint((6, 8), 5)
    panel.add_word_breakpoint((2, 2))
    assert [point.text for point in stage.session.breakpoints.all] == [
        "wavelet color 5 at 4,6",
        "wavelet at 0,0",
    ]


def test_play_goes_on_and_stops_at_the_end(stage: Stage, qtbot: QtBot) -> None:
    machine = open_fabric(stage, run_to=1520)
    panel = panel_of(stage)
    panel.bar.speed.setCurrentIndex(3)
    panel.bar.play.setChecked(True)
    qtbot.waitUntil(lambda: machine.is_finished and not panel.bar.play.isChecked())


def test_inspector_tells_of_elements_and_words(stage: Stage) -> None:
    machine = open_fabric(stage)
    source = InspectorSource(
        program=machine.program, description=machine.description, session=stage.session, cycle=machine.cycle
    )
    page = make_page(source, Selection(element=(6, 8)))
    assert (page.kind, page.title) == ("PE", "PE(4,6)")
    titles = [section.title for section in page.sections]
    assert "Queues" in titles
    assert "Variables" in titles
    routes = next(s.table for s in page.sections if s.title == "Routes" and s.table).rows
    assert [[cell.text for cell in row] for row in routes] == [
        ["2 rows", "West", "Ramp, East", ""],
        ["5 columns", "North", "Ramp, South", ""],
    ]
    sentences = [cell.text for section in page.sections for cell in section.sentences]
    assert any("--set watch" in text for text in sentences)
    watched = make_page(source, Selection(element=WATCHED[0], unit=0))
    rows = next(s.table for s in watched.sections if s.title == "In the timeline" and s.table).rows
    assert rows[0][0].link == Selection(unit=0, track=0, element=WATCHED[0])
    word = int(machine.words(machine.fabric.whole)["id"][3])
    way = machine.word_path(word)
    assert way is not None
    page = make_page(source, Selection(word=word))
    hops = next(s.table for s in page.sections if s.title == "Hops" and s.table)
    assert len(hops.rows) == len(way.hops)
    assert make_page(source, Selection(element=(999, 0))).kind == "Machine"


def test_only_elements_that_changed_are_written_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = open_fabric(stage, run_to=20)
    panel = panel_of(stage)
    view = panel.view
    view.set_camera(FabricCamera(100.0, 0.0, 0.0))
    view.grab()
    counts: list[int] = []
    paint = CellTexts.paint
    monkeypatch.setattr(
        CellTexts, "paint", lambda texts, written: (counts.append(len(written)), paint(texts, written))
    )
    changed: list[int] = []
    for cycle in (21, 22, 60, 61, 59):
        before = dict(view.frame.glances) if view.frame is not None else {}
        panel.model.go_to(cycle)
        while panel.model.is_busy:
            QApplication.processEvents()
        view.refresh()
        shown = view.grab().toImage()
        assert view.frame is not None
        assert view.frame.cycle == machine.cycle == cycle
        changed.append(sum(before.get(place) != glance for place, glance in view.frame.glances.items()))
        view._texts = CellLayer(panel.theme)
        assert np.abs(pixels_of(shown) - pixels_of(view.grab().toImage())).max() <= 1, cycle
    assert view.frame is not None
    assert counts[1::2] == [len(view.frame.glances)] * 5
    assert counts[::2] == changed
    assert min(changed) < len(view.frame.glances)


def pixels_of(image: QImage) -> np.ndarray:
    """(height, width, 4) int64 of a picture."""
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(plain.constBits(), np.uint8).reshape(plain.height(), plain.width(), 4).astype(int)


def test_what_is_painted_again_is_as_if_all_of_it_was(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = open_fabric(stage)
    panel = panel_of(stage)
    view = panel.view
    whole, drawn = view.rect(), list[QRect]()
    monkeypatch.setattr(view, "update", lambda rect=whole: drawn.append(rect.intersected(whole)))

    def step() -> None:
        stage.session.go_to(machine.cycle + 7)
        stage.stepped()

    image = view.grab().toImage()
    for change, is_partial in (
        (step, True),
        (lambda: panel.on_selection_changed(Selection(element=WATCHED[0])), True),
        (step, True),
        (lambda: view.set_camera(view.camera.zoomed(1.5, 90, 60)), False),
        (lambda: stage.context.theme.set_mode("light"), False),
    ):
        drawn.clear()
        change()
        assert drawn
        assert (whole not in drawn) == is_partial
        for rect in drawn:
            view.render(image, rect.topLeft(), QRegion(rect))
        assert image == view.grab().toImage()


def test_urgent_elements_show_among_thousands() -> None:
    machine = make_fabric(200, 200)
    frame = take_frame(machine, machine.fabric.whole, FabricWants(links=False, words=False), 0)
    frame.states[77, 133] = FAULT
    from npuviz.ui.theme.theme import Theme

    theme = Theme("dark")
    image = FabricRaster().paint(
        FabricCamera(0.25), frame, "state", FabricStyle(theme, machine.fabric), 60, 60, 1.0
    )
    assert image.pixelColor(33, 19) == theme.color("hazard")
    reds = sum(image.pixelColor(x, y) == theme.color("hazard") for x in range(60) for y in range(60))
    assert reds == 1


@pytest.mark.parametrize("scale", [0.3, 1.07, 2.5, 5.0, 12.0, 60.0])
def test_every_scale_shows_each_element_where_it_is(scale: float) -> None:
    from npuviz.ui.theme.theme import Theme

    machine = make_fabric(40, 30)
    style = FabricStyle(Theme("dark"), machine.fabric)
    camera = FabricCamera(scale, 3.0, 2.0)
    area = camera.visible(machine.fabric, 300, 200)
    frame = take_frame(machine, area, FabricWants(links=False, words=False), 0)
    frame.states[:] = 0
    column, row = area.column + min(4, area.columns - 1), area.row + min(2, area.rows - 1)
    frame.states[row - area.row, column - area.column] = FAULT
    image = FabricRaster().paint(camera, frame, "state", style, 300, 200, 1.0)
    x, y = camera.to_screen(column + 0.5, row + 0.5)
    assert image.pixelColor(int(x), int(y)) == Theme("dark").color("hazard")


def test_camera_keeps_the_place_under_the_pointer_and_the_grid_in_sight() -> None:
    shape = make_fabric().fabric
    camera = FabricCamera(16, 3, 4)
    near = camera.zoomed(1.7, 120, 90)
    assert near.to_grid(120, 90) == pytest.approx(camera.to_grid(120, 90))
    assert near.to_screen(*near.to_grid(31, 17)) == pytest.approx((31, 17))
    for dx, dy in ((1e6, 0), (-1e6, 0), (0, 1e6), (0, -1e6)):
        area = camera.moved(dx, dy).clamped(shape, 400, 300).visible(shape, 400, 300)
        assert area.columns >= 1
        assert area.rows >= 1
    whole = fitted(shape.whole, 800, 600)
    assert whole.visible(shape, 800, 600) == shape.whole
    assert whole.scale == int(whole.scale)


def test_words_that_wait_together_are_counted() -> None:
    words = np.zeros(4, WORD_DTYPE)
    words["waits"], words["column"], words["row"], words["port"] = True, 5, 6, 2
    words["start"] = [4, 2, 3, 1]
    columns, rows = word_places(words, 9)
    assert len(set(zip(columns.round(6), rows.round(6), strict=True))) == 1
    # The one that came first stands for all of them.
    assert waiting_together(words).tolist() == [0, 0, 0, 4]
    words["port"][0] = 1
    assert waiting_together(words).tolist() == [1, 0, 0, 3]
    words["waits"] = False
    assert waiting_together(words).tolist() == [1, 1, 1, 1]


def test_frames_hold_only_what_was_asked_for() -> None:
    machine = make_fabric()
    area = Area(3, 4, 5, 6)
    frame = take_frame(machine, area, FabricWants(links=False, words=False), 0)
    assert (frame.loads, frame.fills, frame.words, frame.routes) == (None, None, None, None)
    assert frame.states.shape == (6, 5)
    assert frame.color == NO_COLOR
    full = take_frame(machine, area, FabricWants("queue", True, True, 5, True, 0), 0)
    assert full.loads is not None
    assert full.loads.shape == (6, 5, 5)
    assert full.routes is not None
    assert len(full.routes) == 30
    assert set(full.glances) == {(c, r) for c in range(3, 8) for r in range(4, 10)}


def test_empty_closed_and_running(stage: Stage) -> None:
    stage.panel.grab()
    open_fabric(stage)
    assert panel_of(stage).view.isVisible()
    stage.context.model.show_opened(None)
    stage.panel.on_session_changed()
    stage.panel.grab()
    assert not panel_of(stage).view.isVisible()
    stage.open_toy()
    stage.panel.on_session_changed()
    assert not panel_of(stage).view.isVisible()


def test_both_themes_draw_differently(stage: Stage) -> None:
    open_fabric(stage)
    panel = panel_of(stage)
    dark = panel.view.grab().toImage()
    stage.context.theme.set_mode("light")
    assert panel.view.grab().toImage() != dark


def test_timeline_shows_only_the_selected_element(qtbot: QtBot) -> None:
    from npuviz.ui.timeline.panel import SPEC as TIMELINE
    from npuviz.ui.timeline.panel import TimelinePanel

    stage = Stage(TIMELINE)
    try:
        open_fabric(stage)
        panel = stage.panel
        assert isinstance(panel, TimelinePanel)
        panel.on_session_changed()
        toggle = panel.findChild(QToolButton, "timeline.only_selected")
        assert toggle is not None
        everything = {row.track for row in panel.view.state.layout.rows if row.track >= 0}
        toggle.setChecked(True)
        panel.on_selection_changed(Selection(element=WATCHED[1], unit=1))
        units = {track.id: track.unit for track in panel.view.tracks}
        shown = {row.track for row in panel.view.state.layout.rows if row.track >= 0}
        assert shown
        assert {units[track] for track in shown} == {1}
        # An element that is not recorded leaves everything in sight.
        panel.on_selection_changed(Selection(element=(20, 20)))
        assert {row.track for row in panel.view.state.layout.rows if row.track >= 0} == everything
        stage.open_toy()
        panel.on_session_changed()
        assert toggle.isHidden()
    finally:
        stage.close()
