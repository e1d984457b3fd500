"""Bookmarks, notes, undo and session files in a real window, with keys and mouse."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QTableView

from npuviz.ui.shell.commands import session as session_commands
from npuviz.workbench.sessions.bookmarks import Bookmark
from tests.ui.driver import Driver
from tests.workbench.toy_registry import toy_file

CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


def press(
    driver: Driver, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    QTest.keyClick(driver.window, key, modifiers)
    driver.idle()
    driver.qtbot.wait(1)


def bookmarks(driver: Driver) -> tuple[Bookmark, ...]:
    return driver.window.sessions.bookmarks.all


def table(driver: Driver) -> QTableView:
    found = driver.window.findChild(QTableView, "bookmarks.table")
    assert found is not None
    return found


def mark(driver: Driver, note: str) -> None:
    """Ctrl+M, then type a note into the row that is being edited."""
    press(driver, Qt.Key.Key_M, CTRL)
    view = table(driver)
    assert view.isVisible()
    editor = view.indexWidget(view.currentIndex())
    assert isinstance(editor, QLineEdit)
    QTest.keyClicks(editor, note)
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QApplication.processEvents()


def test_a_cycle_gets_a_note_and_is_found_again(toy: Driver) -> None:
    toy.model.go_to(40)
    toy.idle()
    mark(toy, "loads end here")
    assert bookmarks(toy) == (Bookmark(40, 40, "loads end here"),)
    toy.model.go_to(100)
    toy.idle()
    press(toy, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert toy.model.cycle == 40
    toy.model.go_to(100)
    toy.idle()
    view = table(toy)
    view.selectRow(0)
    QTest.keyClick(view, Qt.Key.Key_Return)
    toy.idle()
    assert toy.model.cycle == 40
    # The key of the table deletes, undo brings it back with its note, redo deletes it again.
    QTest.keyClick(view, Qt.Key.Key_Delete)
    assert bookmarks(toy) == ()
    press(toy, Qt.Key.Key_Z, CTRL)
    assert bookmarks(toy) == (Bookmark(40, 40, "loads end here"),)
    press(toy, Qt.Key.Key_Y, CTRL)
    assert bookmarks(toy) == ()


def test_bookmarks_come_back_with_their_program_and_no_other(toy: Driver, tmp_path: Path) -> None:
    toy.model.go_to(10)
    toy.idle()
    mark(toy, "first")
    toy.open(toy_file(tmp_path, '{"blocks": 4}', "other.toy"))
    assert bookmarks(toy) == ()
    toy.qtbot.wait(1)
    assert not toy.action("edit.undo").isEnabled()
    toy.open(tmp_path / "small.toy")
    assert bookmarks(toy) == (Bookmark(10, 10, "first"),)
    # What was loaded is nothing to take back.
    toy.qtbot.wait(1)
    assert not toy.action("edit.undo").isEnabled()


def test_layout_changes_are_undone_in_order_with_others(toy: Driver) -> None:
    toy.qtbot.wait(1)
    docks = toy.window.docks
    before = docks.arranged().shape
    toy.do("view.layout.profiling")
    profiling = docks.arranged().shape
    assert profiling != before
    toy.session.breakpoints.add("cycle == 7")
    toy.qtbot.wait(1)
    toy.dock("panel.costs").close()
    toy.qtbot.wait(1)
    assert docks.arranged().shape != profiling
    press(toy, Qt.Key.Key_Z, CTRL)
    assert docks.arranged().shape == profiling
    press(toy, Qt.Key.Key_Z, CTRL)
    assert [each.text for each in toy.session.breakpoints.all] == []
    press(toy, Qt.Key.Key_Z, CTRL)
    assert docks.arranged().shape == before
    assert docks.layout_name == "stepping"
    assert not toy.action("edit.undo").isEnabled()
    for _ in range(3):
        press(toy, Qt.Key.Key_Z, CTRL | SHIFT)
    assert docks.layout_name == "profiling"
    assert toy.dock("panel.costs").isHidden()
    assert [each.text for each in toy.session.breakpoints.all] == ["cycle == 7"]


@pytest.fixture
def session_file(toy: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of the toy at cycle 40 with breakpoints, a note and a layout; nothing is open any more."""
    out = tmp_path / "look.npuviz-session"
    monkeypatch.setattr(session_commands, "ask_session_to_save", lambda *_asked: out)
    toy.model.go_to(40)
    toy.idle()
    mark(toy, "look here")
    toy.session.breakpoints.add("cycle == 60")
    off = toy.session.breakpoints.add("cycle == 50")
    toy.session.breakpoints.set_enabled(off.id, False)
    toy.do("view.layout.profiling")
    press(toy, Qt.Key.Key_S, CTRL | SHIFT)
    assert toy.window.error_bar.text == "Saved look.npuviz-session."
    toy.do("view.layout.stepping")
    toy.do("file.close")
    toy.window.settings.set("bookmarks/toy/small", None)
    toy.window.error_bar.dismiss()
    return out


def drop(driver: Driver, path: Path) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path))])
    action, none = Qt.DropAction.CopyAction, Qt.KeyboardModifier.NoModifier
    event = QDropEvent(QPointF(50, 50), action, mime, Qt.MouseButton.LeftButton, none)
    driver.window.dropEvent(event)


def settled(driver: Driver) -> None:
    driver.qtbot.waitUntil(lambda: driver.model.opened is not None and not driver.model.is_busy)
    driver.qtbot.wait(1)
    driver.idle()


def test_a_dropped_session_brings_everything_back(toy: Driver, session_file: Path) -> None:
    drop(toy, session_file)
    settled(toy)
    assert toy.model.cycle == 40
    assert [(b.text, b.enabled) for b in toy.session.breakpoints.all] == [
        ("cycle == 60", True),
        ("cycle == 50", False),
    ]
    assert bookmarks(toy) == (Bookmark(40, 40, "look here"),)
    assert toy.window.docks.layout_name == "profiling"
    assert toy.window.error_bar.text == ""
    content = json.loads(session_file.read_text())
    assert content["sources"][0]["path"] == "small.toy"


def test_other_content_is_said_in_one_line(toy: Driver, session_file: Path) -> None:
    toy_file(session_file.parent, '{"blocks": 9}')
    toy.window.open(session_file)
    settled(toy)
    assert toy.window.error_bar.text.startswith("small.toy is not the file the session was made with")
    assert "\n" not in toy.window.error_bar.text
    assert toy.model.cycle == 40


def test_a_missing_source_can_be_located(
    toy: Driver, session_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = session_file.parent / "elsewhere" / "net.toy"
    moved.parent.mkdir()
    (session_file.parent / "small.toy").rename(moved)
    toy.window.open(session_file)
    toy.qtbot.waitUntil(lambda: toy.window.error_bar.text != "")
    assert toy.window.error_bar.text.startswith("small.toy is not where look.npuviz-session says")
    assert toy.model.opened is None
    monkeypatch.setattr(session_commands, "ask_file_like", lambda *_asked: moved)
    button = next(b for b in toy.window.error_bar.findChildren(QPushButton) if b.text().startswith("Locate"))
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    settled(toy)
    assert toy.model.opened is not None
    assert toy.model.opened.path == moved
    assert toy.model.cycle == 40
    assert toy.window.error_bar.text == ""


def test_a_damaged_session_opens_nothing(toy: Driver, session_file: Path) -> None:
    session_file.write_text("{")
    toy.window.open(session_file)
    toy.qtbot.waitUntil(lambda: toy.window.error_bar.text != "")
    assert "expected JSON" in toy.window.error_bar.text
    assert toy.model.opened is None


def test_a_session_does_not_speak_for_the_user(
    toy: Driver, session_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Naming a session on the command line does not allow programs of what it names to run."""
    asked: list[Path] = []

    def refuse(path: Path, _options: object) -> bool:
        asked.append(path)
        return False

    monkeypatch.setattr(toy.model, "may_open", refuse)
    toy.window.open(session_file, is_named=True)
    toy.qtbot.waitUntil(lambda: bool(asked))
    toy.idle()
    assert asked == [session_file.parent / "small.toy"]
    assert toy.model.opened is None
