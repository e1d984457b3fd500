"""Costs of a run, against a plain count cycle by cycle."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import INTERVAL
from npuviz.trace.store import TraceStore
from npuviz.trace.unit_times import unit_times
from npuviz.workbench.costs import GROUPINGS, Grouping, _busiest, _shares, _union, costs
from tests.ui.synthetic import KINDS, Nodes, _rows, make_reader, schema

WAITS = [kind.id for kind in KINDS if kind.role.startswith("wait-")]
WORK = [kind.id for kind in KINDS if not kind.role.startswith("wait-")]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(1, 12), st.integers(0, 3)), max_size=30
    )
)
def test_shares_equal_a_count_cycle_by_cycle(rows: list[tuple[int, int, int, int]]) -> None:
    places = np.array([row[0] for row in rows], dtype=np.int64)
    start = np.array([row[1] for row in rows], dtype=np.int64)
    end = start + np.array([row[2] for row in rows], dtype=np.int64)
    tracks = np.array([row[3] for row in rows], dtype=np.int64)
    wanted = np.zeros(5)
    for cycle in range(50):
        under_way = {p for p, s, e in zip(places, start, end, strict=True) if s <= cycle < e}
        for place in under_way:
            wanted[place] += 1 / len(under_way)
    union = _union(places, start, end)
    np.testing.assert_allclose(_shares(*union, 5), wanted)
    spent: dict[tuple[int, int], int] = defaultdict(int)
    for place, track, length in zip(places, tracks, end - start, strict=True):
        spent[int(place), int(track)] += int(length)
    _, most = _busiest(places, tracks, end - start, 5)
    for place in range(5):
        assert most[place] == max((s for (p, _), s in spent.items() if p == place), default=0)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_shares_and_idle_sum_to_the_run(grouping: Grouping) -> None:
    reader = make_reader(8, 4000)
    found = costs(reader, grouping)
    assert found.num_unassigned == 0
    assert found.share.sum() + found.idle == pytest.approx(found.end)
    assert (np.diff(found.share) <= 0).all()
    assert (found.share <= found.active + 1e-6).all()
    assert (found.active <= found.work).all()
    assert (found.unit_work <= found.work).all()
    times = unit_times(reader).values()
    assert int(found.work.sum()) == sum(time.busy for time in times)
    waits = sum(reader.busy_cycles(track.id, WAITS) for track in reader.schema.tracks)
    assert int(found.waiting.sum()) <= waits


def test_an_empty_trace_costs_nothing() -> None:
    found = costs(TraceReader(TraceStore(schema(2), Nodes())), "operator")
    assert len(found.key) == 0
    assert found.idle == found.end


def test_lanes_that_belong_to_no_unit_do_not_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = make_reader(4, 400)
    lanes = replace(reader.schema.tracks[3], unit=-1)
    without = replace(reader.schema, tracks=(*reader.schema.tracks[:3], lanes))
    monkeypatch.setattr(TraceStore, "schema", property(lambda _store: without))
    found = costs(reader, "operator")
    assert set(found.unit.tolist()) <= {0, 1, 2}
    assert int(found.work.sum()) == sum(reader.busy_cycles(track, WORK) for track in range(3))


def test_units_that_only_enclose_what_others_do_bound_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TraceStore(schema(3), Nodes())
    # Unit 0 holds the task all the time (kind 4); units 1 and 2 do the work, the latter longer.
    for track, kind, start, end in ((0, 4, 0, 100), (1, 0, 10, 40), (2, 2, 30, 90)):
        store.append(
            _rows(INTERVAL, track, np.array([kind]), np.array([start]), np.array([end]), np.array([0]))
        )
    # An operator of which nothing but the task was recorded still has a unit.
    store.append(_rows(INTERVAL, 0, np.array([4]), np.array([100]), np.array([120]), np.array([64])))
    store.mark(120)
    kinds = tuple(replace(kind, frames=kind.id == 4) for kind in KINDS)
    framed = replace(schema(3), kinds=kinds)
    monkeypatch.setattr(TraceStore, "schema", property(lambda _store: framed))
    found = costs(TraceReader(store), "operator")
    assert dict(zip(found.key.tolist(), found.unit.tolist(), strict=True)) == {0: 2, 1: 0}
    assert found.unit_work.tolist() == [60, 20]
    assert found.active.tolist() == [100, 20]
    assert found.work.tolist() == [190, 20]


def test_functions_of_one_name_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = make_reader(4, 2000)
    own = reader.schema
    # Every second node is the function "send" of another program; the others are operators of one name.
    names = tuple("send" if node % 2 else "conv" for node in range(len(own.node_names)))
    types = tuple("function" if node % 2 else "Conv" for node in range(len(names)))
    named = replace(own, node_names=names, node_types=types)
    monkeypatch.setattr(TraceStore, "schema", property(lambda _store: named))
    apart = costs(reader, "operator")
    found = costs(reader, "operator", puts_functions_together=True)
    functions = apart.key[apart.key % 2 == 1]
    assert len(functions) > 1
    assert set(found.key.tolist()) == {*apart.key[apart.key % 2 == 0].tolist(), 1}
    row = found.key.tolist().index(1)
    assert found.parts[row] == len(functions)
    assert found.parts.sum() == len(apart.key)
    # A cycle in which two of them are under way counts once for both together.
    assert found.active[row] <= apart.active[apart.key % 2 == 1].sum()
    assert found.share.sum() + found.idle == pytest.approx(found.end)
    assert not (apart.parts != 1).any()
