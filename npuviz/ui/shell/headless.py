"""Drive the real window from code without a display, wait for it, and take pictures of it."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QEventLoop,
    QIODevice,
    QMessageLogContext,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.ui.shell.application import Application, qt_application
from npuviz.ui.shell.main_window import MainWindow
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.layouts import LAYOUTS, layout_named
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.settings import Settings

SETTLE_MS = 250
_POLL_MS = 5


class HeadlessWindow:
    """A main window that is never on a screen. Every method returns when its work is done.

    theme   "dark" or "light"
    size    pixels
    widget  the `MainWindow`, for clicks and keys of pytest-qt

    Raises UsageError for an unknown theme; the methods raise NpuvizError for errors that the window would
    show.
    Stored settings are neither read nor written. Call `close`, which ends the threads.
    """

    def __init__(self, theme: str = "dark", size: tuple[int, int] = (1600, 1000)) -> None:
        if theme not in ("dark", "light"):
            raise UsageError(f"theme {theme}: expected dark or light")
        # Even if there is a display; without effect in a process that already has a Qt application.
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
        qt_application()
        self._application = Application(Settings(None), Theme(theme))
        self.widget: MainWindow = self._application.new_window()
        self._failures: list[str] = []
        self.widget.model.failed.connect(self._failures.append)
        self.widget.resize(*size)
        self.widget.show()

    @property
    def cycle(self) -> int:
        """The cycle of the session; 0 without one."""
        return self.widget.model.cycle

    def open(self, path: Path, opening: OpenOptions) -> None:
        """Open a file as if the user had named it."""
        self.widget.open(path, opening, is_named=True)
        self.wait()

    def run(self) -> None:
        """Run to the end, past breakpoints; do nothing for a recorded trace."""
        if self.widget.model.session is not None:
            self.widget.model.run_through()
            self.wait()

    def go_to(self, cycle: int) -> None:
        """Go to a cycle, ignoring breakpoints; do nothing for a recorded trace."""
        if self.widget.model.session is not None:
            self.widget.model.go_to(cycle)
            self.wait()

    def arrange(self, layout: str = "stepping", panels: Sequence[str] = ()) -> None:
        """Arrange the panels by a layout's name; if `panels` (ids) are given, show only those.

        Raises UsageError for an unknown name.
        """
        found = layout_named(layout)
        if found is None:
            raise UsageError(f"layout {layout}: expected one of {', '.join(known.name for known in LAYOUTS)}")
        for name in panels:
            if name not in self.widget.docks.all:
                raise UsageError(f"panel {name}: expected one of {', '.join(self.widget.docks.all)}")
        self.widget.docks.apply(found)
        if panels:
            self.widget.docks.show_only(list(panels))
        # Otherwise the first button of the tool bar would have the focus, and be drawn so.
        self.widget.docks.focus_first(*panels, "timeline", "sweep")

    def wait(self, is_done: Callable[[], bool] | None = None) -> None:
        """Run the event loop until a condition holds; by default until no work is under way."""
        condition = is_done or (lambda: not self.widget.model.is_busy)
        loop = QEventLoop()
        poll = QTimer(interval=_POLL_MS)
        poll.timeout.connect(lambda: loop.quit() if condition() else None)
        poll.start()
        if not condition():
            loop.exec()
        poll.stop()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failures:
            text = self._failures[0]
            self._failures.clear()
            raise NpuvizError(text)

    def settle(self) -> None:
        """Wait until all panels have their contents and are drawn."""
        self.widget.status.work.end()
        self._pause()
        self.wait(lambda: all(panel.is_settled for panel in self.widget.docks.panels.values()))
        self._pause()

    def picture(self, form: str = "png") -> bytes:
        """Return a picture of the window as the bytes of an image file. Raises UsageError for an unknown
        format.
        """
        self.settle()
        data = QByteArray()
        buffer = QBuffer(data)
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        if not form or not self.widget.grab().save(buffer, form):
            raise UsageError(f"{form or 'no format'}: cannot be written as a picture; expected png")
        return bytes(data.data())

    def close(self) -> None:
        """Close the window and end its threads."""
        self._application.close()

    def _pause(self) -> None:
        pause(SETTLE_MS)
        self._raise_failure()


def pause(milliseconds: int) -> None:
    """Run the event loop for a time; unlike `QTest.qWait` this leaves Python's lock to other threads."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def drop_platform_noise() -> None:
    """Write Qt's messages to standard error, except debug messages and the offscreen platform's noise."""

    def show(kind: QtMsgType, _context: QMessageLogContext, text: str) -> None:
        if "This plugin does not support" not in text and kind != QtMsgType.QtDebugMsg:
            sys.stderr.write(f"{text}\n")

    qInstallMessageHandler(show)
