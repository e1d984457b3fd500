"""Moving contents along logs and edits: every way to a place shows what a fresh replay shows."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.sim.replay.contents import Edit, Report, Undo
from npuviz.sim.replay.engine import MAX_HAZARDS, Replay, ReplayLimits
from npuviz.sim.replay.snapshots import Snapshot, Snapshots

SIZE = 8
LOG = np.array([3, 1, 4, 1, 5, 0, 2, 6, 5, 3, 5, 0, 7, 1])
EDITS = (Edit(2, 0, 1, b"\x07"), Edit(2, 0, 2, b"\x09"), Edit(9, 0, 5, b"\x01\x02"))


@dataclass(frozen=True)
class Kept:
    numbers: np.ndarray

    def arrays(self) -> Iterable[np.ndarray]:
        return (self.numbers,)


class Numbers:
    """Entry n mixes number n into its neighbour; entry 0 is refused."""

    def __init__(self, report: Report) -> None:
        self.numbers = np.zeros(SIZE, np.int64)
        self._report = report

    def apply(self, entry: int, undoable: bool) -> Undo | None:
        if entry == 0:
            self._report("fault", "entry 0")
            return None
        before = self.numbers.copy()
        self.numbers[entry - 1] = 3 * self.numbers[entry - 1] + self.numbers[entry] + 1
        return self._undo(before) if undoable else None

    def apply_edit(self, edit: Edit, undoable: bool) -> Undo | None:
        before = self.numbers.copy()
        self.numbers[edit.address : edit.address + len(edit.data)] = list(edit.data)
        return self._undo(before) if undoable else None

    def _undo(self, before: np.ndarray) -> Undo:
        def back() -> None:
            self.numbers = before

        return Undo(back, before.nbytes)

    def keep(self) -> Kept:
        return Kept(self.numbers.copy())

    def restore(self, kept: Kept | None) -> None:
        self.numbers = np.zeros(SIZE, np.int64) if kept is None else kept.numbers.copy()


class Undoing(Replay[Numbers]):
    limits = ReplayLimits(keep_seconds=1e9, undone_entries=5)


class Keeping(Replay[Numbers]):
    limits = ReplayLimits(keep_seconds=-1.0, kept_states=4)


class Both(Replay[Numbers]):
    limits = ReplayLimits(keep_seconds=-1.0, undone_entries=3, undo_bytes=1000)


def seen(engine: Replay[Numbers]) -> tuple[object, ...]:
    return engine.position, engine.contents.numbers.tolist(), engine.hazards


def fresh(log: np.ndarray, edits: tuple[Edit, ...]) -> tuple[object, ...]:
    engine = Replay(Numbers)
    engine.advance_to(log, edits)
    return seen(engine)


@pytest.mark.parametrize("kind", [Replay, Undoing, Keeping, Both])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(LOG)), st.integers(0, 3), st.booleans()), max_size=8))
def test_any_way_there_equals_a_fresh_replay(kind, places) -> None:
    other = LOG.copy()
    other[7:9] = other[[8, 7]]
    engine = kind(Numbers)
    for length, number, is_other in places:
        log = (other if is_other else LOG)[:length]
        engine.advance_to(log, EDITS[:number])
        assert seen(engine) == fresh(log, EDITS[:number])
        assert engine.edits == EDITS[:number]


@pytest.mark.parametrize("kind", [Undoing, Both])
def test_a_replay_shows_every_entry(kind) -> None:
    engine = kind(Numbers)
    engine.advance_to(LOG[:5])
    states: list[tuple[int, list[int]]] = []
    engine.replay(
        LOG, EDITS, lambda position, entry: states.append((position, engine.contents.numbers.tolist()))
    )
    assert [position for position, _ in states] == list(range(len(LOG)))
    assert states[8][1] != fresh(LOG[:9], ())[1]
    assert states[-1][1] == fresh(LOG, EDITS)[1]


def test_nothing_is_made_before_somebody_asks() -> None:
    engine = Replay(Numbers)
    assert not engine.is_made
    assert (engine.position, engine.edits, engine.hazards) == (0, (), [])
    assert not engine.is_made
    assert engine.contents.numbers.sum() == 0
    assert engine.is_made


def test_hazards_are_bounded() -> None:
    engine = Replay(Numbers)
    engine.advance_to(np.zeros(MAX_HAZARDS + 5, np.int64))
    assert len(engine.hazards) == MAX_HAZARDS
    assert engine.hazards[-1].position == MAX_HAZARDS - 1


def test_of_too_many_states_every_other_goes() -> None:
    snapshots = Snapshots(4, 1 << 30)
    shared = Kept(np.zeros(10))
    for position in (5, 1, 3, 2, 4, 4):
        snapshots.take(Snapshot((position, 0), shared, ()))
    found = [best.place[0] for limit in range(1, 6) if (best := snapshots.best((limit, 0))) is not None]
    assert found == sorted(found)
    assert found[-1] == 5
    assert len(set(found)) < 5
    snapshots.drop_after((3, 0))
    best = snapshots.best((9, 9))
    assert best is None or best.place[0] <= 3


def test_states_that_hold_too_much_go() -> None:
    snapshots = Snapshots(64, 200)
    for position in range(8):
        snapshots.take(Snapshot((position, 0), Kept(np.zeros(10)), ()))
    assert snapshots.best((0, 0)) is None
    last = snapshots.best((7, 0))
    assert last is not None
    assert last.place == (7, 0)
