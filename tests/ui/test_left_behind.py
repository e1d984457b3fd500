"""What a window test leaves behind is seen, although older objects are not looked through."""

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from tests.conftest import running_timers_and_threads, threads_and_widgets


def test_a_running_timer_is_seen(qtbot: QtBot) -> None:
    timer = QTimer()
    timer.setObjectName("left")
    assert "running timer left" not in running_timers_and_threads().values()
    timer.start(1000)
    assert "running timer left" in running_timers_and_threads().values()
    timer.stop()


def test_a_widget_is_seen(qtbot: QtBot) -> None:
    widget = QWidget()
    widget.setObjectName("left")
    assert "widget QWidget left" in threads_and_widgets().values()
    widget.deleteLater()
