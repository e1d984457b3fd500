import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.errors import SimulationError
from npuviz.trace import store as store_module
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder
from npuviz.trace.schema import COUNTER, FLOW, INTERVAL, LIFETIME, TYPE_SHIFT
from npuviz.trace.store import TraceStore
from tests.trace.recordings import (
    COUNTER_TRACKS,
    INTERVAL_TRACKS,
    SCHEMA,
    Buffer,
    Instructions,
    random_events,
    record,
    row,
)


def contents(reader: TraceReader) -> list[object]:
    """Everything a trace holds, as plain values."""
    end = reader.end_cycle + 1
    found: list[object] = [reader.end_cycle, reader.num_intervals]
    for track in (*INTERVAL_TRACKS, 5):
        columns = reader.interval_columns(track)
        names = ("start", "end", "kind", "node", "instruction")
        found += [getattr(columns, name).tolist() for name in names]
        found += [part.tolist() for part in reader.utilization(track, (0, end), 37)]
        found.append(reader.intervals(track, (0, end), end / 20).tolist())
    for track in (*COUNTER_TRACKS, 6):
        found += [part.tolist() for part in reader.counter(track, (0, end), 11)]
        found.append(reader.counter_columns(track).cycle.tolist())
    found.append(sorted(reader.flows((0, end), 10**6).tolist()))
    found += [sorted(reader.lifetimes(memory, (0, end)).tolist()) for memory in (0, 1)]
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([5, 60, 300]), st.integers(2, 9))
def test_recording_in_pieces_changes_nothing(seed: int, size: int, chunks: int) -> None:
    rows = random_events(seed, size)
    at_once = TraceReader(record(rows).store)
    recorder = Recorder(SCHEMA, Instructions())
    reader = TraceReader(recorder.store)
    for piece in np.array_split(rows, chunks):
        record(piece, 1, recorder)
        contents(reader)  # a reader in between must not disturb what follows
    assert contents(reader) == contents(at_once)
    assert recorder.num_events == recorder.store.num_events == len(rows)


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_events(3, 400)
    expected = contents(TraceReader(record(rows).store))
    monkeypatch.setattr(store_module, "BLOCK_ROWS", 64)
    monkeypatch.setattr("npuviz.trace.split.BATCH_ROWS", 50)
    assert contents(TraceReader(record(rows, 7).store)) == expected


@pytest.mark.parametrize(("limit", "splits"), [(2, True), (100, False)])
def test_recording_splits_only_when_too_much_waits(
    monkeypatch: pytest.MonkeyPatch, limit: int, splits: bool
) -> None:
    monkeypatch.setattr(store_module, "BLOCK_ROWS", 64)
    monkeypatch.setattr(store_module, "max_raw_blocks", lambda: limit)
    calls: list[int] = []
    absorb = TraceStore.absorb
    monkeypatch.setattr(TraceStore, "absorb", lambda self: (calls.append(1), absorb(self))[1])
    rows = random_events(3, 400)
    recorder = record(rows, 7)
    assert bool(calls) == splits
    assert recorder.store.num_events == len(rows)


def test_rows_may_wait_in_a_part_of_the_memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    block = store_module.BLOCK_ROWS * 32
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 20 * block * store_module.RAW_SHARE // 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    assert store_module.max_raw_blocks() == 20
    pages["SC_PHYS_PAGES"] = 1
    assert store_module.max_raw_blocks() == store_module.FEWEST_RAW_BLOCKS
    pages["SC_PHYS_PAGES"] = 1 << 40
    assert store_module.max_raw_blocks() == store_module.MOST_RAW_BLOCKS


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([5, 60, 200]), st.integers(0, 1200), st.integers(0, 40))
def test_cut_history_can_be_recorded_again(seed: int, size: int, cycle: int, overlap: int) -> None:
    rows = random_events(seed, size)
    expected = contents(TraceReader(record(rows).store))
    recorder = record(rows, 2)
    before = TraceReader(recorder.store).interval_columns(1)
    frozen = before.start.tolist()
    recorder.truncate(cycle)
    assert recorder.num_events < len(rows) or cycle >= expected[0] - 1  # type: ignore[operator]
    assert all(
        np.all(TraceReader(recorder.store).interval_columns(track).end <= cycle) for track in INTERVAL_TRACKS
    )
    store, views = recorder.store, [TraceReader(recorder.store).interval_columns(t) for t in INTERVAL_TRACKS]
    assert store.last_starts(INTERVAL_TRACKS) == [int(v.start[-1]) if len(v) else -1 for v in views]
    assert store._last_end == store._find_last_end()
    # The machine runs again from an earlier checkpoint and repeats what is known.
    again = rows[np.array([happened_at(words) >= cycle - overlap for words in rows.tolist()], dtype=bool)]
    record(again, 3, recorder)
    assert contents(TraceReader(recorder.store)) == expected
    assert before.start.tolist() == frozen


def happened_at(words: list[int]) -> int:
    head, first, second, _ = words
    return second if head >> TYPE_SHIFT in (INTERVAL, LIFETIME) else first


BAD_ROWS = [
    row(INTERVAL, 99, 0, 0, 1, -1),
    row(INTERVAL, 2, 0, 0, 1, -1),
    row(INTERVAL, 0, 6, 0, 1, -1),
    row(INTERVAL, 0, 0, 5, 4, -1),
    row(COUNTER, 0, 0, 0, 1, -1),
    row(LIFETIME, 2, 0, 0, 1, -1),
    row(LIFETIME, 0, 0, 3, 1, -1),
    row(7, 0, 0, 0, 1, -1),
    (-1, 0, 0, 0),
]


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_a_row_that_makes_no_sense_is_a_bug(bad: tuple[int, int, int, int]) -> None:
    recorder = record(np.array([row(INTERVAL, 0, 0, 0, 3, 1), bad], dtype=np.int64))
    with pytest.raises(SimulationError, match="tracks must be known"):
        _ = recorder.store.num_intervals


@pytest.mark.parametrize("second", [row(INTERVAL, 0, 0, 2, 9, 1), row(COUNTER, 2, 0, 3, 9, 1)])
def test_rows_of_a_track_must_rise(second: tuple[int, int, int, int]) -> None:
    first = row(INTERVAL, 0, 0, 0, 3, 1), row(COUNTER, 2, 0, 4, 1, -1)
    recorder = record(np.array([*first, second], dtype=np.int64))
    with pytest.raises(SimulationError, match="rise"):
        _ = recorder.store.num_intervals


def test_late_flows_are_sorted_in() -> None:
    recorder = Recorder(SCHEMA, Instructions())
    record(np.array([row(FLOW, 0, 0, c, c, c + 1) for c in (5, 9, 7)], dtype=np.int64), 1, recorder)
    early = recorder.store.flow_view()
    assert early["cycle"].tolist() == [5, 7, 9]
    record(np.array([row(FLOW, 0, 0, c, c, c + 1) for c in (6, 12)], dtype=np.int64), 1, recorder)
    assert recorder.store.flow_view()["cycle"].tolist() == [5, 6, 7, 9, 12]
    assert early["cycle"].tolist() == [5, 7, 9]


def test_the_horizon_follows_marks_and_cuts() -> None:
    recorder = record(random_events(1, 5))
    recorder.mark(500)
    recorder.mark(400)
    assert (recorder.horizon, recorder.store.end_cycle) == (500, 500)
    recorder.truncate(3)
    assert (recorder.horizon, recorder.store.horizon) == (3, 3)


def test_readers_see_whole_rows_while_a_writer_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BLOCK_ROWS", 300)
    store = TraceStore(SCHEMA, Instructions())
    reader = TraceReader(store)
    rows = np.array([row(INTERVAL, 0, 1, 2 * i, 2 * i + 2, i) for i in range(20_000)], dtype=np.int64)
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        seen = 0
        while not done.is_set() or seen < len(rows):
            columns = reader.interval_columns(0)
            count = len(columns)
            if count < seen or columns.instruction.tolist() != list(range(count)):
                wrong.append(f"{count} rows after {seen}")
                return
            if count and reader.utilization(0, (0, 2 * count), 1)[0][0] != 1.0:
                wrong.append(f"gap within {count} rows")
                return
            seen = count

    thread = threading.Thread(target=read)
    thread.start()
    for begin in range(0, len(rows), 137):
        store.append(rows[begin : begin + 137])
    done.set()
    thread.join()
    assert not wrong
    assert reader.num_intervals == len(rows)


def test_a_recorder_that_keeps_nothing_still_counts() -> None:
    recorder = Recorder(SCHEMA, Instructions(), keeps_in_memory=False)
    buffer = Buffer(random_events(2, 20))
    expected = int(buffer.count[0])
    recorder.drain(buffer)
    assert (recorder.num_events, recorder.store.num_events, int(buffer.count[0])) == (expected, 0, 0)
