"""Measure a range of cycles: how units spent it, totals per category, extremes of counters."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.base.units import format_count, format_cycles_as_time, format_share
from npuviz.trace.schema import Track
from npuviz.trace.unit_times import UnderWay, time_of_tracks
from npuviz.ui.timeline.index import TimelineIndex

MAX_KINDS = 7


@dataclass(frozen=True, slots=True)
class Share:
    """One line of a measurement: a category, its cycles, and their fraction of the units' time."""

    category: int
    name: str
    cycles: int
    fraction: float


@dataclass(frozen=True, slots=True)
class CounterValues:
    """Smallest, time-weighted mean and largest value of a counter."""

    name: str
    low: int
    mean: float
    high: int
    measure: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """A range of cycles and what happened in it.

    num_units      units whose tracks are measured; a track that belongs to no unit counts as one
    busy, waiting  fractions of the units' time; the rest is idle
    shares         largest first
    """

    first: int
    last: int
    num_tracks: int
    num_units: int
    busy: float
    waiting: float
    shares: tuple[Share, ...]
    counters: tuple[CounterValues, ...]
    frequency_hz: float
    num_counters: int = 0

    @property
    def tracks_text(self) -> str:
        """Text of how many tracks the range covers, or how many counters if it has only these."""
        count, word = (self.num_tracks, "track") if self.num_tracks else (self.num_counters, "counter")
        return f"{format_count(count)} {word}" if count == 1 else f"{format_count(count)} {word}s"

    @property
    def parts_text(self) -> str:
        """Text of the busy, waiting and idle parts of the units' time, in percent."""
        idle = 1.0 - self.busy - self.waiting
        waiting = f"{format_share(self.waiting)} waiting, " if self.waiting else ""
        return f"{format_share(self.busy)} busy, {waiting}{format_share(max(idle, 0.0))} idle"

    def title(self) -> str:
        """Return the length in cycles and as a time."""
        length = self.last - self.first
        time = format_cycles_as_time(length, self.frequency_hz)
        text = f"{format_count(length)} cycles"
        return f"{text}  =  {time}" if time else text

    def as_csv(self) -> str:
        """Return busy, waiting and all shares as CSV (name, cycles, fraction); counters are not in it."""
        lines = ["name,cycles,fraction"]
        whole = (self.last - self.first) * self.num_units
        for name, part in (("busy", self.busy), ("waiting", self.waiting)):
            lines.append(f'"{name}",{round(part * whole)},{part:.6f}')
        lines += [f'"{share.name}",{share.cycles},{share.fraction:.6f}' for share in self.shares]
        return "\n".join(lines) + "\n"


def measure(
    index: TimelineIndex,
    tracks: Sequence[Track],
    first: int,
    last: int,
    under_way: Sequence[UnderWay] = (),
) -> Measurement:
    """Measure [first, last) on some tracks; of the counters only the first three."""
    intervals = [track.id for track in tracks if track.kind == "interval"]
    counters = [track for track in tracks if track.kind == "counter"]
    amounts = index.busy(intervals, first, last)
    owned: dict[tuple[int, int], list[int]] = {}
    for track in tracks:
        if track.kind == "interval":
            key = (track.unit, -1) if track.unit >= 0 else (-1, track.id)
            owned.setdefault(key, []).append(track.id)
    times = [time_of_tracks(index.reader, each, (first, last), under_way) for each in owned.values()]
    whole = max(last - first, 1) * max(len(owned), 1)
    categories = index.categories
    shares = sorted(
        (
            Share(number, categories.names[number], round(amount), amount / whole)
            for number, amount in amounts.items()
        ),
        key=lambda share: (-share.cycles, share.name),
    )
    values = tuple(_counter(index, track, first, last) for track in counters[:3])
    return Measurement(
        first,
        last,
        len(intervals),
        len(owned),
        sum(time.busy for time in times) / whole,
        sum(time.waiting for time in times) / whole,
        tuple(shares),
        values,
        index.reader.schema.frequency_hz,
        len(counters),
    )


def _counter(index: TimelineIndex, track: Track, first: int, last: int) -> CounterValues:
    return CounterValues(track.name, *index.reader.counter_values(track.id, first, last), track.measure)
