import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QAction, QDropEvent
from PySide6.QtWidgets import QDockWidget, QPushButton
from pytestqt.qtbot import QtBot

from npuviz.sim.stop import StopKind
from npuviz.trace.bundle.bundle import BundleWriter
from npuviz.ui.shell.application import Application
from npuviz.ui.shell.main_window import MainWindow
from npuviz.ui.shell.start_page import SampleCard, StartPage
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.samples import SampleEntry
from npuviz.workbench.selection import Selection
from tests.trace.recordings import SCHEMA
from tests.ui.driver import Driver
from tests.workbench.toy_registry import install_toy, toy_file

CONTRACT_ACTIONS = (
    *("file.open", "file.open_recent", "file.close", "trace.export", "trace.compare", "view.palette"),
    *("debug.run", "debug.pause", "debug.step", "debug.step_instruction", "debug.step_back"),
    *("debug.run_back", "debug.goto", "debug.restart", "debug.toggle_breakpoint"),
    *("view.reset_layout", "view.zoom_fit", "view.theme", "help.shortcuts"),
)


def test_has_all_actions_of_the_contract(driver: Driver) -> None:
    for name in CONTRACT_ACTIONS:
        assert driver.window.findChild(QAction, name) is not None, name


def test_starts_with_the_start_page_and_without_docks(driver: Driver) -> None:
    assert driver.window.start_page.isVisible()
    assert not any(dock.isVisible() for dock in driver.window.findChildren(QDockWidget))
    assert not driver.action("debug.run").isEnabled()
    assert driver.label("status.cycle") == ""


def test_while_the_user_looks_around_the_first_opening_is_made_ready(
    qtbot: QtBot, application: Application, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_toy(monkeypatch)
    calls: list[int] = []
    monkeypatch.setattr("npuviz.ui.shell.main_window.get_ready", lambda: calls.append(1))
    idle = Driver(qtbot, application.new_window())
    idle.window.show()
    idle.idle()
    qtbot.waitUntil(lambda: calls == [1])
    busy = Driver(qtbot, application.new_window())
    busy.window.show()
    busy.window.open(toy_file(tmp_path))
    busy.idle()
    qtbot.wait(20)
    assert calls == [1], "what is being opened does not wait for it"
    application.close()


def test_opening_shows_the_panels_and_cycle_zero(toy: Driver) -> None:
    assert not toy.window.start_page.isVisible()
    assert toy.dock("panel.program").isVisible()
    assert toy.label("status.cycle") == "cycle 0"
    assert toy.action("debug.run").isEnabled()
    assert not toy.action("debug.step_back").isEnabled()
    assert toy.window.windowTitle().startswith("toy of 8 blocks")


def test_steps_forward_and_back(toy: Driver) -> None:
    toy.do("debug.step")
    toy.do("debug.step")
    assert toy.label("status.cycle") == "cycle 2"
    digest = toy.session.machine.digest()
    toy.do("debug.step")
    toy.do("debug.step_back")
    assert toy.session.machine.digest() == digest
    toy.do("debug.restart")
    assert toy.label("status.cycle") == "cycle 0"


def test_keys_step_the_machine(toy: Driver) -> None:
    toy.window.activateWindow()
    toy.qtbot.keyClick(toy.window, Qt.Key.Key_F11)
    toy.idle()
    assert toy.session.cycle == 1
    toy.qtbot.keyClick(toy.window, Qt.Key.Key_F4)
    toy.idle()
    assert toy.session.cycle == 0


def test_runs_to_a_breakpoint_then_to_the_end(toy: Driver) -> None:
    toy.window.selection.set(Selection(instruction=20))
    toy.do("debug.toggle_breakpoint")
    assert [item.text for item in toy.session.breakpoints.all] == ["instr 20"]
    toy.do("debug.run")
    assert toy.session.stop.kind is StopKind.BREAKPOINT
    hit = toy.session.cycle
    assert toy.label("status.stop") == "breakpoint: 1 instr 20"
    toy.do("debug.run")
    assert toy.session.is_finished
    assert toy.label("status.stop").startswith("finished")
    assert not toy.action("debug.step").isEnabled()
    toy.do("debug.run_back")
    assert toy.session.cycle == hit
    toy.do("debug.toggle_breakpoint")
    assert not toy.session.breakpoints.all


def test_run_to_the_end_passes_breakpoints(toy: Driver) -> None:
    toy.model.add_breakpoint("instr 20")
    toy.do("debug.run_to_end")
    assert toy.session.is_finished


def test_steps_an_instruction_of_the_selected_unit(toy: Driver) -> None:
    unit = toy.session.description.units[1].id
    toy.window.selection.set(Selection(unit=unit))
    toy.do("debug.step_instruction")
    first = toy.session.cycle
    toy.do("debug.step_instruction")
    assert toy.session.cycle > first
    assert toy.session.stop.unit == toy.session.description.units[1].name
    toy.do("debug.step_instruction_back")
    assert toy.session.cycle == first


def test_runs_to_the_end_of_an_operator(toy: Driver) -> None:
    toy.window.selection.set(Selection(node=0))
    toy.do("debug.step_operator")
    assert 0 < toy.session.cycle < 767
    assert not toy.session.breakpoints.all, "the helper breakpoint must not stay"


def test_goes_to_a_typed_cycle(toy: Driver) -> None:
    toy.do("debug.goto")
    toy.type_into_palette("123")
    assert toy.label("status.cycle") == "cycle 123"


def test_escape_clears_the_selection_when_idle(toy: Driver) -> None:
    toy.window.selection.set(Selection(node=1))
    toy.qtbot.keyClick(toy.window, Qt.Key.Key_Escape)
    assert toy.window.selection.current.is_empty


def test_escape_stops_a_run_and_keeps_the_selection(driver: Driver, tmp_path: Path) -> None:
    driver.open(toy_file(tmp_path, json.dumps({"blocks": 20000})))
    driver.window.selection.set(Selection(node=1))
    driver.action("debug.run").trigger()
    driver.qtbot.waitUntil(lambda: driver.action("view.cancel").isEnabled())
    driver.qtbot.keyClick(driver.window, Qt.Key.Key_Escape)
    driver.idle()
    assert driver.session.stop.kind is StopKind.INTERRUPTED
    assert driver.window.selection.current == Selection(node=1)


def test_close_and_reopen(toy: Driver, tmp_path: Path) -> None:
    toy.do("debug.step")
    toy.do("file.close")
    assert toy.window.start_page.isVisible()
    assert toy.model.session is None
    assert toy.label("status.cycle") == ""
    assert not any(dock.isVisible() for dock in toy.window.findChildren(QDockWidget))
    toy.open(tmp_path / "small.toy")
    assert toy.label("status.cycle") == "cycle 0"
    assert toy.dock("panel.program").isVisible()


def test_bad_file_gives_one_quiet_line_and_keeps_the_window(driver: Driver, tmp_path: Path) -> None:
    bad = toy_file(tmp_path, "{ broken")
    driver.window.open(bad)
    driver.idle()
    assert driver.window.error_bar.isVisible()
    assert "small.toy" in driver.window.error_bar.text
    assert "\n" not in driver.window.error_bar.text
    assert driver.model.session is None
    driver.window.error_bar.dismiss()
    assert not driver.window.error_bar.isVisible()


def test_a_failed_open_keeps_what_was_open(toy: Driver, tmp_path: Path) -> None:
    toy.do("debug.step")
    toy.window.open(toy_file(tmp_path, "[]", "bad.toy"))
    toy.idle()
    assert toy.window.error_bar.isVisible()
    assert toy.label("status.cycle") == "cycle 1"


def test_a_damaged_bundle_changes_nothing(toy: Driver, tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "run.npuviz", SCHEMA) as writer:
        writer.add_part("flows", {name: np.arange(9) for name in ("cycle", "source", "sink")})
        bundle = writer.close(20)
    part = next(bundle.glob("flows-*.parquet"))
    part.write_bytes(part.read_bytes()[:-9] + b"\xff" + part.read_bytes()[-8:])
    toy.do("debug.step")
    toy.window.open(bundle)
    toy.idle()
    assert "checksum" in toy.window.error_bar.text
    assert "\n" not in toy.window.error_bar.text
    assert toy.label("status.cycle") == "cycle 1"


def test_reload_brings_back_cycle_and_breakpoints(toy: Driver) -> None:
    toy.model.add_breakpoint("instr 20")
    toy.model.go_to(40)
    toy.idle()
    before = toy.session
    with toy.qtbot.waitSignal(toy.model.session_changed):
        toy.action("file.reload").trigger()
    toy.idle()
    assert toy.session is not before
    assert toy.session.cycle == 40
    assert [item.text for item in toy.session.breakpoints.all] == ["instr 20"]


def test_a_changed_file_is_noticed(toy: Driver, tmp_path: Path) -> None:
    (tmp_path / "small.toy").write_text('{"blocks": 4}')
    toy.qtbot.waitUntil(lambda: "changed" in toy.window.error_bar.text)


def test_exports_the_trace(toy: Driver, tmp_path: Path) -> None:
    toy.do("debug.run")
    out = tmp_path / "run.pftrace"
    toy.window.files.export_to("perfetto", out)
    toy.idle()
    assert out.stat().st_size > 1000
    assert str(out) in toy.window.error_bar.text


def test_export_into_a_missing_folder_is_told(toy: Driver, tmp_path: Path) -> None:
    toy.do("debug.run")
    toy.window.files.export_to("perfetto", tmp_path / "nowhere" / "run.pftrace")
    toy.idle()
    assert "nowhere" in toy.window.error_bar.text


def test_dropped_files_open_the_first_here_and_others_elsewhere(
    driver: Driver, application: Application, tmp_path: Path
) -> None:
    files = [toy_file(tmp_path, name="one.toy"), toy_file(tmp_path, name="two.toy")]
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in files])
    event = QDropEvent(
        QPointF(10, 10), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    with driver.qtbot.waitSignal(driver.model.session_changed):
        driver.window.dropEvent(event)
    assert driver.model.opened is not None
    assert driver.model.opened.path == files[0]
    other = application.windows[1]
    driver.qtbot.waitUntil(lambda: other.model.opened is not None)
    assert other.model.opened is not None
    assert other.model.opened.path == files[1]


def test_recent_files_are_kept(toy: Driver, tmp_path: Path) -> None:
    stored = json.loads((tmp_path / "config" / "settings.json").read_text())
    assert stored["recent_files"] == [{"path": str(tmp_path / "small.toy"), "target": "toy"}]


def test_close_while_running_does_not_hang(driver: Driver, tmp_path: Path) -> None:
    driver.open(toy_file(tmp_path, json.dumps({"blocks": 3000})))
    driver.action("debug.run").trigger()
    assert driver.model.is_running
    driver.window.close()
    assert not driver.model.is_running or driver.model.session is None


def test_pause_stops_a_long_run(driver: Driver, tmp_path: Path) -> None:
    driver.open(toy_file(tmp_path, json.dumps({"blocks": 20000})))
    seen: list[int] = []
    driver.model.cycle_changed.connect(seen.append)
    driver.action("debug.run").trigger()
    driver.qtbot.waitUntil(lambda: len(seen) >= 2)
    assert driver.action("debug.pause").isEnabled() or driver.model.is_running
    driver.model.pause()
    driver.idle()
    assert driver.session.stop.kind is StopKind.INTERRUPTED
    assert not driver.session.is_finished
    assert seen == sorted(seen)


@pytest.mark.parametrize("command", ["debug.step", "debug.run", "debug.step_back", "debug.run_back"])
def test_verbs_without_a_session_do_nothing(window: MainWindow, command: str) -> None:
    assert window.commands.run(command) is False


def test_opens_a_bundle_as_a_trace_without_machine(driver: Driver, tmp_path: Path) -> None:
    bundle = tmp_path / "trace"
    run_model(toy_file(tmp_path), RunOptions(OpenOptions(record=bundle)))
    driver.open(bundle)
    assert driver.model.session is None
    assert driver.model.reader is not None
    assert driver.label("status.stop") == "recorded trace"
    assert not driver.action("debug.run").isEnabled()
    assert driver.action("trace.export").isEnabled()


@pytest.mark.parametrize(("width", "in_a_row"), [(1280, 4), (980, 4), (800, 2), (520, 2), (400, 1)])
def test_the_start_page_is_never_wider_than_the_window(qtbot: QtBot, width: int, in_a_row: int) -> None:
    page = StartPage(Theme("dark"))
    qtbot.addWidget(page)
    entry = SampleEntry("Machine", "What there is to see", Path("x"), OpenOptions(), Path("y"), "timeline")
    page.show_samples([entry] * 4)
    page.resize(1280, 700)
    page.show()
    page.resize(width, 700)
    cards = page.findChildren(SampleCard)

    def lefts() -> list[int]:
        return sorted({card.mapTo(page, QPoint(0, 0)).x() for card in cards})

    qtbot.waitUntil(lambda: len(lefts()) == in_a_row)
    assert len({card.mapTo(page, QPoint(0, 0)).y() for card in cards}) == 4 // in_a_row
    assert lefts()[0] >= 0
    assert lefts()[-1] + cards[0].width() <= width
    assert all(b - a == cards[0].width() + 12 for a, b in itertools.pairwise(lefts()))


def test_the_start_page_opens_what_it_offers(driver: Driver, tmp_path: Path) -> None:
    page = driver.window.start_page
    path = toy_file(tmp_path)
    entry = SampleEntry("Toy", "Blocks.", path, OpenOptions("toy"), tmp_path / "none", "timeline")
    page.show_samples([entry])
    card = page.findChild(SampleCard)
    assert card is not None
    with driver.qtbot.waitSignal(driver.model.session_changed):
        driver.qtbot.mouseClick(card, Qt.MouseButton.LeftButton)
    driver.idle()
    assert driver.session.cycle == 0
    driver.do("file.close")
    again = next(b for b in page.findChildren(QPushButton) if b.text() == f"{path.name}   toy")
    with driver.qtbot.waitSignal(driver.model.session_changed):
        driver.qtbot.mouseClick(again, Qt.MouseButton.LeftButton)
    driver.idle()
    assert driver.model.opened is not None
    assert driver.model.opened.options.target == "toy"
