"""Counters as rows of a table."""

from dataclasses import dataclass

from npuviz.base.units import format_count
from npuviz.trace.reader import TraceReader
from npuviz.ui.kit.row_model import RowModel

NAME, NOW, LOWEST, MEAN, HIGHEST, LIMIT, MEASURE = range(7)


@dataclass(frozen=True, slots=True)
class CounterRow:
    """A counter track: its value at the cursor, and what it was in a range of cycles; limit 0 is none."""

    track: int
    name: str
    now: int
    lowest: int
    mean: float
    highest: int
    limit: int
    measure: str
    doc: str


class CounterTable(RowModel[CounterRow]):
    """Counters in the order of the timeline."""

    titles = ("Counter", "Now", "Lowest", "Mean", "Highest", "Limit", "Measure")
    numbers = (NOW, LOWEST, MEAN, HIGHEST, LIMIT)

    def text(self, row: CounterRow, column: int) -> str:
        limit = format_count(row.limit) if row.limit else ""
        now, lowest, highest = (format_count(value) for value in (row.now, row.lowest, row.highest))
        mean = f"{row.mean:.1f}" if row.mean < 1000 else format_count(round(row.mean))
        return (row.name, now, lowest, mean, highest, limit, row.measure)[column]

    def tooltip(self, row: CounterRow, column: int) -> str:
        return f"{row.name}: {row.doc}" if row.doc else row.name


def counter_rows(reader: TraceReader, cycle: int, window: tuple[int, int]) -> list[CounterRow]:
    """All counters of a trace, with what they were in a window of cycles."""
    low, high = window
    rows: list[CounterRow] = []
    for track in reader.schema.tracks:
        if track.kind != "counter":
            continue
        _, lowest, highest, _ = reader.counter(track.id, (low, high), 1)
        rows.append(
            CounterRow(
                track.id, track.name, reader.value_at(track.id, cycle), int(lowest[0]),
                _mean(reader, track.id, low, high), int(highest[0]), track.maximum, track.measure, track.doc,
            )
        )  # fmt: skip
    return rows


def _mean(reader: TraceReader, track: int, low: int, high: int) -> float:
    """Mean value over the cycles [low, high), each cycle counting alike."""
    columns = reader.counter_columns(track)
    # The value that holds at the beginning, and the changes after it.
    first = max(int(columns.cycle.searchsorted(low, side="right")) - 1, 0)
    behind = int(columns.cycle.searchsorted(high))
    cycles, values = columns.cycle[first:behind], columns.value[first:behind]
    if not len(cycles) or high <= low:
        return 0.0
    begins = cycles.clip(low, high)
    lengths = [*(begins[1:] - begins[:-1]).tolist(), high - int(begins[-1])]
    return float(sum(v * n for v, n in zip(values.tolist(), lengths, strict=True))) / (high - low)
