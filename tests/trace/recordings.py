"""Recordings that tests make up: a schema, random events, and ways to record them."""

import numpy as np

from npuviz.trace.recorder import Recorder
from npuviz.trace.schema import (
    COUNTER,
    FLOW,
    INTERVAL,
    LIFETIME,
    TRACK_SHIFT,
    TYPE_SHIFT,
    Kind,
    TraceSchema,
    Track,
)

NUM_NODES = 7
BANK_BYTES = 1024

SCHEMA = TraceSchema(
    tracks=(
        Track(0, "Core[0].LD", "interval", unit=0),
        Track(1, "Core[0].PE", "interval", unit=1, doc="the array"),
        Track(2, "Core[0].LD.occupancy", "counter", unit=0, measure="entries", maximum=8),
        Track(3, "DRAM.read", "counter", measure="bytes"),
        Track(4, "Core[10].PE", "interval", unit=2),
        Track(5, "Host", "interval", doc="never does anything"),
        Track(6, "Host.requests", "counter", measure="requests", doc="never changes"),
    ),
    kinds=(
        Kind(0, "MOVIN", "move-in"),
        Kind(1, "GEMM", "compute"),
        Kind(2, "queue full", "wait-queue", "waits for room"),
        Kind(5, "ADD", "compute"),
    ),
    node_names=tuple(f"node {i}" for i in range(NUM_NODES)),
    node_types=("Conv",) * NUM_NODES,
    tensor_names=("x", "w", "ein Gewicht"),
    memory_names=(("SPAD", 4 * BANK_BYTES), ("DRAM", 1 << 30)),
    frequency_hz=1e9,
    title="made up",
    target="test",
)
KINDS = [kind.id for kind in SCHEMA.kinds]
INTERVAL_TRACKS = (0, 1, 4)
COUNTER_TRACKS = (2, 3)
"""Tracks that get events; 5 and 6 stay empty."""


class Instructions:
    """Resolves instruction indices by arithmetic."""

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        return (indices % NUM_NODES).astype(np.int32)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return indices % 16 * 64, indices % 5 * 8 + 8, (indices % 3).astype(np.int32)

    def bank_bytes(self, memory: int) -> int:
        return BANK_BYTES if memory == 0 else 0


class Buffer:
    """An event buffer as the simulation has it."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows.copy()
        self.count = np.array([len(rows)], dtype=np.int64)


def row(what: int, owner: int, code: int, first: int, second: int, third: int) -> tuple[int, int, int, int]:
    return what << TYPE_SHIFT | owner << TRACK_SHIFT | code, first, second, third


def random_events(seed: int, num_rows: int, longest: int = 12, gaps: int = 4) -> np.ndarray:
    """Event rows in the order of recording: about `num_rows` intervals a track and as many others."""
    rng = np.random.default_rng(seed)
    found: list[tuple[int, tuple[int, int, int, int]]] = []
    for track in INTERVAL_TRACKS:
        lengths = rng.integers(0 if seed % 2 else 1, longest, num_rows)
        ends = np.cumsum(lengths + rng.integers(0, gaps, num_rows))
        for length, end in zip(lengths.tolist(), ends.tolist(), strict=True):
            kind = int(rng.choice(KINDS))
            instruction = int(rng.integers(-1, 4 * num_rows + 1))
            found.append((end, row(INTERVAL, track, kind, end - length, end, instruction)))
    for track in COUNTER_TRACKS:
        cycles = np.cumsum(rng.integers(0, longest, num_rows))
        for cycle, value in zip(cycles.tolist(), rng.integers(0, 100, num_rows).tolist(), strict=True):
            found.append((cycle, row(COUNTER, track, 0, cycle, value, -1)))
    horizon = num_rows * (longest + gaps) // 2 + 1
    for cycle in rng.integers(0, horizon, num_rows).tolist():
        source, sink = (int(i) for i in rng.integers(0, 4 * num_rows + 1, 2))
        found.append((cycle, row(FLOW, 0, 0, cycle, source, sink)))
    for memory in (0, 1):
        for end in rng.integers(0, horizon, num_rows // 2).tolist():
            start = int(rng.integers(0, end + 1))
            bank = int(rng.integers(0, 4)) if memory == 0 else 0
            found.append((end, row(LIFETIME, memory, bank, start, end, int(rng.integers(-1, 50)))))
    found.sort(key=lambda one: one[0])
    return np.array([words for _, words in found], dtype=np.int64).reshape(len(found), 4)


def record(rows: np.ndarray, chunks: int = 1, recorder: Recorder | None = None) -> Recorder:
    """Drain the rows in `chunks` buffers of nearly equal size."""
    recorder = recorder or Recorder(SCHEMA, Instructions())
    for piece in np.array_split(rows, chunks):
        recorder.drain(Buffer(piece))
    return recorder


def intervals_of(rows: np.ndarray, track: int) -> list[tuple[int, int, int, int]]:
    """Naive: (start, end, kind, instruction) of a track."""
    return [
        (start, end, head & 0xFFFFFFFF, instruction)
        for head, start, end, instruction in rows.tolist()
        if head >> TYPE_SHIFT == INTERVAL and head >> TRACK_SHIFT & 0xFFFFFF == track
    ]


def counter_of(rows: np.ndarray, track: int) -> list[tuple[int, int]]:
    """Naive: (cycle, value) of a counter."""
    return [
        (cycle, value)
        for head, cycle, value, _ in rows.tolist()
        if head >> TYPE_SHIFT == COUNTER and head >> TRACK_SHIFT & 0xFFFFFF == track
    ]


def flows_of(rows: np.ndarray) -> list[tuple[int, int, int]]:
    """Naive: (cycle, source, sink)."""
    return [(a, b, c) for head, a, b, c in rows.tolist() if head >> TYPE_SHIFT == FLOW]


def lifetimes_of(rows: np.ndarray, memory: int) -> list[tuple[int, int, int, int]]:
    """Naive: (start, end, instruction, bank) of a memory."""
    return [
        (start, end, instruction, head & 0xFFFFFFFF)
        for head, start, end, instruction in rows.tolist()
        if head >> TYPE_SHIFT == LIFETIME and head >> TRACK_SHIFT & 0xFFFFFF == memory
    ]
