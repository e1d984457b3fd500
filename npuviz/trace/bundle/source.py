"""Read a bundle as a source for readers; columns are read when they are first needed."""

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from npuviz.base.errors import FormatError
from npuviz.base.reading import reading
from npuviz.trace.bundle.container import Container
from npuviz.trace.bundle.manifest import (
    LARGEST_TEXT_BYTES,
    LAST_CYCLE,
    MANIFEST_NAME,
    MODEL_NAME,
    TEXT_NAME,
    Manifest,
    TableName,
    parse_manifest,
)
from npuviz.trace.bundle.parts import check_bytes, decode
from npuviz.trace.schema import CAUSE_DTYPE, FLOW_DTYPE, LIFETIME_DTYPE, TraceSchema
from npuviz.trace.series import CounterSeries, CounterView, IntervalSeries, IntervalView

_NOTE = ("severity", "code", "text")
"""Keys of a note of the model."""


class BundleSource:
    """Reads a bundle. Opening reads the manifest and compares the sizes of the parts; a table is read,
    checked and grouped by track at the first question that needs it, from the files as they were when the
    bundle was opened, even if a run replaces them meanwhile. Raises FormatError."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._lock = threading.RLock()
        file = container.describe(MANIFEST_NAME)
        size = container.size_of(MANIFEST_NAME) or 0
        if size > LARGEST_TEXT_BYTES:
            raise FormatError(file, expected=f"at most {LARGEST_TEXT_BYTES} bytes", found=f"{size}")
        self._manifest = parse_manifest(file, bytes(container.read(MANIFEST_NAME)))
        for part in self._manifest.parts:
            found = container.size_of(part.file)
            if found != part.size_bytes:
                raise FormatError(
                    container.describe(part.file),
                    expected=f"{part.size_bytes} bytes",
                    found="no such file" if found is None else f"{found}",
                    hint="the bundle is damaged: copy or record it again",
                )
            container.hold(part.file)
        self._sizes = {name: container.size_of(name) for name in (MODEL_NAME, TEXT_NAME)}
        for name, size in self._sizes.items():
            if size is not None:
                container.hold(name)

    @property
    def path(self) -> Path:
        """Path of the bundle."""
        return self._container.path

    @property
    def manifest(self) -> Manifest:
        """The manifest as it was when the bundle was opened."""
        return self._manifest

    def read_part(self, name: str) -> Any:
        """Return the bytes of a part."""
        return self._container.read(name)

    def check(self) -> None:
        """Read and check everything once: parts, their columns, the ids in their rows.
        Columns for the timeline are kept.

        Call it before a bundle is shown, so that no damage is found later.
        Raises FormatError.
        """
        for part in self._manifest.parts:
            file = self._container.describe(part.file)
            self._check_rows(part.table, decode(file, self._container.read(part.file), part))
        with self._lock:
            _ = self._intervals, self._counters, self._causes, self._lifetimes, self._model

    def _check_rows(self, table: TableName, columns: Mapping[str, np.ndarray]) -> None:
        """Check that ids in rows and cycles are within the manifest's limits,
        and that 64 bits can add them."""
        most = {"node": len(self.schema.node_names) - 1, "tensor": len(self.schema.tensor_names) - 1}
        for name, values in columns.items():
            if len(values) == 0:
                continue
            if name in most:
                is_right = values.min() >= -1 and values.max() <= most[name]
                self._demand(table, bool(is_right), f"{name}s from -1 to {most[name]}")
            elif name in ("start", "end", "cycle", "address", "size_bytes"):
                is_right = values.min() >= 0 and values.max() < LAST_CYCLE
                self._demand(table, bool(is_right), f"{name} from 0 to 2^62")

    def verify(self) -> None:
        """Compare the checksums of all parts. Raises FormatError."""
        for part in self._manifest.parts:
            check_bytes(self._container.describe(part.file), self._container.read(part.file), part)

    @property
    def schema(self) -> TraceSchema:
        """Names and meaning of the rows."""
        return self._manifest.schema

    @property
    def is_complete(self) -> bool:
        """False for the remains of a run that was killed."""
        return self._manifest.is_complete

    @property
    def end_cycle(self) -> int:
        """Cycle up to which the trace is known."""
        return self._manifest.end_cycle

    @property
    def num_intervals(self) -> int:
        """Number of intervals of all tracks, from the manifest."""
        return sum(part.rows for part in self._manifest.parts if part.table == "intervals")

    @property
    def model(self) -> Mapping[str, Any]:
        """Contents of model.json; empty if there is none."""
        return self._model

    @cached_property
    def _model(self) -> Mapping[str, Any]:
        found, file = self._object(MODEL_NAME), self._container.describe(MODEL_NAME)
        for number, note in enumerate(_listed(found.get("notes", []))):
            is_note = isinstance(note, dict) and all(isinstance(note.get(key), str) for key in _NOTE)
            if not is_note:
                raise FormatError(file, field=f"notes, {number}", expected=f"texts {', '.join(_NOTE)}")
        return found

    @cached_property
    def text(self) -> Mapping[str, Any]:
        """Contents of text.json: lines and loops of the program's text; empty if there is none."""
        return self._object(TEXT_NAME)

    @property
    def text_file(self) -> str:
        """Where text.json is, for messages."""
        return self._container.describe(TEXT_NAME)

    def _object(self, name: str) -> dict[str, Any]:
        """Read a file of JSON, {} if it is missing."""
        size, file = self._sizes[name], self._container.describe(name)
        if size is None:
            return {}
        if size > LARGEST_TEXT_BYTES:
            raise FormatError(file, expected=f"at most {LARGEST_TEXT_BYTES} bytes", found=f"{size}")
        with reading(file):
            found = orjson.loads(bytes(self._container.read(name)))
        if not isinstance(found, dict):
            raise FormatError(file, expected="a JSON object", found=type(found).__name__)
        return found

    def interval_view(self, track: int) -> IntervalView:
        """Return one interval track. Raises KeyError for another track."""
        with self._lock:
            series = self._intervals[track]

            def details(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                with self._lock:
                    nodes, instructions = self._details[track]
                return nodes[rows], instructions[rows]

            return series.view(details)

    def last_starts(self, tracks: Sequence[int]) -> list[int]:
        """Return the start of the last interval of each of some interval tracks,
        -1 for a track without any."""
        starts = [self.interval_view(track).start for track in tracks]
        return [int(start[-1]) if len(start) else -1 for start in starts]

    def instructions_of(self, track: int) -> np.ndarray:
        """Return the instruction of every row of an interval track (int64, -1 none), read-only."""
        with self._lock:
            return self._details[track][1]

    def counter_view(self, track: int) -> CounterView:
        """Return one counter track. Raises KeyError for another track."""
        with self._lock:
            return self._counters[track].view()

    def flow_view(self) -> np.ndarray:
        """Return all flows, FLOW_DTYPE, sorted by cycle."""
        with self._lock:
            return self._flows

    def cause_view(self) -> np.ndarray:
        """Return all causes, CAUSE_DTYPE, in the order of recording."""
        with self._lock:
            return self._causes

    def lifetimes_within(self, memory: int, low: int, high: int) -> np.ndarray:
        """Return the lifetimes of a memory that overlap [low, high): LIFETIME_DTYPE, sorted by end."""
        with self._lock:
            rows = self._lifetimes[memory]
        first = int(np.searchsorted(rows["end"], np.int64(low), side="right"))
        found = rows[first:]
        return found[found["start"] < high]

    # -- reading tables ---------------------------------------------------------------------------

    def _read(self, table: TableName, names: Sequence[str] | None = None) -> list[dict[str, np.ndarray]]:
        """Return the columns of all parts of a table."""
        return [
            decode(self._container.describe(part.file), self._container.read(part.file), part, names)
            for part in self._manifest.parts
            if part.table == table
        ]

    def _by_track(self, table: TableName, names: Sequence[str]) -> dict[int, list[np.ndarray]]:
        """Return the named columns, joined over all parts, by track id, for every track that has rows."""
        pieces: dict[int, list[list[np.ndarray]]] = {}
        for columns in self._read(table, ["track", *names]):
            track = columns["track"]
            is_known = len(track) == 0 or (track.min() >= 0 and track.max() < len(self.schema.tracks))
            self._demand(table, bool(is_known), "track ids of the schema")
            self._demand(table, bool(np.all(track[1:] >= track[:-1])), "tracks in rising order")
            for one in np.unique(track).tolist():
                first, last = np.searchsorted(track, np.array([one, one + 1], dtype=np.int32))
                pieces.setdefault(one, []).append([columns[name][first:last] for name in names])
        return {
            track: [np.concatenate(column) for column in zip(*parts, strict=True)]
            for track, parts in pieces.items()
        }

    def _demand(self, table: TableName, is_right: bool, expected: str) -> None:
        if not is_right:
            hint = "the bundle was altered: record it again"
            raise FormatError(self.path, field=table, expected=expected, hint=hint)

    def _ids(self, kind: str) -> set[int]:
        return {track.id for track in self.schema.tracks if track.kind == kind}

    @cached_property
    def _intervals(self) -> dict[int, IntervalSeries]:
        num_kinds = self.schema.num_kinds
        series = {track: IntervalSeries(num_kinds) for track in self._ids("interval")}
        for track, (start, end, kind) in self._by_track("intervals", ("start", "end", "kind")).items():
            self._demand("intervals", track in series, "track ids of interval tracks")
            self._demand("intervals", bool(np.all(start <= end)), "start <= end")
            self._demand("intervals", bool(np.all(start[1:] >= end[:-1])), "rows of a track in rising order")
            self._demand("intervals", bool(np.all((kind >= 0) & (kind < num_kinds))), "known kinds")
            one = series[track]
            one.start.adopt(start)
            one.end.adopt(end)
            one.kind.adopt(kind)
        return series

    @cached_property
    def _details(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        nothing = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        details = dict.fromkeys(self._ids("interval"), nothing)
        for track, (nodes, instructions) in self._by_track("intervals", ("node", "instruction")).items():
            details[track] = nodes, instructions
        return details

    @cached_property
    def _counters(self) -> dict[int, CounterSeries]:
        series = {track: CounterSeries() for track in self._ids("counter")}
        for track, (cycle, value) in self._by_track("counters", ("cycle", "value")).items():
            self._demand("counters", track in series, "track ids of counter tracks")
            self._demand("counters", bool(np.all(cycle[1:] >= cycle[:-1])), "rows of a track in rising order")
            series[track].cycle.adopt(cycle)
            series[track].value.adopt(value)
        return series

    @cached_property
    def _flows(self) -> np.ndarray:
        rows = _structured(self._read("flows"), FLOW_DTYPE)
        rows = rows[np.argsort(rows["cycle"], kind="stable")]
        rows.flags.writeable = False
        return rows

    @cached_property
    def _causes(self) -> np.ndarray:
        rows = _structured(self._read("causes"), CAUSE_DTYPE)
        track, kind, done = rows["track"], rows["kind"], rows["done"]
        known = bool(np.all((track >= -1) & (track < len(self.schema.tracks))))
        self._demand("causes", known, "track ids of the schema, or -1")
        self._demand("causes", bool(np.all((kind >= 0) & (kind < self.schema.num_kinds))), "known kinds")
        ordered = bool(np.all((done >= -1) & (done <= rows["cycle"])))
        self._demand("causes", ordered, "sources done before what they let go on")
        rows.flags.writeable = False
        return rows

    @cached_property
    def _lifetimes(self) -> list[np.ndarray]:
        rows = _structured(self._read("lifetimes"), LIFETIME_DTYPE)
        count = len(self.schema.memory_names)
        memory = rows["memory"]
        self._demand("lifetimes", bool(np.all((memory >= 0) & (memory < count))), "known memories")
        self._demand("lifetimes", bool(np.all(rows["start"] <= rows["end"])), "start <= end")
        rows = rows[np.argsort(rows["end"], kind="stable")]
        return [rows[rows["memory"] == one] for one in range(count)]


def _listed(notes: Any) -> list[Any]:
    """Return notes as a list; anything but a list counts as one wrong note."""
    return notes if isinstance(notes, list) else [notes]


def _structured(parts: list[dict[str, np.ndarray]], dtype: np.dtype) -> np.ndarray:
    rows = np.zeros(sum(len(next(iter(part.values()))) for part in parts), dtype=dtype)
    place = 0
    for part in parts:
        count = len(next(iter(part.values())))
        for name in dtype.names or ():
            rows[name][place : place + count] = part[name]
        place += count
    return rows
