"""The counters panel on the toy machine."""

from collections.abc import Iterator

import numpy as np
import pytest
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from npuviz.ui.bridge.features import features_of
from npuviz.ui.counters.panel import SPEC, CountersPanel
from npuviz.workbench.selection import Selection
from tests.ui.panel_stage import Stage
from tests.ui.synthetic import make_reader


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> CountersPanel:
    assert isinstance(stage.panel, CountersPanel)
    return stage.panel


@pytest.mark.parametrize("window", [None, (20, 90), (0, 1), (150, 200), (70, 70)])
def test_values_equal_those_of_every_cycle(
    stage: Stage, window: tuple[int, int] | None, qtmodeltester: ModelTester
) -> None:
    session = stage.open_toy(run_to=200)
    panel = panel_of(stage)
    assert not panel.is_empty
    stage.context.selection.set(Selection(cycles=window))
    stage.moved()
    reader = session.trace
    assert reader is not None
    low, high = window or (0, reader.end_cycle)
    for row in panel.table.rows:
        each = np.array([reader.value_at(row.track, cycle) for cycle in range(low, max(high, low + 1))])
        assert (row.lowest, row.highest) == (each.min(), each.max()), row.name
        assert row.mean == pytest.approx(each.mean()), row.name
        assert row.now == reader.value_at(row.track, session.cycle)
    assert len(panel.table.rows) == sum(track.kind == "counter" for track in reader.schema.tracks)
    qtmodeltester.check(panel.table)
    panel.filter.setText(panel.table.rows[0].name)
    assert panel.table.rows[0].name in {row.name for row in panel.table.rows}


def test_says_what_would_be_here(stage: Stage) -> None:
    assert panel_of(stage).is_empty
    assert "queue occupancy" in panel_of(stage).empty._label.text()


@pytest.mark.parametrize("num_counters", [0, 1])
def test_is_offered_where_the_trace_has_counters(num_counters: int) -> None:
    found = features_of(None, make_reader(4, 40, num_counters))
    assert ("counters" in found) == (num_counters > 0)
    assert SPEC.features == ("counters",)
