"""The results of a sweep in the window."""

from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest

from npuviz.ui.sweep.panel import SweepPanel
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.sweep.results import SweepResults, write_results
from tests.ui.driver import Driver
from tests.ui.panel_bench import Bench, bench
from tests.workbench.sweep.test_results import results
from tests.workbench.toy_registry import toy_file

__all__ = ["bench"]


def show(bench: Bench, table: SweepResults) -> SweepPanel:
    panel = bench.make(SweepPanel)
    bench.model.show_opened(Opened(Path("x.sweep"), table.name, OpenOptions(), sweep=table))
    return panel


def test_runs_front_effects_and_table(bench: Bench) -> None:
    panel = show(bench, results())
    assert "sweep results" in bench.model.features
    assert panel.y_box.currentText() == "cycles"
    assert panel.x_box.currentText() == "cost"
    assert panel.scatter.rows == list(range(12))
    assert [effect.axis for effect in panel.effects.effects] == ["b", "a"]
    assert panel.summary.text() == "12 runs, 3 best (min cycles, min cost)"
    # The best runs come first, with a star.
    shown = [panel.table.index(row, 0).data() for row in range(12)]
    assert shown == ["\u2605"] * 3 + [""] * 9
    assert [panel.table.run_of(panel.table.index(row, 0)) for row in range(3)] == [0, 4, 8]
    assert panel.table.index(1, 3).data() == "500"
    panel.table.sort(3, Qt.SortOrder.DescendingOrder)
    assert panel.table.run_of(panel.table.index(0, 0)) == 3
    panel.grab()


def test_a_click_on_a_dot_selects_its_row_and_back(bench: Bench) -> None:
    panel = show(bench, results())
    panel.resize(900, 600)
    x_scale, y_scale = panel.scatter._scales()
    columns = panel._results.columns if panel._results else {}
    place = QPointF(x_scale.at(columns["cost"][4]), y_scale.at(columns["cycles"][4]))
    QTest.mouseClick(panel.scatter, Qt.MouseButton.LeftButton, pos=place.toPoint())
    assert panel.scatter.chosen == 4
    chosen = panel.view.selectionModel().selectedRows()
    assert [panel.table.run_of(index) for index in chosen] == [4]
    panel.view.clicked.emit(panel.table.index(2, 0))
    assert panel.scatter.chosen == 8
    QTest.keyClick(panel.scatter, Qt.Key.Key_Left)
    assert panel.scatter.chosen == 4
    assert "cycles: 500" in panel._text_of(4)


def test_models_are_shown_one_at_a_time(bench: Bench) -> None:
    panel = show(bench, results((2, 2), models=("/x/a.onnx", "/x/b.onnx")))
    assert [panel.model_box.itemText(index) for index in range(2)] == ["a.onnx", "b.onnx"]
    panel.model_box.setCurrentIndex(1)
    assert panel.scatter.rows == [4, 5, 6, 7]
    assert panel.table.rowCount() == 4
    panel.color_box.setCurrentText("b")
    panel.effects.axis_chosen.emit("a")
    assert panel.color_box.currentText() == "a"


def test_closing_empties_the_panel(bench: Bench) -> None:
    panel = show(bench, results())
    bench.model.show_opened(None)
    assert panel.table.rowCount() == 0
    assert bench.model.features == frozenset()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_both_themes_and_odd_tables_draw(bench: Bench, theme: str) -> None:
    bench.context.theme.set_mode("dark" if theme == "dark" else "light")
    table = results((1, 1))
    table.columns["cost"][0] = float("nan")
    panel = show(bench, table)
    panel.resize(300, 200)
    panel.grab()
    assert panel.scatter.rows == []
    assert panel.effects.effects == []


def test_a_folder_opens_with_a_layout_of_its_own_and_leaves_it(driver: Driver, tmp_path: Path) -> None:
    write_results(results(), tmp_path / "results.parquet")
    driver.open(tmp_path)
    docks = driver.window.docks
    assert [name for name, dock in docks.all.items() if not dock.isHidden()] == ["sweep"]
    assert docks.focused_panel() == "sweep"
    assert [layout.name for layout in docks.layouts()] == ["sweep"], "no layout of empty panels"
    assert not driver.action("view.layout.stepping").isEnabled()
    assert driver.window.windowTitle().startswith("grid")
    driver.open(toy_file(tmp_path))
    assert docks.all["sweep"].isHidden()
    assert "sweep" not in [layout.name for layout in docks.layouts()]
    assert not docks.all["timeline"].isHidden()
    assert driver.window.settings.get("layout") is None or docks.layout_name != "sweep"
