"""Counts lost keys among random presses of step keys and letters on every machine, while the window is busy.

npuviz bench keys
"""

import os
import random
from typing import TYPE_CHECKING

from benchmarks.row import Row

if TYPE_CHECKING:
    from npuviz.ui.shell.main_window import MainWindow
    from npuviz.workbench.samples import SampleEntry

PRESSES = 250
"""Number of presses on each machine."""
START = 300
"""Cycle at which the presses begin, far from both ends of every sample."""
STEPS = {"F11": 1, "F4": -1}
LETTERS = "cyle =0123456789"
LOOK_SHARE = 0.3
"""Share of presses after which the window may process events; in between, keys come faster than it draws."""


def run() -> list[Row]:
    """Press keys in a new window for each machine's sample."""
    from npuviz.workbench.samples import sample_entries

    entries = sample_entries()
    lost = [press(entry, PRESSES, number) for number, entry in enumerate(entries)]
    rows = [
        Row(f"{entry.options.target}: lost of {PRESSES} random presses", count, "", "0")
        for entry, count in zip(entries, lost, strict=True)
    ]
    return [*rows, Row(f"all machines: lost of {PRESSES * len(entries)} random presses", sum(lost), "", "0")]


def press(entry: "SampleEntry", count: int, seed: int) -> int:
    """Open the sample of a machine and send `count` keys. Returns how many of them were lost."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from npuviz.ui.shell.application import Application
    from npuviz.ui.shell.headless import drop_platform_noise
    from npuviz.workbench.settings import Settings

    drop_platform_noise()
    application = Application(Settings(None))
    window = application.new_window()
    window.resize(1280, 800)
    window.show()
    window.open(entry.path, entry.options, is_named=True)
    _wait(window)
    window.model.go_to(START)
    _wait(window)
    try:
        return press_keys(window, count, seed)
    finally:
        application.close()


def press_keys(window: "MainWindow", count: int, seed: int) -> int:
    """Send random keys to an open window: steps forward and back, and letters into the breakpoints' field.

    Returns how many were lost.
    """
    from PySide6.QtCore import QCoreApplication
    from PySide6.QtGui import QKeySequence
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QApplication

    from npuviz.ui.breakpoints.panel import BreakpointsPanel

    window.activateWindow()
    window.docks.show_panel("breakpoints")
    panel = window.docks.panel("breakpoints")
    assert isinstance(panel, BreakpointsPanel)
    field = panel.line.line
    choose, typed, cycle = random.Random(seed), "", window.model.cycle
    for _ in range(count):
        field.setFocus()
        focused = QApplication.focusWidget() or field
        if choose.random() < 0.5:
            name = choose.choice(sorted(STEPS))
            QTest.keySequence(focused, QKeySequence(name))
            cycle += STEPS[name]
        else:
            letter = choose.choice(LETTERS)
            QTest.keyClicks(focused, letter)
            typed += letter
        if choose.random() < LOOK_SHARE:
            QCoreApplication.processEvents()
    _wait(window)
    missing = len(typed) - _in_common(typed, field.text())
    return abs(window.model.cycle - cycle) + missing


def _in_common(wanted: str, found: str) -> int:
    """Return how many letters of `wanted` are in `found`, in order from the first on."""
    count = 0
    for letter in found:
        count += count < len(wanted) and wanted[count] == letter
    return count


def _wait(window: "MainWindow") -> None:
    from npuviz.ui.shell.headless import pause

    while window.model.is_busy:
        pause(5)
    if window.model.session is None:
        raise RuntimeError(f"the sample was not opened: {window.model.failure.text}")
