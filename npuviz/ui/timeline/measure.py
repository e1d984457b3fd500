"""Plain numbers for a range of cycles: busy shares, totals per kind, extremes of counters."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.base.units import format_count, format_cycles_as_time
from npuviz.trace.schema import Track
from npuviz.ui.timeline.index import TimelineIndex

MAX_KINDS = 7


@dataclass(frozen=True, slots=True)
class Share:
    """One line of a measurement: a category, its busy cycles, and their part of the whole range."""

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

    busy    work cycles of all tracks together / (length x tracks); shares largest first
    """

    first: int
    last: int
    num_tracks: int
    busy: float
    shares: tuple[Share, ...]
    counters: tuple[CounterValues, ...]
    frequency_hz: float
    num_counters: int = 0

    @property
    def tracks_text(self) -> str:
        """How many tracks, or counters where there is nothing else, the range takes in."""
        count, word = (self.num_tracks, "track") if self.num_tracks else (self.num_counters, "counter")
        return f"{format_count(count)} {word}" if count == 1 else f"{format_count(count)} {word}s"

    def title(self) -> str:
        """Length in cycles and as a time."""
        length = self.last - self.first
        time = format_cycles_as_time(length, self.frequency_hz)
        text = f"{format_count(length)} cycles"
        return f"{text}  =  {time}" if time else text

    def as_csv(self) -> str:
        """The same numbers for a spreadsheet."""
        lines = ["name,cycles,fraction"]
        lines += [f'"{share.name}",{share.cycles},{share.fraction:.6f}' for share in self.shares]
        return "\n".join(lines) + "\n"


def measure(index: TimelineIndex, tracks: Sequence[Track], first: int, last: int) -> Measurement:
    """Count what the tracks did in [first, last)."""
    intervals = [track.id for track in tracks if track.kind == "interval"]
    counters = [track for track in tracks if track.kind == "counter"]
    amounts = index.busy(intervals, first, last)
    whole = max(last - first, 1) * max(len(intervals), 1)
    categories = index.categories
    shares = sorted(
        (
            Share(number, categories.names[number], round(amount), amount / whole)
            for number, amount in amounts.items()
        ),
        key=lambda share: (-share.cycles, share.name),
    )
    work = sum(amount for number, amount in amounts.items() if categories.is_work[number])
    values = tuple(_counter(index, track, first, last) for track in counters[:3])
    return Measurement(
        first,
        last,
        len(intervals),
        work / whole,
        tuple(shares),
        values,
        index.reader.schema.frequency_hz,
        len(counters),
    )


def _counter(index: TimelineIndex, track: Track, first: int, last: int) -> CounterValues:
    return CounterValues(track.name, *index.reader.counter_values(track.id, first, last), track.measure)
