"""The stretch of a run that is run again to see what it touches, where only a running machine knows that."""

from collections.abc import Callable, Iterable

from npuviz.debug.session import Session
from npuviz.sim.access_order import RecordedAccesses, RecordsAccesses

MOST_WORK = 1 << 20
"""Pieces of work of a stretch: some seconds and 100 MB. Longer runs are followed around the present cycle."""
_PARTS = 256
"""Parts of a span whose work is asked for on one way through it: a way costs more than what is asked."""
_CLOSE = 8
"""An end of a stretch may be off by this part of MOST_WORK: closer would take another way through the run."""


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

    def work(cycles: Iterable[int]) -> dict[int, int]:
        rising = sorted({*cycles})
        return dict(zip(rising, session.at_cycles(rising, machine.work_so_far), strict=True))

    known = work([*_parts_of(low, high), now])
    before, behind = known[now] - MOST_WORK // 2, known[now] + MOST_WORK // 2 + 1
    if known[high] - known[low] <= MOST_WORK:
        return low, high
    if known[low] < before:
        last, low = _where(before, known, (low, now), work)
        low = last if low == now else low
    if known[high] >= behind:
        high, _ = _where(behind, known, (now, high), work)
    return low, high


def _parts_of(low: int, high: int) -> list[int]:
    """Cycles that part a span, with its ends."""
    return [low + (high - low) * part // _PARTS for part in range(_PARTS + 1)]


def _where(
    goal: int,
    known: dict[int, int],
    span: tuple[int, int],
    work: Callable[[Iterable[int]], dict[int, int]],
) -> tuple[int, int]:
    """The last cycle of a span known to have less work than `goal`, and the next one that is known."""
    low, high = span
    while True:
        cycles = sorted(cycle for cycle in known if low <= cycle <= high)
        high = next(cycle for cycle in cycles if known[cycle] >= goal)
        low = max(cycle for cycle in cycles if cycle < high)
        if high - low <= 1 or known[high] - known[low] <= MOST_WORK // _CLOSE:
            return low, high
        known.update(work(_parts_of(low, high)[1:-1]))
