"""The status bar says what is being compiled beside the window."""

import pytest
from PySide6.QtWidgets import QLabel

from npuviz.ui.shell.bars import compiling
from npuviz.ui.shell.bars.compiling import TICK_MS
from tests.ui.driver import Driver


def test_says_what_is_compiled_and_falls_silent_then(toy: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"systolic": 12.4, "window": 3.0}
    monkeypatch.setattr(compiling, "awaited", lambda: found)
    label = toy.window.findChild(QLabel, "status.compiling")
    assert label is not None
    toy.qtbot.waitUntil(lambda: bool(label.text()), timeout=5 * TICK_MS)
    assert label.text() == "compiling kernels (systolic, window): 12 s"
    found.clear()
    toy.qtbot.waitUntil(lambda: not label.text(), timeout=5 * TICK_MS)
