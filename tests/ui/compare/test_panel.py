"""The run that is open beside another: reached with the mouse, adds up, and moves nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QTabBar

from npuviz.program.source import first_of_line, line_of
from npuviz.ui.compare.panel import ComparePanel
from npuviz.ui.compare.table import NAME, Difference, DifferenceTable, rows_of, signed
from npuviz.ui.dialogs.run_on.dialog import RunOnDialog
from npuviz.workbench.comparing.comparison import in_nanoseconds
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.samples import sample_entries
from tests.ui.driver import Driver
from tests.ui.shell.test_clicks import own

__all__ = ["own"]


def panel_of(driver: Driver) -> ComparePanel:
    found = driver.window.docks.panel("compare")
    assert isinstance(found, ComparePanel)
    return found


def click_tab(driver: Driver, title: str) -> None:
    for bar in driver.window.findChildren(QTabBar):
        for place in range(bar.count()):
            if bar.tabText(place) == title and bar.isVisible():
                driver.qtbot.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(place).center())
                return
    raise AssertionError(title)


def click_offer(driver: Driver, title: str) -> None:
    panel = panel_of(driver)
    row = [each.title for each in panel.offers.rows].index(title)
    place = panel.offers_view.visualRect(panel.offers.index(row, 0)).center()
    assert panel.offers_view.viewport().rect().contains(place)
    driver.qtbot.mouseClick(panel.offers_view.viewport(), Qt.MouseButton.LeftButton, pos=place)


def answered(driver: Driver) -> None:
    driver.qtbot.waitUntil(lambda: panel_of(driver).is_settled, timeout=60_000)
    driver.idle()


def sum_of(rows: list[Difference]) -> float:
    return sum(row.change for row in rows)


def test_two_clicks_compare_two_presets(toy: Driver) -> None:
    toy.model.step(5)
    toy.idle()
    panel = panel_of(toy)
    click_tab(toy, "Compare")
    assert [each.title for each in panel.offers.rows][:1] == ["large"]
    click_offer(toy, "large")
    answered(toy)
    assert panel.stack.currentIndex() == 1
    assert toy.model.cycle == 5, "what is open stays where it is"
    found = panel._found
    assert found is not None
    assert found["b"]["cycles"] > found["a"]["cycles"] > 5
    for what in ("causes", "operators"):
        panel.what.setCurrentIndex(panel.what.findData(what))
        assert sum_of(list(panel.table.rows)) == pytest.approx(found["change"], abs=1.0)
        assert panel.table.rowCount() == panel.view.model().rowCount()
    assert "times as long" in panel.summary.text()


def test_escape_leads_back_and_a_write_forgets(toy: Driver) -> None:
    click_tab(toy, "Compare")
    click_offer(toy, "large")
    answered(toy)
    panel = panel_of(toy)
    QTest.keyClick(panel.view, Qt.Key.Key_Escape)
    assert panel.stack.currentIndex() == 0
    click_offer(toy, "large")
    answered(toy)
    toy.model.write_memory(0, 0, b"\1")
    toy.idle()
    toy.qtbot.waitUntil(lambda: panel.stack.currentIndex() == 0)
    # Running the model once more would be the run without the write.
    click_offer(toy, "large")
    answered(toy)
    assert panel.stack.currentIndex() == 0
    assert "values were written" in panel.note.text()
    toy.model.run_through()
    toy.idle()
    click_offer(toy, "large")
    answered(toy)
    assert panel.stack.currentIndex() == 1


def test_a_click_selects_and_leads_to_the_first_difference(toy: Driver, tmp_path: Path) -> None:
    panel = panel_of(toy)
    toy.window.docks.show_panel("compare")
    other = tmp_path / "other"
    run_model(tmp_path / "small.toy", RunOptions(OpenOptions(record=other, settings={"blocks": "9"})))
    panel.compare(other, OpenOptions())
    answered(toy)
    panel.what.setCurrentIndex(panel.what.findData("units"))
    index = panel.table.index(0, 0)
    point = panel.view.visualRect(index).center()
    toy.qtbot.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=point)
    unit = toy.window.selection.current.unit
    assert unit is not None
    assert toy.session.description.units[unit].name in str(index.data())
    toy.qtbot.mouseClick(panel.first, Qt.MouseButton.LeftButton)
    toy.idle()
    assert panel._found is not None
    assert toy.model.cycle == panel._found["first_difference"]["cycle"]
    same = tmp_path / "same"
    run_model(tmp_path / "small.toy", RunOptions(OpenOptions(record=same)))
    panel.compare(same, OpenOptions())
    answered(toy)
    assert "equal" in panel.summary.text()


def test_what_cannot_be_opened_is_a_line_and_bundles_offer_no_presets(toy: Driver, tmp_path: Path) -> None:
    panel = panel_of(toy)
    panel.compare(tmp_path / "missing.toy", OpenOptions())
    answered(toy)
    assert "no such file" in panel.note.text()
    bundle = tmp_path / "bundle"
    run_model(tmp_path / "small.toy", RunOptions(OpenOptions(record=bundle)))
    toy.open(bundle)
    titles = [each.title for each in panel.offers.rows]
    assert titles == ["Model or kernel \u2026", "Trace bundle \u2026"]


def test_run_on_compares_its_choice(toy: Driver) -> None:
    toy.window.commands.run("file.run_on")
    dialog = QApplication.activeModalWidget() or QApplication.activeWindow()
    assert isinstance(dialog, RunOnDialog)
    dialog.preset.setCurrentIndex(dialog.preset.findData("large"))
    button = dialog.findChild(QPushButton, "run_on.compare")
    assert button is not None
    assert button.isVisible()
    toy.qtbot.mouseClick(button, Qt.MouseButton.LeftButton, pos=QPoint(4, 4))
    answered(toy)
    panel = panel_of(toy)
    assert panel.isVisible()
    assert panel.stack.currentIndex() == 1
    assert panel.summary.text().startswith("large: ")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic", "wavelet"])
def test_presets_of_every_machine_are_compared(own: Driver, target: str) -> None:
    """The quicker test of the same rule: `test_two_clicks_compare_two_presets`."""
    entry = next(entry for entry in sample_entries() if entry.options.target == target)
    own.model.open(entry.path, entry.options)
    own.idle()
    click_tab(own, "Compare")
    panel = panel_of(own)
    num_compared = 0
    for preset in [each.title for each in panel._presets]:
        click_offer(own, preset)
        answered(own)
        if panel.stack.currentIndex() == 0:
            # A program in the machine's own form may be made for one preset.
            assert "does not run programs compiled for" in panel.note.text()
            continue
        num_compared += 1
        found = panel._found
        assert found is not None
        for what in ("causes", "operators"):
            rows = rows_of(found, what)
            assert sum_of(rows) == pytest.approx(found["change"], rel=1e-6, abs=len(rows))
        panel._show_offers()
    assert num_compared


def test_times_take_the_place_of_cycles_of_different_lengths() -> None:
    runs = {
        "a": {"cycles": 100, "frequency_hz": 1e9},
        "b": {"cycles": 60, "frequency_hz": 5e8},
        "change": -40,
        "causes": [{"cause": "x", "a": 100, "b": 60, "change": -40}],
        "operators": [], "lines": [],
        "units": [{"unit": "u", "busy_a": 10, "busy_b": 6, "change": -4, "waiting_a": 2, "waiting_b": 1}],
    }  # fmt: skip
    found = in_nanoseconds(runs)
    assert found["change"] == pytest.approx(20)
    assert rows_of(found, "causes") == [Difference("x", 100.0, 120.0, 20.0)]
    assert rows_of(found, "units") == [Difference("u", 10.0, 12.0, 2.0, (2.0, 2.0))]
    assert (signed(-1204.4), signed(0.2), signed(3)) == ("\u22121\u2009204", "0", "+3")


def test_a_click_on_a_line_leads_to_the_source(own: Driver) -> None:
    path = Path(__file__).parents[3] / "sample_models" / "nki" / "vector_add.py"
    options = OpenOptions("neuroncore", settings={"shape.a": "256x64", "shape.b": "256x64"})
    own.window.open(path, options, is_named=True)
    own.idle()
    panel = panel_of(own)
    own.window.docks.show_panel("compare")
    panel.compare(path, replace(options, preset=panel._presets[0].title))
    answered(own)
    panel.what.setCurrentIndex(panel.what.findData("lines"))
    assert panel.table.rows
    point = panel.view.visualRect(panel.table.index(0, 0)).center()
    own.qtbot.mouseClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=point)
    instruction = own.window.selection.current.instruction
    assert instruction is not None
    assert line_of(own.session.program.listing, instruction) == panel.table.rows[0].name
    assert first_of_line(own.session.program.listing, "elsewhere.py:1") == -1
    assert first_of_line(own.session.program.listing, "vector_add.py:99999") == -1


def test_a_line_that_has_another_name_there_shows_both() -> None:
    row = {"line": "k.py:1", "a": 3.0, "b": 2.0, "change": -1.0}
    same, other = rows_of({"lines": [row, {**row, "there": "fast.py:7"}]}, "lines")
    table = DifferenceTable()
    assert table.text(same, NAME) == "k.py:1"
    assert table.text(other, NAME) == "k.py:1 \u2192 fast.py:7"
    assert other.name == "k.py:1"
