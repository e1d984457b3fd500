"""The legend of a timeline in little room."""

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.index import TimelineIndex
from npuviz.ui.timeline.legend import GAP, NAMELESS, TimelineLegend
from npuviz.ui.timeline.style import TimelineStyle
from tests.ui.synthetic import make_reader

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


def test_what_there_is_most_of_stays(qtbot: QtBot) -> None:
    legend = TimelineLegend(Theme("dark"))
    qtbot.addWidget(legend)
    legend.set_entries(None, [*WORK, *WAITING])
    metrics = legend.fontMetrics()
    assert (9, "operator 9") not in legend.fitting(600, metrics)
    legend.set_amounts({"operator 9": 700.0, "operator 2": 300.0, "operator 0": 5.0})
    kept = [name for _, name in legend.fitting(600, metrics)]
    assert {"operator 0", "operator 2", "operator 9"} <= set(kept)
    assert kept.index("operator 2") < kept.index("operator 9"), "in the order that they have"


def test_one_entry_for_all_waits_has_a_colour_that_can_be_seen(qtbot: QtBot) -> None:
    legend = TimelineLegend(Theme("dark"))
    qtbot.addWidget(legend)
    legend.set_entries(None, [*WORK, WAITING[2], *WAITING[:2]])
    legend.set_amounts({"waits: empty": 900.0, "waits: dependency": 30.0, "waits: bandwidth": 2.0})
    assert (21, "waits") in legend.fitting(200, legend.fontMetrics())
    legend.set_amounts({"waits: empty": 900.0})
    assert (22, "waits") in legend.fitting(200, legend.fontMetrics())


def test_amounts_are_the_cycles_of_each_colour() -> None:
    reader = make_reader(8, 3000)
    index = TimelineIndex(reader)
    amounts = index.amounts_in_legend([0, 1])
    moved = sum(reader.busy_cycles(track, [2]) for track in (0, 1))
    assert amounts["move in"] == moved
    assert amounts["waits: queue"] == sum(reader.busy_cycles(track, [6]) for track in (0, 1))
    assert set(amounts) <= {name for _, name in index.categories.legend()}


def test_what_is_left_out_is_counted(qtbot: QtBot) -> None:
    legend = TimelineLegend(Theme("dark"))
    qtbot.addWidget(legend)
    legend.set_entries(None, [*WORK, *WAITING])
    metrics = legend.fontMetrics()
    shown = legend.fitting(600, metrics)
    kinds = sum(not name.startswith("waits") for _, name in shown)
    assert len(legend.left_out(shown)) == len(WORK) - kinds
    assert legend.left_out(legend.fitting(10_000, metrics)) == []
    assert sum(legend._width_of(name, metrics) for _, name in shown) + legend._more_width(metrics) <= 600


def test_kinds_without_room_for_names_have_swatches_that_tell_them(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, theme = make_reader(8, 3000), Theme("dark")
    categories = TimelineIndex(reader).categories
    legend = TimelineLegend(theme)
    qtbot.addWidget(legend)
    entries = categories.legend()
    legend.set_entries(TimelineStyle(theme, categories), entries)
    metrics = legend.fontMetrics()
    legend.resize(legend._width_of("waits", metrics) + NAMELESS * len(entries) + GAP, 22)
    legend.grab()
    shown = legend.fitting(legend.width(), metrics)
    nameless = legend.left_out(shown)
    assert nameless
    assert shown
    assert [name for _, name in legend._places] == [name for _, name in [*shown, *nameless]]
    assert all(box.left() >= 0 and box.right() <= legend.width() for box, _ in legend._places)
    told: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _at, text, *_rest: told.append(text))
    for box, name in legend._places:
        spot = box.center().toPoint()
        QApplication.sendEvent(legend, QHelpEvent(QEvent.Type.ToolTip, spot, legend.mapToGlobal(spot)))
        assert told[-1] == plain_tip(name)
