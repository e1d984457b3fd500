"""Drives a window as a person would, and waits for what it does."""

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDockWidget, QLabel
from pytestqt.qtbot import QtBot

from npuviz.debug.session import Session
from npuviz.ui.shell.main_window import MainWindow


class Driver:
    def __init__(self, qtbot: QtBot, window: MainWindow) -> None:
        self.qtbot = qtbot
        self.window = window
        self.model = window.model

    def idle(self) -> None:
        """Wait until the window has nothing more to do."""
        # The search for samples is started by the first frame.
        self.qtbot.waitUntil(lambda: self.window.has_looked)
        self.qtbot.waitUntil(lambda: not self.model.is_busy)

    def open(self, path: Path) -> None:
        with self.qtbot.waitSignal(self.model.session_changed):
            self.window.open(path)
        self.idle()

    def do(self, command: str) -> None:
        """Trigger an action and wait until its work is done."""
        self.action(command).trigger()
        self.idle()
        # Enablement is refreshed at the end of the event that changed it.
        self.qtbot.wait(1)

    def action(self, command: str) -> QAction:
        found = self.window.findChild(QAction, command)
        assert found is not None, f"no action {command}"
        return found

    def label(self, name: str) -> str:
        found = self.window.findChild(QLabel, name)
        assert found is not None, f"no label {name}"
        return found.text()

    def dock(self, name: str) -> QDockWidget:
        found = self.window.findChild(QDockWidget, name)
        assert found is not None, f"no dock {name}"
        return found

    def type_into_palette(self, text: str) -> None:
        field = self.window.palette_box.field
        assert field.isVisible()
        field.selectAll()
        self.qtbot.keyClicks(field, text)
        self.qtbot.keyClick(field, Qt.Key.Key_Return)
        self.idle()

    @property
    def session(self) -> Session:
        found = self.model.session
        assert found is not None
        return found
