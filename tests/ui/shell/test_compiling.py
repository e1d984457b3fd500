"""The status bar says what is being compiled beside the window."""

import pytest
from PySide6.QtWidgets import QLabel

from npuviz.ui.shell.bars import compiling
from npuviz.ui.shell.bars.compiling import TICK_MS
from npuviz.ui.shell.bars.status import StatusLine
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


def test_a_full_status_line_never_widens_the_window(toy: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What matters least goes first, and comes back when there is room again."""
    # Else the next look, which a busy computer may begin before the test ends, empties the text.
    monkeypatch.setattr(compiling, "awaited", lambda: {"machine": 23.0, "window": 3.0})
    window, status = toy.window, toy.window.findChild(StatusLine)
    assert isinstance(status, StatusLine)
    window.resize(1000, 700)
    status.compiling.setText("compiling kernels (machine, window): 23 s")
    status.speed.setText("82 944 cycles/s (kernels partly uncompiled)")
    status.work.report(
        -1.0, "Opening tiny_transformer.onnx: reading and compiling the model, which takes long"
    )
    status.work.show()
    toy.qtbot.waitUntil(lambda: not status.compiling.isVisible())
    assert window.width() == 1000
    assert status.cycle.isVisible()
    assert status.speed.geometry().right() <= status.width()
    assert window.minimumSizeHint().width() < 1000
    status.work.end()
    window.resize(1600, 700)
    toy.qtbot.waitUntil(lambda: status.compiling.isVisible() and status.speed.isVisible())
