"""The trace: cost of recording, cost of a frame, bundles, Perfetto export."""

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.row import Row
from npuviz.base.progress import NoProgress
from npuviz.export.perfetto import EXPORTER
from npuviz.trace.bundle.bundle import BundleWriter, open_bundle
from npuviz.trace.bundle.query import query
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder
from npuviz.trace.schema import INTERVAL, TRACK_SHIFT, TYPE_SHIFT, Kind, TraceSchema, Track

NUM_TRACKS = 64
NUM_KINDS = 12
NUM_NODES = 50
COLUMNS = 1920
SLICES = 10_000_000
BUFFER_ROWS = 1 << 16


class Instructions:
    """A program whose consecutive instructions belong to the nodes in turn."""

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        return (indices % NUM_NODES).astype(np.int32)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return indices * 0, indices * 0, indices.astype(np.int32) * 0

    def bank_bytes(self, memory: int) -> int:
        return 0


class _Buffer:
    def __init__(self) -> None:
        self.rows = np.zeros((BUFFER_ROWS, 4), dtype=np.int64)
        self.count = np.zeros(1, dtype=np.int64)


def schema() -> TraceSchema:
    """Make a schema of 64 tracks in 8 groups, and 12 kinds."""
    return TraceSchema(
        tracks=tuple(Track(i, f"Core[{i // 8}].Unit{i % 8}", "interval") for i in range(NUM_TRACKS)),
        kinds=tuple(Kind(i, f"KIND{i}", "compute") for i in range(NUM_KINDS)),
        node_names=tuple(f"node{i}" for i in range(NUM_NODES)),
        node_types=("Conv",) * NUM_NODES,
        tensor_names=(),
        memory_names=(),
        frequency_hz=1e9,
    )


def events(num_slices: int) -> np.ndarray:
    """Make slices with short gaps between them on all tracks, in the order of recording."""
    rng = np.random.default_rng(0)
    per_track = num_slices // NUM_TRACKS
    lengths = rng.integers(1, 40, (per_track, NUM_TRACKS))
    ends = np.cumsum(lengths + rng.integers(0, 6, (per_track, NUM_TRACKS)), axis=0)
    rows = np.empty((per_track * NUM_TRACKS, 4), dtype=np.int64)
    tracks = np.arange(NUM_TRACKS, dtype=np.int64) << TRACK_SHIFT
    kinds = rng.integers(0, NUM_KINDS, (per_track, NUM_TRACKS))
    rows[:, 0] = (INTERVAL << TYPE_SHIFT | tracks | kinds).ravel()
    rows[:, 1] = (ends - lengths).ravel()
    rows[:, 2] = ends.ravel()
    rows[:, 3] = np.arange(len(rows))
    return rows


def run() -> list[Row]:
    """Measure everything with 1e7 slices on 64 tracks."""
    _compile()
    rows = events(SLICES)
    found, store = _recording(rows)
    found += _frames(TraceReader(store))
    with tempfile.TemporaryDirectory() as folder:
        found += _bundle(rows, Path(folder))
    return found


def _compile() -> None:
    """Compile all kernels before anything is measured."""
    rows = events(NUM_TRACKS * 100)
    _, store = _recording(rows)
    _frames(TraceReader(store))
    with tempfile.TemporaryDirectory() as folder:
        _bundle(rows, Path(folder))


def _timed(work: Callable[[], Any], repetitions: int = 1) -> float:
    """Return the seconds of the fastest repetition."""
    best = float("inf")
    for _ in range(repetitions):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def _drain(rows: np.ndarray, recorder: Recorder) -> float:
    """Return the seconds spent in `drain`, without filling the buffer, which is the machine's work."""
    buffer, seconds = _Buffer(), 0.0
    for begin in range(0, len(rows), BUFFER_ROWS):
        piece = rows[begin : begin + BUFFER_ROWS]
        buffer.rows[: len(piece)] = piece
        buffer.count[0] = len(piece)
        seconds += _timed(lambda: recorder.drain(buffer))
    return seconds


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _recording(rows: np.ndarray) -> tuple[list[Row], Any]:
    few = rows[: min(len(rows), 3 << 20)]
    seconds = _drain(few, Recorder(schema(), Instructions()))
    before = _resident_bytes()
    recorder = Recorder(schema(), Instructions())
    _drain(rows, recorder)
    split = _timed(recorder.store.absorb)
    views = _timed(lambda: [recorder.store.interval_view(track) for track in range(NUM_TRACKS)])
    held = max(_resident_bytes() - before, 0)
    found = [
        Row("record one event", seconds / len(few) * 1e9, "ns", "under 10 % of a run"),
        Row("split what waits and sum it up, 1e7 slices recorded", (split + views) * 1e3, "ms"),
        Row("memory of a slice, split", held / len(rows), "B", "about 34"),
    ]
    return found, recorder.store


def _frames(reader: TraceReader) -> list[Row]:
    end = reader.end_cycle
    middle = end // 3
    windows = {
        "everything": (0, end),
        "1/1000": (middle, middle + max(end // 1000, 1)),
        "one cycle a pixel": (middle, middle + COLUMNS),
    }
    found: list[Row] = []
    for name, window in windows.items():
        resolution = (window[1] - window[0]) / COLUMNS

        def utilization(window: tuple[int, int] = window) -> None:
            for track in range(NUM_TRACKS):
                reader.utilization(track, window, COLUMNS)

        def intervals(window: tuple[int, int] = window, resolution: float = resolution) -> None:
            for track in range(NUM_TRACKS):
                reader.intervals(track, window, resolution)

        figure = "frame under 16 ms"
        found.append(Row(f"utilisation of 64 tracks, {name}", _timed(utilization, 7) * 1e3, "ms", figure))
        found.append(Row(f"intervals of 64 tracks, {name}", _timed(intervals, 7) * 1e3, "ms", figure))
    return found


def _bundle(rows: np.ndarray, folder: Path) -> list[Row]:
    path = folder / "bench.npuviz"
    recorder = Recorder(schema(), Instructions(), BundleWriter(path, schema()), keeps_in_memory=False)
    begin = time.perf_counter()
    _drain(rows, recorder)
    recorder.close()
    written = time.perf_counter() - begin
    size = sum(part.stat().st_size for part in path.iterdir())
    opened = _timed(lambda: open_bundle(path), 3)
    reader = open_bundle(path)
    read = _timed(lambda: reader.utilization(0, (0, reader.end_cycle), COLUMNS))
    asked = _timed(lambda: query(path, "select track, sum(cycles) from slices group by 1"))
    exported = _timed(lambda: EXPORTER.export(reader, None, folder / "bench.pftrace", NoProgress()))
    return [
        Row("write a bundle, 1e7 slices", written, "s"),
        Row("size of that bundle", size / 1e6, "MB"),
        Row("open it", opened * 1e3, "ms"),
        Row("first question to it (reads all tracks)", read, "s"),
        Row("SQL: utilisation per track", asked, "s"),
        Row("Perfetto export, 1e7 slices", exported, "s"),
        Row("size of that file", (folder / "bench.pftrace").stat().st_size / 1e6, "MB"),
    ]
