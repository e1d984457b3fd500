"""The stretch of a run that is run again to see what it touches, where only a running machine knows that."""

from bisect import bisect_left, bisect_right

from npuviz.debug.session import Session
from npuviz.sim.access_order import RecordedAccesses, RecordsAccesses

MOST_WORK = 1 << 20
"""Pieces of work of a stretch: some seconds and 100 MB. Longer runs are followed around the present cycle."""


def recorded_accesses(session: Session, machine: RecordsAccesses, until: int) -> RecordedAccesses:
    """What the run touched up to a cycle; where that is too much, before and behind the present cycle.

    What was written by hand is not touched by anybody: a stretch does not go over it.
    Raises Cancelled when interrupted, TargetError where the stretch touches too much.
    """
    begin, end = _stretch(session, machine, until)
    return session.at_cycle(begin, lambda: machine.record_accesses(end))


def _stretch(session: Session, machine: RecordsAccesses, until: int) -> tuple[int, int]:
    now = session.cycle
    low, high = 0, until
    for cycle in session.edits.cycles:
        if cycle <= now:
            low = cycle
        elif cycle < high:
            high = cycle
    done: dict[int, int] = {}

    def work(cycle: int) -> int:
        if cycle not in done:
            done[cycle] = session.at_cycle(cycle, machine.work_so_far)
        return done[cycle]

    if work(high) - work(low) <= MOST_WORK:
        return low, high
    if work(now) - work(low) > MOST_WORK // 2:
        span = range(low, now)
        low = span[min(bisect_left(span, work(now) - MOST_WORK // 2, key=work), len(span) - 1)]
    if work(high) - work(now) > MOST_WORK // 2:
        span = range(now, high)
        high = span[max(bisect_right(span, work(now) + MOST_WORK // 2, key=work) - 1, 0)]
    return low, high
