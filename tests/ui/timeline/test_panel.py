"""The timeline panel, driven by hand on the toy machine."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from npuviz.debug.session import Session
from npuviz.program.instruction import Dependency, DependencyKind, HasDependencies
from npuviz.ui.timeline.canvas import TOP
from npuviz.ui.timeline.labels import LabelMasks, Mask
from npuviz.ui.timeline.marks import arrow_pen
from npuviz.ui.timeline.measure import Measurement
from npuviz.ui.timeline.panel import SPEC, TimelinePanel
from npuviz.ui.timeline.raster import TimelineRaster
from npuviz.ui.timeline.state import Picked, Range
from npuviz.ui.timeline.view import TimelineView
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.selection import Selection
from npuviz.workbench.sessions.bookmarks import Bookmark
from tests.ui.panel_stage import Stage, toy_session


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> TimelinePanel:
    assert isinstance(stage.panel, TimelinePanel)
    return stage.panel


def view_of(stage: Stage) -> TimelineView:
    return panel_of(stage).view


def point_of(view: TimelineView, track: int, cycle: float) -> QPoint:
    row = view.state.layout.of_track(track)
    assert row is not None
    x = view.state.header_width + view.state.viewport.x_of(cycle)
    return QPoint(round(x), TOP + row.top - view.state.scroll + row.height // 2)


def pixel_at(view: TimelineView, point: QPoint) -> int:
    image: QImage = view.grab().toImage()
    return image.pixelColor(point).rgb() & 0xFFFFFF


def first_slice(view: TimelineView, track: int, kind: int) -> Picked:
    index = view.state.index
    assert index is not None
    rows = (index.track(track).view.kind == kind).nonzero()[0]
    found = view.state.slice_numbered(track, int(rows[len(rows) // 2]))
    assert found is not None
    return found


def test_without_session_it_says_what_would_be_here(stage: Stage) -> None:
    assert view_of(stage).reader is None
    assert not view_of(stage).isVisible()


def test_opening_fits_the_run(stage: Stage) -> None:
    session = stage.open_toy(run_to=600)
    state = view_of(stage).state
    assert state.viewport.start <= 0
    assert state.viewport.end >= session.cycle
    assert state.cursor == session.cycle == 600


def test_headers_say_what_the_top_of_a_counter_stands_for_at_every_cycle(stage: Stage) -> None:
    session = stage.open_toy(run_to=2)
    view = view_of(stage)
    pictures: list[QImage] = []
    for cycle in (2, 600):
        session.go_to(cycle)
        stage.moved()
        shown = view.grab().toImage()
        view._headers_key = None
        assert view.grab().toImage() == shown, cycle
        pictures.append(shown.copy(0, TOP, view.state.header_width, shown.height() - TOP))
    assert pictures[0] != pictures[1], "a counter has risen"


def test_a_band_of_no_unit_is_labelled_with_operators(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What belongs to no unit says only what is worked on: its kind would be the same word everywhere."""
    session = toy_session()
    session.go_to(600)
    assert session.trace is not None
    schema = session.trace.schema
    tracks = tuple(replace(track, unit=-1) if track.id == 1 else track for track in schema.tracks)
    own = replace(schema, tracks=tracks)
    monkeypatch.setattr(type(session.trace), "schema", property(lambda _reader: own))
    texts: list[tuple[str, str]] = []
    best = LabelMasks.mask

    def mask(masks: LabelMasks, short: str, long: str, pixels: int) -> Mask | None:
        texts.append((short, long))
        return best(masks, short, long, pixels)

    monkeypatch.setattr(LabelMasks, "mask", mask)
    stage.context.model.show_opened(Opened(Path("a.toy"), "a", OpenOptions(), session.trace, session))
    stage.moved()
    view_of(stage).zoom_to(0, 60)
    view_of(stage).grab()
    operators = set(schema.node_names)
    alone = {short for short, long in texts if short == long and short in operators}
    assert alone
    # A unit's own slices keep what it does.
    assert any(short != long and long.split("  ")[-1] in operators for short, long in texts)


def test_slices_have_the_colour_of_their_role(stage: Stage) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 0, 0)
    view.set_viewport(view.state.viewport.shown(found.start - 2, found.end + 2, 600))
    wanted = stage.context.theme.color("move-in").rgb() & 0xFFFFFF
    row = view.state.layout.of_track(0)
    assert row is not None
    point = point_of(view, 0, (found.start + found.end) / 2)
    # Above the label, inside the slice.
    assert pixel_at(view, QPoint(point.x(), TOP + row.top - view.state.scroll + 3)) == wanted


def test_click_selects_interval_and_tells_all_panels(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 1, 1)
    view.set_viewport(view.state.viewport.shown(found.start - 5, found.end + 5, 600))
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=point_of(view, 1, (found.start + found.end) / 2))
    selection = stage.context.selection.current
    assert selection.track == 1
    assert selection.cycles == (found.start, found.end)
    assert selection.instruction == found.instruction
    assert selection.unit == 1


def test_arrows_lead_from_producer_to_consumer(stage: Stage) -> None:
    session = stage.open_toy(run_to=600)
    view = view_of(stage)
    view.pick(first_slice(view, 1, 1))
    arrows = view.state.arrows
    assert session.trace is not None
    picked = view.state.picked
    assert picked is not None
    said = program_dependencies(session, picked.instruction)
    assert Counter(arrow.kind for arrow in arrows) == Counter(d.kind for d in said)
    assert {"flow", "anti"} <= {arrow.kind for arrow in arrows}
    flows = {(int(f["source"]), int(f["sink"])) for f in session.trace.flows_of(picked.instruction)}
    assert flows == {(d.source, d.sink) for d in said if d.kind == "flow"}, "a flow is drawn once"
    assert any(arrow.sink_track == 1 for arrow in arrows)
    for arrow in arrows:
        assert arrow.source_cycle <= arrow.cycle + 1


def program_dependencies(session: Session, instruction: int) -> tuple[Dependency, ...]:
    listing = session.program.listing
    assert isinstance(listing, HasDependencies)
    return listing.dependencies_of(instruction)


def choose(stage: Stage, selection: Selection) -> None:
    """Select somewhere else; the panel hears of it at once."""
    stage.context.selection.set(selection)
    stage.panel.on_selection_changed(selection)


def test_an_end_that_is_not_in_the_trace_has_no_arrow_until_it_is(stage: Stage) -> None:
    session = stage.open_toy(run_to=275)
    view = view_of(stage)
    choose(stage, Selection(instruction=34))
    said = program_dependencies(session, 34)
    assert 0 < len(view.state.arrows) < len(said)
    session.go_to(600)
    stage.moved()
    assert len(view.state.arrows) == len(said)


def test_arrows_are_told_apart_without_colour_and_explained(stage: Stage) -> None:
    kinds = get_args(DependencyKind)
    pens = [arrow_pen(stage.context.theme, kind) for kind in kinds]
    assert len({(pen.style(), tuple(pen.dashPattern())) for pen in pens}) == len(kinds)
    assert len({pen.color().name() for pen in pens}) == len(kinds)
    stage.open_toy(run_to=600)
    legend = panel_of(stage).legend
    before = legend.grab().toImage()
    choose(stage, Selection(instruction=34))
    assert legend.grab().toImage() != before
    choose(stage, Selection())
    assert legend.grab().toImage() == before


def test_selecting_an_instruction_elsewhere_brings_it_into_sight(stage: Stage) -> None:
    stage.open_toy(run_to=700)
    view = view_of(stage)
    view.set_viewport(view.state.viewport.shown(0, 60, 700))
    choose(stage, Selection(instruction=90))
    picked = view.state.picked
    assert picked is not None
    assert picked.start > 60
    assert view.state.viewport.start <= picked.start < view.state.viewport.end
    assert view.state.viewport.span == pytest.approx(60, rel=0.01)


def test_a_folded_group_stands_for_its_tracks(stage: Stage) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    group = next(row for row in view.state.layout.rows if row.kind == "group")
    view.toggle_group(group)
    assert view.state.layout.of_track(1) is None
    shown = view.state.layout.showing(1)
    assert shown is not None
    assert shown.name == group.name
    choose(stage, Selection(instruction=34))
    view.grab()


def test_a_range_of_counters_alone_names_them() -> None:
    measured = Measurement(0, 10, 0, 0, 0.0, 0.0, (), (), 1e9, num_counters=2)
    assert measured.tracks_text == "2 counters"
    assert replace(measured, num_tracks=1).tracks_text == "1 track"


def test_drag_measures_and_counts(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    start, end = point_of(view, 0, 100), point_of(view, 1, 400)
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(view, QPoint((start.x() + end.x()) // 2, start.y()))
    qtbot.mouseMove(view, end)
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=end)
    measured = view.state.measurement
    assert measured is not None
    assert 60 < measured.first < 140
    assert 360 < measured.last < 440
    length = (measured.last - measured.first) * measured.num_units
    index = view.state.index
    chosen = view.state.range
    assert index is not None
    assert chosen is not None
    busy = index.busy([t for t in chosen.tracks if index.is_interval(t)], measured.first, measured.last)
    work = sum(amount for number, amount in busy.items() if index.categories.is_work[number])
    assert measured.busy == pytest.approx(work / length)
    assert stage.context.selection.current.cycles == (measured.first, measured.last)
    assert "cycles" in measured.title()
    assert measured.as_csv().startswith("name,cycles,fraction\n")


@pytest.mark.parametrize(
    ("key", "direction"),
    [(Qt.Key.Key_W, -1), (Qt.Key.Key_S, 1), (Qt.Key.Key_Plus, -1), (Qt.Key.Key_Minus, 1)],
)
def test_zoom_keys(stage: Stage, qtbot: QtBot, key: Qt.Key, direction: int) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    view.set_viewport(view.state.viewport.shown(200, 400, 600))
    before = view.state.viewport.span
    qtbot.keyClick(view, key)
    assert (view.state.viewport.span - before) * direction > 0


def test_pan_home_end_and_fit(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    view.set_viewport(view.state.viewport.shown(200, 300, 600))
    qtbot.keyClick(view, Qt.Key.Key_D)
    assert view.state.viewport.start > 200
    qtbot.keyClick(view, Qt.Key.Key_A)
    assert view.state.viewport.start == pytest.approx(200)
    qtbot.keyClick(view, Qt.Key.Key_End)
    assert view.state.viewport.end >= 600
    qtbot.keyClick(view, Qt.Key.Key_Home)
    assert view.state.viewport.start <= 0
    qtbot.keyClick(view, Qt.Key.Key_F)
    assert view.state.viewport.span >= 600


def test_focus_and_range_of_the_picked_slice(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 1, 1)
    view.pick(found)
    qtbot.keyClick(view, Qt.Key.Key_F)
    shown = view.state.viewport
    assert shown.start <= found.start < found.end <= shown.end
    assert shown.span < 100
    qtbot.keyClick(view, Qt.Key.Key_R)
    assert view.state.range == Range(found.start, found.end, (1,))
    qtbot.keyClick(view, Qt.Key.Key_M, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClick(view, Qt.Key.Key_M)
    assert [(each.first, each.last) for each in view.state.bookmarks] == [(found.start, found.end)]
    assert view.state.mark == (found.start, found.end)
    qtbot.keyClick(view, Qt.Key.Key_Delete)
    assert view.state.mark is None
    assert stage.context.bookmarks.all == view.state.bookmarks
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert view.state.range is None
    assert view.state.picked is None


def test_neighbours_and_bookmarks(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 1, 1)
    view.pick(found)
    qtbot.keyClick(view, Qt.Key.Key_Period)
    picked = view.state.picked
    assert picked is not None
    assert picked.start >= found.end
    qtbot.keyClick(view, Qt.Key.Key_Comma)
    assert view.state.picked == found
    qtbot.keyClick(view, Qt.Key.Key_3, Qt.KeyboardModifier.ControlModifier)
    assert view.state.bookmarks == (Bookmark(600, 600, digit=3),)
    view.set_viewport(view.state.viewport.shown(0, 100, 600))
    qtbot.keyClick(view, Qt.Key.Key_3)
    assert view.state.viewport.start < 600 < view.state.viewport.end


def test_letters_are_kept_from_the_window_only_if_they_mean_something(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=100)
    view = view_of(stage)
    before = view.state.viewport
    qtbot.keyClick(view, Qt.Key.Key_W, Qt.KeyboardModifier.AltModifier)
    qtbot.keyClick(view, Qt.Key.Key_X)
    assert view.state.viewport == before


def wheel(view: TimelineView, at: QPoint, notches: int, modifiers: Qt.KeyboardModifier) -> None:
    event = QWheelEvent(
        QPointF(at), QPointF(view.mapToGlobal(at)), QPoint(), QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton, modifiers, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view, event)


def test_wheel_zooms_at_the_pointer_pans_and_sets_heights(stage: Stage) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    view.set_viewport(view.state.viewport.shown(100, 500, 600))
    at = point_of(view, 0, 250)
    under = view.state.viewport.cycle_at(at.x() - view.state.header_width)
    wheel(view, at, 2, Qt.KeyboardModifier.ControlModifier)
    assert view.state.viewport.span < 400
    assert view.state.viewport.cycle_at(at.x() - view.state.header_width) == pytest.approx(under)
    start = view.state.viewport.start
    wheel(view, at, -1, Qt.KeyboardModifier.ShiftModifier)
    assert view.state.viewport.start > start
    height = view.options.row_height
    wheel(view, at, 1, Qt.KeyboardModifier.AltModifier)
    assert view.options.row_height > height


def test_double_click_zooms_to_the_event(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 1, 1)
    point = point_of(view, 1, (found.start + found.end) / 2)
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=point)
    assert view.state.viewport.span < 120
    wide = view.state.viewport.span
    qtbot.mouseDClick(
        view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, pos=point_of(view, 1, found.start)
    )
    assert view.state.viewport.span > wide


def test_groups_fold_by_a_click_on_their_name(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=300)
    view = view_of(stage)
    rows = len(view.state.layout.rows)
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(40, TOP + 8))
    assert len(view.state.layout.rows) < rows
    assert stage.panel.save_state()["collapsed"] == ["Core[0]"]
    view.grab()
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(40, TOP + 8))
    assert len(view.state.layout.rows) == rows


def test_what_is_under_way_is_open_and_ends_in_the_trace(stage: Stage) -> None:
    session = stage.open_toy(run_to=100)
    view = view_of(stage)
    for _ in range(40):
        session.step()
        stage.moved()
        going_on = [a for a in session.machine.activities() if a.start < session.cycle]
        assert session.trace is not None
        for item in view.state.under_way:
            recorded = session.trace.at(item.track, item.start)
            assert recorded is None or recorded["start"] != item.start
        if going_on and not view.state.under_way:
            pytest.fail("an activity is neither recorded nor drawn")


def test_the_future_is_faded(stage: Stage) -> None:
    session = stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 0, 0)
    view.set_viewport(view.state.viewport.shown(found.start - 2, found.end + 2, 600))
    row = view.state.layout.of_track(0)
    assert row is not None
    x = round(view.state.header_width + view.state.viewport.x_of((found.start + found.end) / 2))
    point = QPoint(x, TOP + row.top - view.state.scroll + 3)
    past = pixel_at(view, point)
    session.go_to(max(found.start - 10, 0))
    view.is_fitted = False
    kept = view.state.viewport
    stage.moved()
    view.set_viewport(kept)
    assert pixel_at(view, point) != past


def test_selection_of_an_instruction_elsewhere_is_shown(stage: Stage) -> None:
    stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 1, 1)
    stage.panel.on_selection_changed(Selection(instruction=found.instruction, node=found.node))
    assert view.state.picked is not None
    assert view.state.picked.instruction == found.instruction
    assert view.state.node == found.node


def test_history_rewritten_is_painted_anew(stage: Stage) -> None:
    session = stage.open_toy(run_to=300)
    view = view_of(stage)
    before = view.grab().toImage()
    session.go_to(50)
    session.write("Core[0].LD.latency", 60)
    session.go_to(300)
    stage.moved()
    view.set_viewport(view.state.viewport)
    assert view.grab().toImage() != before


def test_a_step_does_not_wait_for_the_minimap(
    stage: Stage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stage.open_toy(run_to=400)
    view = view_of(stage)
    ends: list[int] = []
    paint = TimelineRaster.paint_overview

    def noted(raster: TimelineRaster, width: int, height: int, ratio: float, end: int) -> QImage:
        ends.append(end)
        return paint(raster, width, height, ratio, end)

    monkeypatch.setattr(TimelineRaster, "paint_overview", noted)
    view.grab()
    ends.clear()
    session.go_to(410)
    stage.moved()
    view.grab()
    assert ends == [], "a picture that is some cycles behind stands for it"
    qtbot.waitUntil(lambda: ends == [410])
    session.go_to(600)
    stage.moved()
    view.grab()
    assert ends == [410, 600], "half as long again: at once"
    session.go_to(0)
    stage.moved()
    stage.open_toy(run_to=200)
    view.grab()
    assert ends[-1] == 200, "another run"


def test_tooltip_explains_in_at_most_six_lines(stage: Stage) -> None:
    from npuviz.ui.timeline.rows import Place
    from npuviz.ui.timeline.tooltip import tooltip_text

    stage.open_toy(run_to=600)
    view = view_of(stage)
    found = first_slice(view, 1, 1)
    view.set_viewport(view.state.viewport.shown(found.start, found.end, 600))
    row = view.state.layout.of_track(1)
    place = Place("tracks", view.state.viewport.x_of((found.start + found.end) / 2), 0, row)
    text = tooltip_text(view.state, view.tracks, place)
    assert "MUL" in text
    assert "cycles" in text
    assert text.count("<br>") <= 5


@pytest.mark.parametrize(
    "state", [{}, {"row_height": "x", "collapsed": 3}, {"row_height": 30, "by_operator": True}]
)
def test_restoring_damaged_state_is_harmless(stage: Stage, state: dict[str, object]) -> None:
    stage.open_toy(run_to=100)
    stage.panel.restore_state(state)
    stage.panel.grab()
    assert view_of(stage).options.row_height == (30 if state.get("row_height") == 30 else 22)
    assert view_of(stage).by_operator == (state.get("by_operator") is True)


def test_closing_the_session_empties_it(stage: Stage) -> None:
    stage.open_toy(run_to=100)
    stage.context.model.show_opened(None)
    assert view_of(stage).reader is None
    stage.panel.grab()


def test_a_measurement_follows_the_colouring(stage: Stage) -> None:
    """One in the categories of another colouring was painted with colours that are not there."""
    stage.open_toy(run_to=300)
    view = view_of(stage)
    tracks = tuple(track.id for track in view.tracks)
    view.set_by_operator(True)
    view.set_range(Range(0, 300, tracks, 0, 0), True)
    for by_operator in (False, True):
        view.set_by_operator(by_operator)
        assert view.state.index is not None
        assert view.state.measurement is not None
        known = view.state.index.categories.names
        assert view.state.measurement.shares
        for share in view.state.measurement.shares:
            assert share.name == known[share.category]
        view.grab()
