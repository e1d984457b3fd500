"""The costs panel on the toy machine."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from npuviz.ui.costs.panel import SPEC, CostsPanel
from npuviz.ui.costs.table import CYCLES, NAME, SHARE
from npuviz.workbench.costs import GROUPINGS
from tests.ui.panel_stage import Stage


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage, qtbot: QtBot) -> CostsPanel:
    assert isinstance(stage.panel, CostsPanel)
    qtbot.waitUntil(lambda: stage.panel.is_settled)
    qtbot.wait(1)
    return stage.panel


def test_says_what_to_do_while_nothing_has_run(stage: Stage, qtbot: QtBot) -> None:
    assert panel_of(stage, qtbot).is_empty
    stage.open_toy()
    assert "F5" in panel_of(stage, qtbot).empty._label.text()


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_shares_sum_to_the_whole_run(stage: Stage, qtbot: QtBot, grouping: str) -> None:
    session = stage.open_toy(run_to=200)
    panel = panel_of(stage, qtbot)
    panel.grouping.setCurrentIndex(panel.grouping.findData(grouping))
    panel_of(stage, qtbot)
    rows = panel.table.rows
    assert len(rows) >= 2
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert sum(row.cycles for row in rows) == pytest.approx(session.cycle)
    assert [row.share for row in rows[:-1]] == sorted((row.share for row in rows[:-1]), reverse=True)
    assert rows[-1].name == "nothing under way"
    assert all(row.busy <= 1.0 for row in rows)


def test_in_a_narrow_panel_the_summary_gives_way_to_the_filter(stage: Stage, qtbot: QtBot) -> None:
    stage.open_toy(run_to=200)
    panel = panel_of(stage, qtbot)
    wide = panel.filter.width()
    panel.resize(420, 300)
    qtbot.wait(1)
    assert panel.summary.is_cut
    assert panel.filter.width() == wide


def test_follows_the_machine(stage: Stage, qtbot: QtBot) -> None:
    session = stage.open_toy(run_to=50)
    before = [row.cycles for row in panel_of(stage, qtbot).table.rows]
    session.go_to(200)
    stage.moved()
    assert [row.cycles for row in panel_of(stage, qtbot).table.rows] != before


def test_sorts_filters_and_selects(stage: Stage, qtbot: QtBot, qtmodeltester: ModelTester) -> None:
    stage.open_toy(run_to=200)
    panel = panel_of(stage, qtbot)
    qtmodeltester.check(panel.table)
    panel.view.sortByColumn(NAME, Qt.SortOrder.AscendingOrder)
    names = [row.name for row in panel.table.rows[:-1]]
    assert names == sorted(names)
    panel.view.sortByColumn(SHARE, Qt.SortOrder.DescendingOrder)
    panel._choose(panel.table.index(0, CYCLES))
    chosen = stage.context.selection.current
    assert chosen.node == panel.table.rows[0].key
    assert chosen.cycles == panel.table.rows[0].span
    panel.filter.setText(names[-1])
    assert {row.name for row in panel.table.rows} == {names[-1]}
