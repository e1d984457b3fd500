"""Find the fastest partition in which the Host has at most a share of the time."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.targets.rk3588.compiler.partition.sides import Question, Times, best_sides

ALIKE = 0.069
"""Share of a time by which two times count as alike: as much as modelled times of layers differ from measured
ones in the mean. Ref: docs/rk3588.md (31 published convolutions)."""
_WEIGHTS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0)
"""How many times as much the Host's cycles count, to find partitions with fewer of them."""
MOST_MOVES = 64
"""Most runs of layers of which each is moved alone, to see what that costs."""


@dataclass(frozen=True, slots=True)
class Found:
    """A partition: places of the layers that the Host runs, its times, and those of the fastest one."""

    sides: frozenset[int]
    times: Times
    least: Times


def within_share(question: Question, share: float, price: float) -> Found:
    """Return the fastest partition found in which the Host has at most a share of the time.

    It is the one of least time if that is within the share; a share that is nearly reached (ALIKE) counts, if
    none is. With a Host that counts more and more, cuts give partitions with ever less of it; between two of
    them, runs of layers are moved to the NPU, the dearest for the Host per added cycle first. If no partition
    is within the share that takes at most `price` times as long as the fastest one, it is the nearest to the
    share that is worth its time (`_nearest`).
    """
    best = best_sides(question)
    least = question.times(best)
    for limit in (share, share * (1 + ALIKE)):
        if least.share <= limit:
            return Found(best, least, least)
        found = _fastest(question, best, limit)
        if found is not None and question.times(found).total <= price * least.total:
            return Found(found, question.times(found), least)
    nearest = _nearest(question, best, share, price)
    return Found(nearest, question.times(nearest), least)


def _nearest(question: Question, best: frozenset[int], share: float, price: float) -> frozenset[int]:
    """Return the fastest of the partitions found that are worth their time and have as little on the Host as
    any of these (ALIKE).

    What may be paid is in proportion: as much of `price` beyond 1 as the partition takes off what the fastest
    one has beyond the share. What takes as long as the fastest one (ALIKE) is worth it in any case.
    """
    least = question.times(best)
    cuts = [best, *(best_sides(question.with_dearer_host(weight)) for weight in _WEIGHTS)]
    cuts.append(frozenset(_forced(question)))
    timed = [(question.times(sides), sides) for sides in dict.fromkeys(cuts)]
    worth = [
        (times, sides)
        for times, sides in timed
        if times.total <= least.total * max(1 + ALIKE, 1 + (price - 1) * _part(times, least, share))
    ]
    lowest = min(times.share for times, _ in worth)
    alike = [each for each in worth if each[0].share <= (1 + ALIKE) * lowest]
    return min(alike, key=lambda each: each[0].total)[1]


def _part(times: Times, least: Times, share: float) -> float:
    """Return which part of what the fastest partition has beyond a share another one has not, 0 to 1."""
    return min(1.0, max(0.0, (least.share - times.share) / (least.share - share)))


def _fastest(question: Question, best: frozenset[int], share: float) -> frozenset[int] | None:
    """Return the fastest partition found within a share, None if none is. best  that of least time"""
    below, above = _around(question, best, share)
    candidates = [] if above is None else [above]
    ends = above if above is not None else frozenset(_forced(question))
    candidates += [*_between(question, below, ends, share), ends]
    timed = [(question.times(sides), sides) for sides in candidates]
    within = [(times.total, number) for number, (times, _) in enumerate(timed) if times.share <= share]
    return timed[min(within)[1]][1] if within else None


def _forced(question: Question) -> list[int]:
    return [place for place, choice in enumerate(question.choices) if choice.npu is None]


def _around(
    question: Question, best: frozenset[int], share: float
) -> tuple[frozenset[int], frozenset[int] | None]:
    """Return the cuts next to a share: the last one with more of the Host, and the first within the share,
    None if none is."""
    below, above = best, None
    low, high = 0, len(_WEIGHTS) - 1
    while low <= high:
        # Most models that need it find it among the first weights.
        middle = (low + high) // 2
        tried = best_sides(question.with_dearer_host(_WEIGHTS[middle]))
        if question.times(tried).share <= share:
            above, high = tried, middle - 1
        else:
            below, low = tried, middle + 1
    return below, above


def _between(
    question: Question, below: frozenset[int], above: frozenset[int], share: float
) -> list[frozenset[int]]:
    """Return partitions within a share between one beyond it and one with fewer layers on the Host."""
    start = question.times(below)
    runs = _runs(question.order(below), below - above)
    worth: list[tuple[float, int]] = []
    for number, run in enumerate(runs):
        times = question.times(below - run)
        if times.host < start.host:
            worth.append(((times.total - start.total) / (start.host - times.host), number))
    order = [runs[number] for _, number in sorted(worth)]
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if question.times(below.difference(*order[: middle + 1])).share <= share:
            high = middle
        else:
            low = middle + 1
    if low == len(order):
        return []
    found = below.difference(*order[: low + 1])
    # What the last run brought may make earlier ones unnecessary.
    for run in reversed(order[:low]):
        times = question.times(found | run)
        if times.share <= share and times.total < question.times(found).total:
            found |= run
    return [found]


def _runs(order: Sequence[int], places: frozenset[int]) -> list[frozenset[int]]:
    """Return places grouped by neighbours in an order; some groups together if there are many."""
    runs: list[list[int]] = []
    last = -2
    for number, place in enumerate(order):
        if place in places:
            if number != last + 1:
                runs.append([])
            runs[-1].append(place)
            last = number
    size = -(-len(runs) // MOST_MOVES) or 1
    return [
        frozenset(place for run in runs[first : first + size] for place in run)
        for first in range(0, len(runs), size)
    ]
