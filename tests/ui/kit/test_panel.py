"""What every panel does, whatever it shows."""

import pytest

from npuviz.ui.console.panel import SPEC
from tests.ui.driver import Driver


def test_a_fault_of_a_panel_that_comes_is_told_and_crashes_nothing(
    toy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = toy.window.docks.panel(SPEC.id)

    def broken() -> None:
        # Raised in C with a text, it becomes an exception object only when Python looks at it.
        max(*(number for number in [1]))

    toy.window.docks.all[SPEC.id].hide()
    monkeypatch.setattr(panel, "on_cycle_changed", broken)
    toy.do("debug.step")
    with toy.qtbot.captureExceptions() as found:
        toy.window.docks.show_panel(SPEC.id)
    assert [kind for kind, *_ in found] == [TypeError]


def test_a_panel_that_has_put_off_a_change_is_not_settled(
    toy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = toy.window.docks.panel("inspector")
    toy.window.docks.show_panel("inspector")
    toy.qtbot.waitUntil(lambda: panel.is_settled and not panel._frame.isActive())
    shown: list[int] = []
    monkeypatch.setattr(panel, "on_cycle_changed", lambda: shown.append(toy.model.cycle))
    # Both come within a frame.
    panel._cycle_changed(1)
    panel._cycle_changed(2)
    assert len(shown) == 1
    assert not panel.is_settled
    toy.qtbot.waitUntil(lambda: panel.is_settled)
    assert len(shown) == 2
