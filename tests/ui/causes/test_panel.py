"""The causes panel: sums, choosing, the path in the timeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from npuviz.ui.causes.panel import SPEC, CausesPanel
from npuviz.ui.causes.table import SHARE
from npuviz.workbench.opening import OpenOptions, open_file
from tests.ui.panel_stage import Stage

CNN = Path(__file__).parents[3] / "sample_models" / "tiny_cnn.onnx"


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage, qtbot: QtBot) -> CausesPanel:
    assert isinstance(stage.panel, CausesPanel)
    qtbot.waitUntil(lambda: stage.panel.is_settled)
    qtbot.wait(1)
    return stage.panel


def test_says_what_to_do_while_nothing_has_run(stage: Stage, qtbot: QtBot) -> None:
    assert panel_of(stage, qtbot).is_empty
    stage.open_toy()
    assert "F5" in panel_of(stage, qtbot).empty._label.text()


def test_parts_and_units_sum_to_the_run(stage: Stage, qtbot: QtBot) -> None:
    session = stage.open_toy(run_to=200)
    panel = panel_of(stage, qtbot)
    assert sum(row.cost.cycles for row in panel.table.rows) == session.cycle
    assert panel.units.rows
    for row in panel.units.rows:
        assert sum(row.cycles.values()) == session.cycle
    session.go_to(300)
    stage.moved()
    assert sum(row.cost.cycles for row in panel_of(stage, qtbot).table.rows) == 300


def test_a_click_selects_and_the_path_is_marked(stage: Stage, qtbot: QtBot) -> None:
    marked: list[object] = []
    stage.context.requests.path_marked.connect(marked.append)
    opened = open_file(CNN, OpenOptions(target="rk3588", settings={"batch": "1"}))
    assert opened.session is not None
    opened.session.run()
    stage.context.model.show_opened(opened)
    panel = panel_of(stage, qtbot)
    row = panel.table.rows[0]
    assert panel.table.text(row, SHARE).endswith("%")
    assert any(each.remedy for each in panel.table.rows)
    place = panel.view.visualRect(panel.table.index(0, 0)).center()
    qtbot.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert stage.context.selection.current.cycles == (row.cost.start, row.cost.end)
    panel.mark.click()
    path = marked[-1]
    assert path is not None
    assert int((path["end"] - path["start"]).sum()) == opened.session.cycle  # pyright: ignore
    panel.mark.click()
    assert marked[-1] is None
