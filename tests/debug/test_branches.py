"""Futures that writes replaced: every one of them can be gone to, and is the run that it was."""

import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.debug.session import Session
from npuviz.sim.stop import StopKind
from tests.toy.program import DRAM
from tests.toy.session import make_session

END = 767  # of 8 blocks


def _digests(session: Session) -> dict[int, str]:
    """Digests of a run at some cycles, asked in an order that jumps."""
    found: dict[int, str] = {}
    for cycle in (600, 50, 301, END, 300, 10):
        session.go_to(cycle)
        found[session.cycle] = session.machine.digest()
    return found


def test_an_old_future_is_the_run_that_it_was() -> None:
    plain = _digests(make_session())
    session = make_session(cycle_seconds=0.0005)
    session.run()
    session.go_to(300)
    session.write_memory(DRAM, 0x10, b"\xff" * 16)
    assert [branch.known_to for branch in session.branches] == [END]
    written = _digests(session)
    assert written[10] == plain[10]
    assert written[END] != plain[END]
    for _ in range(2):
        session.switch(session.branches[-1].id)
        assert _digests(session) == plain
        session.switch(session.branches[-1].id)
        assert _digests(session) == written
    assert len(session.branches) == 1


def test_a_switch_leads_to_where_the_branch_was_left() -> None:
    session = make_session()
    session.run()
    session.go_to(400)
    before = session.machine.digest()
    session.write_memory(DRAM, 0x10, b"\x01")
    session.run(500)
    reason = session.switch(1)
    assert (reason.kind, session.cycle, session.machine.digest()) == (StopKind.UNTIL, 400, before)
    assert session.end_cycle == END
    (left,) = session.branches
    assert (left.cycle, left.known_to, left.end) == (500, 500, None)


def test_writes_before_anything_lies_ahead_make_no_branch() -> None:
    session = make_session()
    session.run(100)
    session.write_memory(DRAM, 0x10, b"\x01")
    session.write_memory(DRAM, 0x11, b"\x01")
    assert session.branches == ()
    session.run(200)
    session.restart()
    (kept,) = session.branches
    assert [cycle for cycle, _ in kept.edits.all] == [100, 100]
    session.switch(kept.id)
    assert session.cycle == 200
    assert session.is_edited


def test_writes_in_the_first_cycle_part_there() -> None:
    plain = _digests(make_session())
    session = make_session()
    session.run()
    session.go_to(0)
    session.write_memory(DRAM, 0x10, b"\x07")
    session.run()
    assert session.branches[0].parts_at(session.edits) == 0
    session.switch(session.branches[0].id)
    assert _digests(session) == plain
    session.switch(session.branches[0].id)
    assert _digests(session) != plain


def test_later_writes_of_the_old_future_come_back() -> None:
    session = make_session()
    session.run(300)
    session.write_memory(DRAM, 0x10, b"\x05")
    session.run(400)
    session.write_memory(DRAM, 0x20, b"\x06")
    session.run()
    wanted = session.machine.digest()
    session.go_to(200)
    session.write_memory(DRAM, 0x30, b"\x09")
    session.run()
    assert session.machine.digest() != wanted
    session.switch(session.branches[0].id)
    session.run()
    assert session.machine.digest() == wanted


def test_a_run_apart_leaves_everything_as_it_is() -> None:
    straight = make_session()
    straight.run()
    session = make_session()
    session.run()
    session.go_to(300)
    session.write_memory(DRAM, 0x10, b"\xff" * 16)
    session.run(450)
    digest, events = session.machine.digest(), session.recorder.num_events if session.recorder else 0
    found = session.run_apart(1, session.machine.digest)
    assert found.seen == straight.machine.digest()
    assert (session.machine.digest(), session.cycle) == (digest, 450)
    assert session.recorder is not None
    assert session.recorder.num_events == events
    assert straight.trace is not None
    for track in session.description.tracks:
        if track.kind == "interval":
            mine, theirs = (each.interval_columns(track.id) for each in (found.trace, straight.trace))
            assert np.array_equal(mine.start, theirs.start)
            assert np.array_equal(mine.end, theirs.end)


def test_unknown_branches_are_one_line_and_only_so_many_are_kept() -> None:
    session = make_session()
    session.run()
    with pytest.raises(UsageError, match="no branch 1; there are none"):
        session.switch(1)
    for value in range(20):
        session.go_to(100)
        session.write_memory(DRAM, 0x10, bytes([value]))
        session.run(120)
    assert len(session.branches) == 16
    assert session.branches[-1].id == 20
