"""What every panel does, whatever it shows."""

import pytest

from npuviz.ui.console.panel import SPEC
from tests.ui.driver import Driver


def test_a_fault_of_a_panel_that_comes_is_told_and_crashes_nothing(
    toy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = toy.window.docks.panels[SPEC.id]

    def broken() -> None:
        # Raised in C with a text, it becomes an exception object only when Python looks at it.
        max(*(number for number in [1]))

    toy.window.docks.all[SPEC.id].hide()
    monkeypatch.setattr(panel, "on_cycle_changed", broken)
    toy.do("debug.step")
    with toy.qtbot.captureExceptions() as found:
        toy.window.docks.show_panel(SPEC.id)
    assert [kind for kind, *_ in found] == [TypeError]
