import numpy as np
import pytest

from npuviz.debug.timeline import LARGEST_SHARE, OVERHEAD_BYTES, Timeline
from npuviz.sim.state import Snapshot
from tests.toy.session import make_session

WORDS = 128
ONE = WORDS * 8 + OVERHEAD_BYTES


def snapshot(cycle: int) -> Snapshot:
    return Snapshot(cycle, np.zeros(WORDS, np.int64))


def test_nearest_and_before() -> None:
    timeline = Timeline(snapshot(0), 100 * ONE)
    for cycle in (10, 20, 30):
        timeline.add(snapshot(cycle), 0.0)
    timeline.add_near(snapshot(25))
    assert timeline.cycles == (0, 10, 20, 25, 30)
    assert [timeline.nearest(cycle).cycle for cycle in (0, 9, 10, 24, 25, 99)] == [0, 0, 10, 20, 25, 30]
    assert [timeline.before(cycle).cycle for cycle in (1, 10, 11, 30, 99)] == [0, 0, 10, 25, 30]
    with pytest.raises(ValueError, match="no checkpoint before cycle 0"):
        timeline.before(0)


def test_memory_is_bounded_and_the_spacing_doubles() -> None:
    timeline = Timeline(snapshot(0), 16 * ONE)
    first = timeline.spacing_seconds
    largest = 0
    for cycle in range(1, 1000):
        timeline.add(snapshot(cycle), 0.0)
        largest = max(largest, timeline.size_bytes)
    assert largest <= 16 * ONE
    assert len(timeline.cycles) >= 6
    assert timeline.cycles[0] == 0
    assert timeline.last_base_cycle == 999
    assert timeline.spacing_seconds >= 32 * first


def test_a_budget_smaller_than_a_snapshot_keeps_first_and_last() -> None:
    timeline = Timeline(snapshot(0), 1)
    for cycle in range(1, 20):
        timeline.add(snapshot(cycle), 0.0)
    assert timeline.cycles[0] == 0
    assert len(timeline.cycles) <= 2
    timeline.add_near(snapshot(3))
    assert 3 not in timeline.cycles


def test_near_checkpoints_have_their_own_part_of_the_budget() -> None:
    timeline = Timeline(snapshot(0), 16 * ONE)
    for cycle in range(1, 100):
        timeline.add_near(snapshot(cycle))
    assert timeline.cycles == (0, 96, 97, 98, 99)
    timeline.add_near(snapshot(98))
    assert timeline.cycles == (0, 96, 97, 98, 99)


def test_expensive_snapshots_are_taken_rarely() -> None:
    timeline = Timeline(snapshot(0), 100 * ONE)
    timeline.add(snapshot(1), 0.2)
    timeline.add(snapshot(2), 0.03)
    assert timeline.spacing_seconds == pytest.approx(0.03 / LARGEST_SHARE)


def test_drop_from_keeps_the_first() -> None:
    timeline = Timeline(snapshot(0), 100 * ONE)
    for cycle in (10, 20):
        timeline.add(snapshot(cycle), 0.0)
    timeline.add_near(snapshot(15))
    timeline.drop_from(15)
    assert timeline.cycles == (0, 10)
    timeline.drop_from(0)
    assert timeline.cycles == (0,)
    timeline.add(snapshot(5), 0.0)
    assert timeline.cycles == (0, 5)


def test_base_checkpoints_rise() -> None:
    timeline = Timeline(snapshot(5), ONE)
    with pytest.raises(ValueError, match="not after 5"):
        timeline.add(snapshot(5), 0.0)
    with pytest.raises(ValueError, match="no checkpoint before cycle 4"):
        timeline.nearest(4)
    with pytest.raises(ValueError, match="budget"):
        Timeline(snapshot(0), 0)


def test_a_session_lays_checkpoints_and_adds_near_ones_when_going_back() -> None:
    session = make_session(blocks=64, cycle_seconds=0.0005)
    session.run()
    before = session.timeline.cycles
    assert len(before) > 4
    target = before[-1] - 1
    session.go_to(target)
    added = sorted(set(session.timeline.cycles) - set(before))
    assert added
    assert all(before[-2] < cycle < target for cycle in added)
    assert session.machine.cycle == target


def test_a_session_keeps_its_budget() -> None:
    session = make_session(blocks=64, cycle_seconds=0.0005, budget_bytes=300_000)
    session.run()
    for cycle in range(0, session.cycle, 97):
        session.go_to(cycle)
    assert session.timeline.size_bytes <= 300_000
    assert len(session.timeline.cycles) > 3
