"""Sends random keys, clicks, drags and wheel events to the window on every machine; nothing may raise.

npuviz bench monkey
python -m benchmarks.monkey wavelet 5000 [SEED]
"""

import os
import random
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.row import Row

if TYPE_CHECKING:
    from npuviz.ui.shell.main_window import MainWindow

EVENTS = 5000
"""Number of events on each machine."""
SETTLE_EVERY = 50
RUN_SECONDS = 1.0
"""A job that runs for longer is cancelled."""
CANCEL_SECONDS = 30.0
"""Time within which a cancelled job must end, even on a busy computer."""
KEYS = (
    "F11 F4 F10 Shift+F4 F5 F6 F7 Shift+F5 F8 F12 F9 Escape Tab Shift+Tab Return Space Delete Up Down "
    "Left Right PgUp PgDown Home End Ctrl+Z Ctrl+Y Ctrl+F Ctrl+C Ctrl+T Ctrl+B Ctrl+P Ctrl+Shift+P "
    "Ctrl+G W A S D F G M + - 1 5 x c y = Ctrl+Alt+1 Ctrl+Alt+2 Ctrl+Alt+3 Ctrl+Alt+4 Alt+1 Alt+2 "
    "Alt+3 Alt+4 Alt+5 Alt+6 Alt+7 Alt+8 Alt+9 Alt+0 Alt+Left Alt+Right "
)
"""Ctrl+O, Ctrl+S and Ctrl+W are left out, as are the commands below in the palette."""
LEFT_OUT = ("file.", "trace.export", "trace.compare", "help.")
"""Prefixes of commands that open dialogs or close the session."""


def run() -> list[Row]:
    """Send random events to the sample of each machine."""
    from npuviz.workbench.samples import sample_entries

    rows: list[Row] = []
    for entry in sample_entries():
        failures = play(entry.options.target, EVENTS, 1)
        rows.append(Row(f"{entry.options.target}: faults in {EVENTS} random events", len(failures), "", "0"))
    return rows


def play(target: str, count: int, seed: int) -> list[str]:
    """Send `count` random events to a window with a machine's sample. Returns the raised exceptions as
    text."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from npuviz.ui.shell.application import Application
    from npuviz.ui.shell.headless import drop_platform_noise
    from npuviz.workbench.samples import sample_entries
    from npuviz.workbench.settings import Settings

    entry = next(entry for entry in sample_entries() if entry.options.target == target)
    failures: list[str] = []
    previous, sys.excepthook = (
        sys.excepthook,
        lambda *error: failures.append("".join(traceback.format_exception(*error))),
    )
    drop_platform_noise()
    with tempfile.TemporaryDirectory() as folder:
        application = Application(Settings(Path(folder) / "settings.json"))
        window = application.new_window()
        window.resize(1280, 800)
        window.show()
        window.open(entry.path, entry.options)
        _open(window)
        try:
            monkey = _Monkey(window, seed)
            for number in range(count):
                monkey.act()
                if number % SETTLE_EVERY == SETTLE_EVERY - 1:
                    failures += _settle(window)
            failures += _settle(window)
            failures += _after(window)
        finally:
            application.close()
            sys.excepthook = previous
    return failures


class _Monkey:
    """Chooses random events from a seed."""

    def __init__(self, window: "MainWindow", seed: int) -> None:
        self._window = window
        self._random = random.Random(seed)
        run_command = window.commands.run

        def run(command_id: str) -> bool:
            return not command_id.startswith(LEFT_OUT) and run_command(command_id)

        window.commands.run = run

    def act(self) -> None:
        """Send one event, as the window system would send it."""
        from PySide6.QtCore import QPoint, Qt
        from PySide6.QtTest import QTest
        from PySide6.QtWidgets import QApplication, QMenu

        choose = self._random
        popup = QApplication.activePopupWidget()
        if popup is not None and (isinstance(popup, QMenu) or choose.random() < 0.5):
            # Entries of context menus may open dialogs of the system, so menus are opened and closed again.
            popup.close()
            return
        if choose.random() < 0.4:
            self._key(choose.choice(KEYS.split()))
            return
        point = QPoint(choose.randrange(self._window.width()), choose.randrange(60, self._window.height()))
        widget = self._window.childAt(point)
        if widget is None or not widget.isVisible():
            return
        here = widget.mapFrom(self._window, point)
        button = Qt.MouseButton.RightButton if choose.random() < 0.15 else Qt.MouseButton.LeftButton
        kind = choose.random()
        if kind < 0.5:
            QTest.mouseClick(widget, button, pos=here)
        elif kind < 0.6:
            QTest.mouseDClick(widget, Qt.MouseButton.LeftButton, pos=here)
        elif kind < 0.8:
            there = here + QPoint(choose.randint(-200, 200), choose.randint(-100, 100))
            QTest.mousePress(widget, Qt.MouseButton.LeftButton, pos=here)
            QTest.mouseMove(widget, there)
            QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, pos=there)
        else:
            self._wheel(widget, here)

    def _key(self, text: str) -> None:
        from PySide6.QtGui import QKeySequence
        from PySide6.QtTest import QTest
        from PySide6.QtWidgets import QApplication

        widget = QApplication.focusWidget() or self._window
        QTest.keySequence(widget, QKeySequence(text))

    def _wheel(self, widget: "object", here: "object") -> None:
        from PySide6.QtCore import QPoint, QPointF, Qt
        from PySide6.QtGui import QWheelEvent
        from PySide6.QtWidgets import QApplication, QWidget

        assert isinstance(widget, QWidget)
        assert isinstance(here, QPoint)
        turn = self._random.choice((-480, -120, 120, 480))
        modifier = self._random.choice(
            (
                Qt.KeyboardModifier.NoModifier,
                Qt.KeyboardModifier.ControlModifier,
                Qt.KeyboardModifier.ShiftModifier,
            )
        )
        event = QWheelEvent(
            QPointF(here), QPointF(widget.mapToGlobal(here)), QPoint(), QPoint(0, turn),
            Qt.MouseButton.NoButton, modifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(widget, event)


def _open(window: "MainWindow") -> None:
    """Wait until the sample is open: events on the start page would open a dialog of the system."""
    from npuviz.ui.shell.headless import pause

    while window.model.is_busy:
        pause(5)
    if window.model.session is None:
        raise RuntimeError(f"the sample was not opened: {window.model.failure.text}")


def _settle(window: "MainWindow") -> list[str]:
    """Wait until the window is idle, and cancel jobs that take long. Returns a fault for one that does not
    end."""
    from npuviz.ui.shell.headless import pause

    if not _wait_idle(window, RUN_SECONDS):
        window.model.cancel()
        if not _wait_idle(window, CANCEL_SECONDS):
            return [f"busy {CANCEL_SECONDS:.0f} s after Cancel: {window.status.work.text}"]
    pause(1)
    return []


def _wait_idle(window: "MainWindow", seconds: float) -> bool:
    """Wait at most `seconds` until the window is idle. Returns whether it is."""
    from PySide6.QtCore import QDeadlineTimer

    from npuviz.ui.shell.headless import pause

    deadline = QDeadlineTimer(round(seconds * 1000))
    while window.model.is_busy and not deadline.hasExpired():
        pause(5)
    return not window.model.is_busy


def _after(window: "MainWindow") -> list[str]:
    """Check that the window still works: layouts are restored, a step advances by a cycle. Returns faults."""
    failures: list[str] = []
    window.palette_box.dismiss()
    for command in ("view.layout.stepping", "view.reset_layout", "debug.restart"):
        window.commands.run(command)
        _wait_idle(window, CANCEL_SECONDS)
    if window.model.session is None or window.model.cycle != 0:
        failures.append(f"Restart leads to cycle {window.model.cycle}")
    window.model.step()
    _wait_idle(window, CANCEL_SECONDS)
    if window.model.cycle != 1:
        failures.append(f"a step from cycle 0 leads to {window.model.cycle}")
    shown = [name for name, dock in window.docks.all.items() if not dock.isHidden()]
    if len(shown) < 5:
        failures.append(f"Reset Layout shows {shown} alone")
    return failures


if __name__ == "__main__":
    found = play(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    print("\n".join(dict.fromkeys(found)))
    print(f"{len(found)} faults, {len(set(found))} different")
