"""Choosing machine, preset, dimensions and settings, with keys and mouse in a real window."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton

from npuviz.base import registry
from npuviz.ui.dialogs.run_on.dialog import RunOnDialog
from npuviz.ui.dialogs.run_on.settings_table import SOURCE, VALUE
from npuviz.workbench import choosing
from npuviz.workbench.choosing import find_file
from npuviz.workbench.opening import OpenOptions
from tests.ui.driver import Driver


@pytest.fixture
def cnn(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A window with the small convolution net on its usual machine."""
    monkeypatch.setattr(choosing, "load_plugins", registry.load_plugins)
    driver.open(find_file("tiny_cnn"))
    return driver


def shown(driver: Driver) -> RunOnDialog:
    """Open the dialog by its keys."""
    QTest.keyClick(
        driver.window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    )
    found = driver.window.findChild(RunOnDialog)
    assert found is not None
    assert found.isVisible()
    driver.qtbot.waitUntil(lambda: any(row.is_dimension for row in found.table.rows))
    return found


def place_of(dialog: RunOnDialog, name: str) -> int:
    return next(n for n, row in enumerate(dialog.table.rows) if row.setting.name == name)


def type_value(dialog: RunOnDialog, name: str, text: str) -> None:
    """Choose a row with the mouse, press F2, type, press Return."""
    view = dialog.view
    index = dialog.table.index(place_of(dialog, name), VALUE)
    view.scrollTo(index)
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=view.visualRect(index).center())
    view.setCurrentIndex(index)
    QTest.keyClick(view, Qt.Key.Key_F2)
    editor = view.indexWidget(index)
    assert isinstance(editor, QLineEdit)
    editor.selectAll()
    QTest.keyClicks(editor, text)
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QApplication.processEvents()


def press(dialog: RunOnDialog, name: str) -> None:
    found = dialog.findChild(QPushButton, name)
    assert found is not None
    assert found.isEnabled()
    QTest.mouseClick(found, Qt.MouseButton.LeftButton)


def choose(dialog: RunOnDialog, machine: str) -> None:
    """Go through the machines with the keys until this one is shown."""
    dialog.machine.setFocus()
    QTest.keyClick(dialog.machine, Qt.Key.Key_Home)
    while dialog.machine.currentData() != machine:
        before = dialog.machine.currentIndex()
        QTest.keyClick(dialog.machine, Qt.Key.Key_Down)
        assert dialog.machine.currentIndex() > before, f"{machine} is not offered"


def test_another_machine_dimension_and_setting_and_the_cursor_stays(cnn: Driver) -> None:
    cnn.model.go_to(1000)
    cnn.idle()
    cnn.session.breakpoints.add("cycle == 50")
    dialog = shown(cnn)
    assert dialog.machine.currentData() == "systolic"
    choose(dialog, "rk3588")
    type_value(dialog, "batch", "2")
    type_value(dialog, "host_call_ns", "10000")
    row = dialog.table.rows[place_of(dialog, "host_call_ns")]
    assert (row.value, row.setting.value) == ("10000", "6300.0")
    assert dialog.problem.isHidden()
    with cnn.qtbot.waitSignal(cnn.model.session_changed):
        press(dialog, "run_on.run")
    cnn.idle()
    opened = cnn.model.opened
    assert opened is not None
    assert opened.target is not None
    assert opened.target.id == "rk3588"
    assert dict(opened.options.settings) == {"batch": "2", "host_call_ns": "10000"}
    assert cnn.model.cycle == 1000
    assert [b.text for b in cnn.session.breakpoints.all] == ["cycle == 50"]
    graph = cnn.session.program.graph
    assert graph.tensors[graph.inputs[0]].shape[0] == 2


def test_what_is_assumed_is_marked_and_can_be_singled_out(cnn: Driver) -> None:
    dialog = shown(cnn)
    choose(dialog, "neuroncore")
    assert dialog.summary.text() == "32 figures documented, 23 assumed, 0 changed"
    dialog.assumed.setFocus()
    QTest.keyClick(dialog.assumed, Qt.Key.Key_Space)
    names = [row.setting.name for row in dialog.table.rows]
    assert names[0] == "batch"
    assert "pe_latency" in names
    assert "pe_hz" not in names
    text = dialog.table.index(names.index("pe_latency"), SOURCE).data()
    assert text.startswith("\u2248 Assumed: the depth of the array")
    QTest.mouseClick(dialog.filter, Qt.MouseButton.LeftButton)
    QTest.keyClicks(dialog.filter, "latency array")
    assert [row.setting.name for row in dialog.table.rows] == ["pe_latency"]
    # Return in the filter goes to what was found, and runs nothing.
    QTest.keyClick(dialog.filter, Qt.Key.Key_Return)
    assert dialog.isVisible()
    dialog.reject()


def test_a_refused_value_says_why_and_cannot_be_run(cnn: Driver) -> None:
    dialog = shown(cnn)
    choose(dialog, "rk3588")
    type_value(dialog, "cores", "7")
    assert dialog.problem.isVisible()
    assert "cores=7" in dialog.problem.text()
    assert not dialog.run.isEnabled()
    type_value(dialog, "cores", "2")
    assert dialog.problem.isHidden()
    assert dialog.run.isEnabled()
    # What is set back to what it is anyway is no change.
    type_value(dialog, "cores", "1")
    assert dialog.options.settings == {}
    dialog.reject()


def test_presets_are_compared_in_two_clicks(cnn: Driver) -> None:
    dialog = shown(cnn)
    press(dialog, "run_on.measure_all")
    cnn.qtbot.waitUntil(lambda: not dialog.costs.is_busy)
    rows = {row.options.preset: row for row in dialog.costs.table.rows}
    assert list(rows) == ["tpuv4", "tpuv4-1core", "edge-8x8", "edge-8x8-c4"]
    assert all(row.is_whole and not row.problem for row in rows.values())
    assert rows["edge-8x8"].cycles > rows["tpuv4"].cycles > 0
    cnn.model.run()
    cnn.idle()
    assert cnn.model.cycle == rows["tpuv4"].cycles
    dialog.reject()


def test_escape_stops_measuring_before_it_closes(cnn: Driver) -> None:
    dialog = shown(cnn)
    press(dialog, "run_on.measure_all")
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    cnn.qtbot.waitUntil(lambda: not dialog.costs.is_busy)
    assert len(dialog.costs.table.rows) < 4
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_the_last_time_is_told(cnn: Driver) -> None:
    dialog = shown(cnn)
    assert "the last time" in dialog.costs.note.text()
    choose(dialog, "rk3588")
    assert dialog.costs.note.text().startswith("Unknown until it is measured")
    dialog.reject()


def test_a_machine_without_settings_can_still_be_chosen(toy: Driver) -> None:
    toy.action("file.run_on").trigger()
    dialog = toy.window.findChild(RunOnDialog)
    assert dialog is not None
    assert dialog.table.rows == []
    dialog.preset.setFocus()
    QTest.keyClick(dialog.preset, Qt.Key.Key_End)
    with toy.qtbot.waitSignal(toy.model.session_changed):
        press(dialog, "run_on.run")
    toy.idle()
    assert toy.model.opened is not None
    assert toy.model.opened.options == OpenOptions(target="toy", preset="large")


def test_a_file_of_no_machine_cannot_be_run(toy: Driver, tmp_path: Path) -> None:
    toy.action("file.run_on").trigger()
    dialog = toy.window.findChild(RunOnDialog)
    assert dialog is not None
    stray = tmp_path / "stray.bin"
    stray.write_bytes(b"abc")
    dialog.show_model(stray, OpenOptions())
    assert dialog.problem.text() == "No machine takes this file."
    assert not dialog.run.isEnabled()
    dialog.reject()


KERNELS = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def twice(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def copy(source):
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_a_kernel_file_asks_for_kernel_and_shapes(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(choosing, "load_plugins", registry.load_plugins)
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    driver.window.open(path, is_named=True)
    driver.qtbot.waitUntil(lambda: driver.window.findChild(RunOnDialog) is not None)
    driver.idle()
    dialog = driver.window.findChild(RunOnDialog)
    assert dialog is not None
    assert dialog.isVisible()
    run = dialog.findChild(QPushButton, "run_on.run")
    assert run is not None
    assert "kernel" in dialog.problem.text()
    assert not run.isEnabled()
    # The row that needs a value has the focus: Return opens its editor.
    assert dialog.view.hasFocus()
    assert dialog.table.rows[dialog.view.currentIndex().row()].setting.name == "kernel"
    dialog.table.setData(dialog.table.index(place_of(dialog, "kernel"), VALUE), "twice")
    assert "shape.x" in dialog.problem.text()
    type_value(dialog, "shape.x", "128x64")
    assert dialog.problem.isHidden()
    assert dialog.table.rows[place_of(dialog, "factor")].value == "2.0"
    type_value(dialog, "factor", "3.0")
    with driver.qtbot.waitSignal(driver.model.session_changed):
        press(dialog, "run_on.run")
    driver.idle()
    opened = driver.model.opened
    assert opened is not None
    assert dict(opened.options.settings) == {"kernel": "twice", "shape.x": "128x64", "factor": "3.0"}
    # Opened again without settings it begins with those of the last time.
    driver.window.open(path, is_named=True)
    driver.qtbot.waitUntil(lambda: any(each.isVisible() for each in dialogs(driver)))
    driver.idle()
    again = next(each for each in dialogs(driver) if each.isVisible())
    assert again.problem.isHidden()
    assert again.table.rows[place_of(again, "shape.x")].value == "128x64"


def dialogs(driver: Driver) -> list[RunOnDialog]:
    return driver.window.findChildren(RunOnDialog)
