"""The legend of a timeline in little room."""

import pytest
from pytestqt.qtbot import QtBot

from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.legend import TimelineLegend

WORK = [(number, f"operator {number}") for number in range(12)]
WAITING = [(20, "waits: bandwidth"), (21, "waits: dependency"), (22, "waits: empty")]


@pytest.mark.parametrize("room", [80, 200, 600, 900])
def test_waits_stay_while_work_is_left_out(qtbot: QtBot, room: int) -> None:
    legend = TimelineLegend(Theme("dark"))
    qtbot.addWidget(legend)
    legend.set_entries(None, [*WORK, *WAITING])
    metrics = legend.fontMetrics()
    shown = legend.fitting(room, metrics)
    assert any(name.startswith("waits") for _, name in shown)
    assert sum(legend._width_of(name, metrics) for _, name in shown) <= room
    assert legend.fitting(10_000, metrics) == [*WORK, *WAITING]
