"""Traces of any size, made at once, for tests and benchmarks of drawing."""

import numpy as np

from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import (
    COUNTER,
    EVENT_WORDS,
    INTERVAL,
    TRACK_SHIFT,
    TYPE_SHIFT,
    Kind,
    TraceSchema,
    Track,
)
from npuviz.trace.store import TraceStore

KINDS = (
    Kind(0, "GEMM", "compute", "multiplies a tile"),
    Kind(1, "GEMM_PRELOAD", "compute", "loads weights into the array"),
    Kind(2, "MOVIN", "move-in", "moves bytes from DRAM"),
    Kind(3, "MOVOUT", "move-out", "moves bytes to DRAM"),
    Kind(4, "ADD", "control", "adds"),
    Kind(5, "waits for operand", "wait-dependency", "an operand is on its way"),
    Kind(6, "queue full", "wait-queue", "the next queue has no room"),
    Kind(7, "bandwidth", "wait-bandwidth", "the channel is busy"),
    Kind(8, "bank conflict", "wait-conflict", "another access holds the bank"),
)
NODES = tuple(f"layer{i // 4}.conv{i % 4}" for i in range(32))


class Nodes:
    """Instruction i belongs to node i // 64 (mod 32)."""

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        return (indices // 64 % len(NODES)).astype(np.int32)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return indices * 64 % 65536, np.full_like(indices, 64), (indices % 4).astype(np.int32)

    def bank_bytes(self, memory: int) -> int:
        return 65536


def schema(num_tracks: int, num_counters: int = 0) -> TraceSchema:
    """Four units to a core."""
    names = ("LD", "EX", "ST", "VEC")
    tracks = [Track(i, f"Core[{i // 4}].{names[i % 4]}", "interval", i) for i in range(num_tracks)]
    tracks += [
        Track(num_tracks + i, f"Core[{i // 4}].{names[i % 4]}.occupancy", "counter", i, "entries", 16)
        for i in range(num_counters)
    ]
    types = tuple(("Conv", "Relu", "Add", "MaxPool")[i % 4] for i in range(len(NODES)))
    memories = (("Core[0].SPAD", 131072),)
    return TraceSchema(
        tuple(tracks), KINDS, NODES, types, ("a", "b", "c", "d"), memories, 1e9, "synthetic", "test"
    )


def make_reader(num_tracks: int, num_slices: int, num_counters: int = 0, seed: int = 1) -> TraceReader:
    """A reader of `num_slices` slices on all interval tracks together, about 10 cycles each."""
    store = TraceStore(schema(num_tracks, num_counters), Nodes())
    random = np.random.default_rng(seed)
    each = num_slices // num_tracks
    end = 0
    for track in range(num_tracks):
        length = random.geometric(0.1, each).astype(np.int64)
        gap = random.integers(0, 4, each)
        stop = np.cumsum(length + gap)
        kind = random.choice(len(KINDS), each, p=[0.25, 0.1, 0.2, 0.1, 0.05, 0.1, 0.08, 0.07, 0.05])
        store.append(_rows(INTERVAL, track, kind, stop - length, stop, np.arange(each, dtype=np.int64)))
        end = max(end, int(stop[-1]))
    for number in range(num_counters):
        cycle = np.sort(random.integers(0, end, max(each // 4, 1)))
        value = np.abs(np.cumsum(random.integers(-1, 2, len(cycle)))) % 17
        store.append(_rows(COUNTER, num_tracks + number, 0, cycle, value, np.full(len(cycle), -1)))
    store.mark(end)
    return TraceReader(store)


def _rows(
    event: int, track: int, code: np.ndarray | int, first: np.ndarray, second: np.ndarray, third: np.ndarray
) -> np.ndarray:
    rows = np.empty((len(first), EVENT_WORDS), dtype=np.int64)
    rows[:, 0] = event << TYPE_SHIFT | track << TRACK_SHIFT | code
    rows[:, 1], rows[:, 2], rows[:, 3] = first, second, third
    return rows
