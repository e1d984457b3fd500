import pytest

from npuviz.base.errors import ConditionError
from tests.toy.session import make_session


def test_ids_rise_and_are_not_used_again() -> None:
    breakpoints = make_session().breakpoints
    changes: list[int] = []
    breakpoints.changed.subscribe(lambda: changes.append(len(breakpoints.all)))
    first, second = breakpoints.add("cycle == 1"), breakpoints.add(" op shift ")
    assert (first.id, second.id, second.text) == (1, 2, "op shift")
    breakpoints.remove(second.id)
    assert breakpoints.add("cycle == 2").id == 3
    assert [item.id for item in breakpoints.all] == [1, 3]
    assert breakpoints.get(2) is None
    assert breakpoints.get(3) is not None
    assert changes == [1, 2, 1, 2]


def test_a_wrong_condition_adds_nothing() -> None:
    breakpoints = make_session().breakpoints
    with pytest.raises(ConditionError):
        breakpoints.add("op nothing")
    assert breakpoints.all == ()
    with pytest.raises(KeyError):
        breakpoints.remove(1)
    with pytest.raises(KeyError):
        breakpoints.set_enabled(1, False)


def test_watch_holds_the_enabled_ones() -> None:
    breakpoints = make_session().breakpoints
    breakpoints.add("instr 4 or cycle == 9")
    breakpoints.add("cycle == 7")
    breakpoints.add("cycle == 7 or Core[0].LD.latency > 1")
    breakpoints.set_enabled(2, False)
    watch = breakpoints.watch()
    assert watch.rows.shape == (1, 6)
    assert watch.rows[0, 5] == 1
    assert watch.cycles == ((7, 3), (9, 1))
    assert [breakpoint_id for _, breakpoint_id in watch.probes] == [3]
    assert (watch.next_cycle(6), watch.next_cycle(7), watch.next_cycle(9)) == (7, 9, None)
    assert watch.ids_at(7) == {3}
