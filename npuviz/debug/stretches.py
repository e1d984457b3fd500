"""Choose the stretch of a run that is run again to record its accesses,
for machines that know them only then."""

from collections.abc import Callable, Iterable

from npuviz.debug.session import Session
from npuviz.sim.access_order import RecordedAccesses, RecordsAccesses

MOST_WORK = 1 << 20
"""Most pieces of work of a stretch: some seconds and 100 MB.
Of longer runs the part around now is followed."""
_PARTS = 256
"""Number of parts of a span whose work is counted in one pass through it:
a pass costs more than the counts."""
_CLOSE = 8
"""The ends of a stretch may be off by MOST_WORK divided by this: a closer search would take another pass."""


def recorded_accesses(session: Session, machine: RecordsAccesses, until: int) -> RecordedAccesses:
    """Return what the run touched up to a cycle; if that is too much, around the present cycle only.

    Bytes written by hand are no work of the run, so that a stretch begins or ends at the cycle of an edit.
    Raises Cancelled when interrupted, TargetError if the stretch touches too much.
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
    """Return cycles that divide a span into _PARTS parts, with its ends."""
    return [low + (high - low) * part // _PARTS for part in range(_PARTS + 1)]


def _where(
    goal: int,
    known: dict[int, int],
    span: tuple[int, int],
    work: Callable[[Iterable[int]], dict[int, int]],
) -> tuple[int, int]:
    """Return the last known cycle of a span with less work than `goal`, and the next known cycle."""
    low, high = span
    while True:
        cycles = sorted(cycle for cycle in known if low <= cycle <= high)
        high = next(cycle for cycle in cycles if known[cycle] >= goal)
        low = max(cycle for cycle in cycles if cycle < high)
        if high - low <= 1 or known[high] - known[low] <= MOST_WORK // _CLOSE:
            return low, high
        known.update(work(_parts_of(low, high)[1:-1]))
