import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from npuviz.base.errors import ExportError
from npuviz.base.progress import NoProgress
from npuviz.export import tables
from npuviz.export.tables import CSV, PARQUET
from npuviz.trace.reader import TraceReader
from tests.trace import recordings
from tests.trace.recordings import SCHEMA, random_events, record

ROWS = random_events(7, 90)
READER = TraceReader(record(ROWS).store)


def expected_slices(low: int, high: int) -> list[tuple[str, str, str, str, int, int, int, int]]:
    kinds = {kind.id: kind for kind in SCHEMA.kinds}
    return [
        (
            SCHEMA.tracks[track].name,
            kinds[kind].name,
            kinds[kind].role,
            f"node {instruction % recordings.NUM_NODES}" if instruction >= 0 else "",
            start,
            end,
            end - start,
            instruction,
        )
        for track in recordings.INTERVAL_TRACKS
        for start, end, kind, instruction in recordings.intervals_of(ROWS, track)
        if end > low and start < high
    ]


COLUMNS = ("track", "kind", "role", "node", "start", "end", "cycles", "instruction")


@pytest.mark.parametrize("window", [None, (40, 200)])
def test_slices_as_csv(
    tmp_path: Path, window: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BATCH_ROWS", 17)
    CSV.export(READER, window, tmp_path / "out.csv", NoProgress())
    with open(tmp_path / "out.csv", newline="") as file:
        found = [tuple(row[name] for name in COLUMNS) for row in csv.DictReader(file)]
    expected = expected_slices(*(window or (-1, 1 << 40)))
    assert found == [tuple(str(value) for value in row) for row in expected]


def test_all_tables_as_parquet(tmp_path: Path) -> None:
    PARQUET.export(READER, None, tmp_path / "out", NoProgress())
    slices = pq.read_table(tmp_path / "out" / "slices.parquet")
    found = list(zip(*(slices.column(name).to_pylist() for name in COLUMNS), strict=True))
    assert found == expected_slices(-1, 1 << 40)
    counters = pq.read_table(tmp_path / "out" / "counters.parquet").to_pylist()
    assert [(row["cycle"], row["value"]) for row in counters if row["measure"] == "bytes"] == (
        recordings.counter_of(ROWS, 3)
    )
    flows = pq.read_table(tmp_path / "out" / "flows.parquet").to_pylist()
    assert sorted(tuple(row.values()) for row in flows) == sorted(recordings.flows_of(ROWS))
    lifetimes = pq.read_table(tmp_path / "out" / "lifetimes.parquet").to_pylist()
    places = sorted((row["memory"], row["start"], row["end"], row["instruction"]) for row in lifetimes)
    assert places == sorted(
        (name, start, end, instruction)
        for memory, (name, _) in enumerate(SCHEMA.memory_names)
        for start, end, instruction, _ in recordings.lifetimes_of(ROWS, memory)
    )


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot"):
        CSV.export(READER, None, tmp_path / "file", NoProgress())
    with pytest.raises(ExportError, match="cannot"):
        CSV.export(READER, None, tmp_path / "file" / "out.csv", NoProgress())
