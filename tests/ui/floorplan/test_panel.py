"""The floorplan panel, and saving pictures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from npuviz.base.errors import ExportError
from npuviz.base.units import format_share
from npuviz.ui.floorplan.panel import SPEC, FloorplanPanel
from npuviz.ui.kit.picture import save_picture
from npuviz.workbench.selection import Selection
from tests.ui.panel_stage import Stage


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> FloorplanPanel:
    assert isinstance(stage.panel, FloorplanPanel)
    return stage.panel


def test_boxes_are_to_scale_inside_the_panel_and_apart(stage: Stage) -> None:
    session = stage.open_toy()
    view = panel_of(stage).view
    boxes = session.description.floorplan
    areas = [view.area_of(box) for box in boxes]
    for box, area in zip(boxes, areas, strict=True):
        assert view.rect().contains(area.toAlignedRect())
        assert area.width() / areas[0].width() == pytest.approx(box.width / boxes[0].width)
    for i, first in enumerate(areas):
        for second in areas[i + 1 :]:
            assert not first.intersects(second)


def test_unit_has_the_colour_of_what_it_does(stage: Stage) -> None:
    session = stage.open_toy(run_to=100)
    view = panel_of(stage).view
    seen = set[str]()
    for _ in range(60):
        session.step()
        stage.moved()
        state = session.machine.unit_states()[1]
        box = next(box for box in session.description.floorplan if box.unit == 1)
        area = view.area_of(box)
        color = view.grab().toImage().pixelColor(round(area.left()) + 6, round(area.top()) + 8)
        if state.role == "compute":
            assert color == stage.context.theme.color("compute")
        else:
            assert color != stage.context.theme.color("compute")
        seen.add(state.role)
    assert len(seen) > 1


def test_click_selects_unit_and_memory(stage: Stage, qtbot: QtBot) -> None:
    session = stage.open_toy(run_to=100)
    view = panel_of(stage).view
    for box in session.description.floorplan:
        center = view.area_of(box).center().toPoint()
        qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=center)
        selection = stage.context.selection.current
        if box.unit >= 0:
            assert selection.unit == box.unit
        else:
            assert selection.memory is not None
            assert selection.memory.memory == box.memory
    assert view.box_at(QPoint(0, 0).toPointF()) is None


def test_utilisation_since_the_start_or_in_the_selected_range(stage: Stage) -> None:
    session = stage.open_toy(run_to=400)
    panel = panel_of(stage)
    boxes = {box.unit: box for box in session.description.floorplan}
    busy = next(each for name, each, _ in session.machine.summary().units if name == "Core[0].ALU")
    assert f"{format_share(busy / 400)} busy since the start" in panel.view.tooltip(boxes[1])
    panel.context.selection.set(Selection(cycles=(100, 300)))
    panel.on_selection_changed(panel.context.selection.current)
    assert session.trace is not None
    covered, _kinds = session.trace.utilization(1, (100, 300), 1, [1, 2])
    assert f"{format_share(float(covered[0]))} busy in cycles" in panel.view.tooltip(boxes[1])


def test_memory_shows_its_level(stage: Stage) -> None:
    session = stage.open_toy(run_to=400)
    used = sum(region.size_bytes for region in session.machine.regions(1))
    assert used > 0
    box = next(box for box in session.description.floorplan if box.memory == 1)
    assert f"{used} B of" in panel_of(stage).view.tooltip(box)


def test_pictures_are_saved(stage: Stage, tmp_path: Path) -> None:
    stage.open_toy(run_to=100)
    view = panel_of(stage).view
    save_picture(view, tmp_path / "plan.png")
    assert QImage(str(tmp_path / "plan.png")).size() == view.size() * view.devicePixelRatio()
    save_picture(view, tmp_path / "plan.svg")
    text = (tmp_path / "plan.svg").read_text(encoding="utf-8")
    assert "<svg" in text
    assert ">ALU<" in text
    with pytest.raises(ExportError, match=r"\.png or \.svg"):
        save_picture(view, tmp_path / "plan.gif")
    for suffix in ("png", "svg"):
        with pytest.raises(ExportError, match="cannot be written"):
            save_picture(view, tmp_path / "missing" / f"plan.{suffix}")


def test_empty_and_closed(stage: Stage) -> None:
    stage.panel.grab()
    stage.open_toy()
    stage.context.model.show_opened(None)
    stage.panel.grab()
    assert not panel_of(stage).view.isVisible()
