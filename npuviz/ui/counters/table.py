"""The table model of counters."""

from dataclasses import dataclass

from npuviz.base.units import format_count
from npuviz.trace.reader import TraceReader
from npuviz.ui.kit.row_model import RowModel

NAME, NOW, LOWEST, MEAN, HIGHEST, LIMIT, MEASURE = range(7)


@dataclass(frozen=True, slots=True)
class CounterRow:
    """A counter track: its value at the cursor, and its values in a range of cycles; limit 0: none."""

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
    """Return the rows of all counters of a trace: value at a cycle, and values in a window of cycles."""
    low, high = window
    rows: list[CounterRow] = []
    for track in reader.schema.tracks:
        if track.kind != "counter":
            continue
        lowest, mean, highest = reader.counter_values(track.id, low, high)
        rows.append(
            CounterRow(
                track.id, track.name, reader.value_at(track.id, cycle), lowest, mean, highest,
                track.maximum, track.measure, track.doc,
            )
        )  # fmt: skip
    return rows
