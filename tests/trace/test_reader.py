import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.trace.reader import CounterColumns, IntervalColumns, TraceReader
from tests.trace import recordings
from tests.trace.recordings import COUNTER_TRACKS, INTERVAL_TRACKS, NUM_NODES, random_events, record

seeds = st.integers(0, 2**20)
sizes = st.sampled_from([0, 1, 3, 15, 16, 17, 40, 200])
tracks = st.sampled_from(INTERVAL_TRACKS)
counters = st.sampled_from(COUNTER_TRACKS)
windows = st.tuples(st.floats(-20, 2000), st.floats(0.5, 2000)).map(lambda w: (w[0], w[0] + w[1]))
whole_windows = st.tuples(st.integers(-20, 1500), st.integers(1, 1500)).map(lambda w: (w[0], w[0] + w[1]))


def reader_of(seed: int, size: int) -> tuple[np.ndarray, TraceReader]:
    rows = random_events(seed, size)
    return rows, TraceReader(record(rows, 3).store)


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, tracks, windows, st.integers(1, 70), st.booleans())
def test_utilization_is_exact(
    seed: int, size: int, track: int, window: tuple[float, float], columns: int, only_work: bool
) -> None:
    rows, reader = reader_of(seed, size)
    kinds = [0, 1, 5] if only_work else None
    covered, dominant = reader.utilization(track, window, columns, kinds)
    step = (window[1] - window[0]) / columns
    for c in range(columns):
        left, right = window[0] + step * c, window[0] + step * (c + 1)
        by_kind: dict[int, float] = {}
        for start, end, kind, _ in recordings.intervals_of(rows, track):
            part = min(end, right) - max(start, left)
            if part > 0 and (kinds is None or kind in kinds):
                by_kind[kind] = by_kind.get(kind, 0.0) + part
        assert covered[c] == pytest.approx(sum(by_kind.values()) / step, abs=1e-5)
        if by_kind and max(by_kind.values()) > 1e-6:
            assert by_kind[int(dominant[c])] == pytest.approx(max(by_kind.values()))


@settings(max_examples=60, deadline=None)
@given(
    seeds.map(lambda seed: 2 * seed), sizes, tracks, windows, st.sampled_from([0.01, 1.0, 5.0, 37.5, 1000.0])
)
def test_intervals_are_all_there_once(
    seed: int, size: int, track: int, window: tuple[float, float], resolution: float
) -> None:
    # Even seeds make no empty intervals, which could belong to either of two groups that touch.
    rows, reader = reader_of(seed, size)
    found = reader.intervals(track, window, resolution)
    # A row ends behind the window's first whole cycle: cycles are whole, windows need not be.
    inside = [
        i for i in recordings.intervals_of(rows, track) if i[1] > np.floor(window[0]) and i[0] < window[1]
    ]
    assert len(found) <= 2 * np.ceil((window[1] - window[0]) / resolution) + 4
    place = 0
    for group in found:
        members = []
        while place < len(inside) and inside[place][1] <= group["end"] and inside[place][0] >= group["start"]:
            members.append(inside[place])
            place += 1
        assert members
        assert group["start"] == members[0][0]
        assert group["end"] == members[-1][1]
        if len(members) == 1:
            assert (group["kind"], group["instruction"]) == members[0][2:]
            node = members[0][3] % NUM_NODES if members[0][3] >= 0 else -1
            assert group["node"] == node
    assert place == len(inside)


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([40, 400]), tracks)
def test_merged_intervals_show_the_kind_that_covers_most(seed: int, size: int, track: int) -> None:
    rows, reader = reader_of(seed, size)
    everything = recordings.intervals_of(rows, track)
    (group,) = reader.intervals(track, (0, everything[-1][1] + 1), 1e9)
    by_kind = np.bincount([i[2] for i in everything], [i[1] - i[0] for i in everything], minlength=6)
    assert group["instruction"] == -1
    assert by_kind[group["kind"]] == by_kind.max()


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, counters, whole_windows, st.integers(1, 50))
def test_counter_shows_every_extreme(
    seed: int, size: int, track: int, window: tuple[int, int], points: int
) -> None:
    rows, reader = reader_of(seed, size)
    window = (window[0], window[0] + points * max(1, (window[1] - window[0]) // points))
    cycles, low, high, last = reader.counter(track, window, points)
    step = (window[1] - window[0]) // points
    values = recordings.counter_of(rows, track)
    for c in range(points):
        assert cycles[c] == window[0] + step * c
        changes = [value for cycle, value in values if cycles[c] < cycle < cycles[c] + step]
        before = [value for cycle, value in values if cycle <= cycles[c]]
        seen = [before[-1] if before else 0, *changes]
        assert (low[c], high[c], last[c]) == (min(seen), max(seen), seen[-1])
        assert reader.value_at(track, float(cycles[c])) == seen[0]


@settings(max_examples=40, deadline=None)
@given(seeds, sizes, tracks, st.integers(-3, 1800))
def test_single_rows(seed: int, size: int, track: int, cycle: int) -> None:
    rows, reader = reader_of(seed, size)
    everything = recordings.intervals_of(rows, track)
    here = [i for i in everything if i[0] <= cycle < i[1]]
    found = reader.at(track, cycle)
    assert (found is None) == (not here)
    assert reader.has_starts([track], [cycle])[0] == (bool(here) and here[0][0] == cycle)
    starts = list({i[0] for i in everything if i[1] > i[0]})
    assert all(reader.has_starts([track] * len(starts), starts))
    if found is not None:
        assert (found["start"], found["end"], found["kind"], found["instruction"]) == here[0]
    later = [i for i in everything if i[0] > cycle]
    earlier = [i for i in everything if i[0] < cycle]
    following, previous = reader.neighbor(track, cycle, 1), reader.neighbor(track, cycle, -1)
    assert (None if following is None else following["end"]) == (later[0][1] if later else None)
    assert (None if previous is None else previous["end"]) == (earlier[-1][1] if earlier else None)


@settings(max_examples=40, deadline=None)
@given(seeds, sizes, whole_windows, st.integers(1, 30))
def test_flows_and_lifetimes(seed: int, size: int, window: tuple[int, int], limit: int) -> None:
    rows, reader = reader_of(seed, size)
    inside = [flow for flow in recordings.flows_of(rows) if window[0] <= flow[0] < window[1]]
    assert sorted(reader.flows(window, 10**6).tolist()) == sorted(inside)
    assert np.all(np.diff(reader.flows(window, 10**6)["cycle"]) >= 0)
    few = reader.flows(window, limit)
    assert len(few) == min(limit, len(inside))
    assert {tuple(flow) for flow in few.tolist()} <= set(inside)
    if inside:
        touching = [f for f in recordings.flows_of(rows) if inside[0][1] in f[1:]]
        assert sorted(reader.flows_of(inside[0][1]).tolist()) == sorted(touching)
    for memory in (0, 1):
        expected = [
            (
                memory,
                (i % 16 * 64 if i >= 0 else 0) + bank * (1024 if memory == 0 else 0),
                i % 5 * 8 + 8 if i >= 0 else 0,
                start,
                end,
                i % 3 if i >= 0 else -1,
                i,
            )
            for start, end, i, bank in recordings.lifetimes_of(rows, memory)
            if end > window[0] and start < window[1]
        ]
        assert sorted(reader.lifetimes(memory, window).tolist()) == sorted(expected)


def test_utilization_of_many_intervals_in_few_columns() -> None:
    """Dense enough for the columns to be fetched in advance, up to the incomplete last block."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 9, 20_011)
    ends = np.cumsum(lengths + rng.integers(0, 3, len(lengths)))
    rows = np.zeros((len(lengths), 4), dtype=np.int64)
    rows[:, 0] = 1 << 56 | rng.choice([0, 1, 5], len(lengths))
    rows[:, 1], rows[:, 2] = ends - lengths, ends
    reader = TraceReader(record(rows, 5).store)
    busy = np.zeros(int(ends[-1]), dtype=np.float64)
    for begin, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True):
        busy[begin:end] = 1
    for columns in (1, 7, 130):
        covered, _ = reader.utilization(0, (0, len(busy)), columns)
        edges = np.interp(
            np.linspace(0, len(busy), columns + 1), np.arange(len(busy) + 1), [0, *np.cumsum(busy)]
        )
        assert covered == pytest.approx(np.diff(edges) / (len(busy) / columns), abs=1e-5)


def test_whole_columns_are_read_only() -> None:
    rows, reader = reader_of(4, 50)
    columns = reader.columns(1)
    assert isinstance(columns, IntervalColumns)
    found = zip(
        *(c.tolist() for c in (columns.start, columns.end, columns.kind, columns.instruction)), strict=True
    )
    assert list(found) == recordings.intervals_of(rows, 1)
    with pytest.raises(ValueError, match="read-only"):
        columns.start[0] = 7
    counter = reader.columns(2)
    assert isinstance(counter, CounterColumns)
    assert list(zip(counter.cycle.tolist(), counter.value.tolist(), strict=True)) == recordings.counter_of(
        rows, 2
    )


def test_totals() -> None:
    rows, reader = reader_of(8, 100)
    everything = [i for track in INTERVAL_TRACKS for i in recordings.intervals_of(rows, track)]
    assert reader.num_intervals == len(everything)
    ends = [end for _, end, _, _ in everything]
    ends += [cycle + 1 for track in COUNTER_TRACKS for cycle, _ in recordings.counter_of(rows, track)]
    ends += [cycle + 1 for cycle, _, _ in recordings.flows_of(rows)]
    ends += [end for memory in (0, 1) for _, end, _, _ in recordings.lifetimes_of(rows, memory)]
    assert reader.end_cycle == max(ends)
    gemm = sum(end - start for start, end, kind, _ in recordings.intervals_of(rows, 0) if kind == 1)
    assert reader.busy_cycles(0, [1]) == gemm
    assert reader.busy_cycles(0) > gemm


def test_an_empty_trace_answers() -> None:
    reader = TraceReader(record(random_events(0, 0)).store)
    assert reader.end_cycle == 0
    assert len(reader.intervals(0, (0, 100))) == 0
    covered, dominant = reader.utilization(0, (0, 100), 3)
    assert covered.tolist() == [0, 0, 0]
    assert dominant.tolist() == [-1, -1, -1]
    assert reader.at(0, 3) is None
    assert reader.counter(2, (0, 10), 2)[3].tolist() == [0, 0]


def test_a_track_of_the_wrong_kind_is_a_key_error() -> None:
    _, reader = reader_of(1, 3)
    with pytest.raises(KeyError):
        reader.intervals(2, (0, 1))
    with pytest.raises(KeyError):
        reader.counter(0, (0, 1), 1)
