"""Export traces to Perfetto: slices, counters and flows as protobuf,
for ui.perfetto.dev and trace_processor."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import numpy as np

from npuviz.base.progress import Progress
from npuviz.export.exporter import CycleWindow, replacing, whole_or
from npuviz.export.perfetto_kernels import SEQUENCE, encode_counter, encode_slices
from npuviz.export.perfetto_tracks import names_packet, track_tree
from npuviz.trace.reader import IntervalColumns, TraceReader
from npuviz.trace.schema import TraceSchema

BUFFER_BYTES = 1 << 22
_NONE = np.zeros(0, dtype=np.int64)
_TrackRows = tuple[int, np.ndarray, np.ndarray, np.ndarray]
"""A track, and some of its rows: their numbers in the window, instructions and starts."""
_Encode = Callable[[int, np.ndarray], tuple[int, int]]


@dataclass(frozen=True)
class PerfettoExporter:
    """Writes a Perfetto trace.

    annotate   attach the instruction index to every slice, and its first cycle where the clock is
               not a whole number of nanoseconds
    max_flows  most flows that are written; more are thinned out evenly
    """

    annotate: bool = True
    max_flows: int = 1_000_000

    @property
    def name(self) -> str:
        """Name of the format."""
        return "perfetto"

    @property
    def suffix(self) -> str:
        """Usual file ending."""
        return ".pftrace"

    @property
    def title(self) -> str:
        """Name of the format for menus."""
        return "Perfetto trace"

    @property
    def draws_tracks(self) -> bool:
        """Ui.perfetto.dev draws tracks: those of loops are shown, too."""
        return True

    def export(self, reader: TraceReader, window: CycleWindow | None, out: Path, progress: Progress) -> None:
        """Write the intervals that overlap the window, whole; counters and flows within it."""
        window = whole_or(window, reader)
        with replacing(out) as path, open(path, "wb") as file:
            _Writing(self, reader, window, file).run(progress)


EXPORTER = PerfettoExporter()


class _Writing:
    """One export in progress."""

    def __init__(
        self, options: PerfettoExporter, reader: TraceReader, window: CycleWindow, file: BinaryIO
    ) -> None:
        self._options = options
        self._reader = reader
        self._schema = reader.schema
        self._window = window
        self._file = file
        self._clock = _Clock(reader.schema.frequency_hz)
        self._names = _Names(reader.schema)
        self._buffer = np.empty(BUFFER_BYTES, dtype=np.uint8)

    def run(self, progress: Progress) -> None:
        tree = track_tree(self._schema, SEQUENCE)
        self._file.write(tree.packets)
        annotations = {1: "instruction", 2: "cycle"}
        self._file.write(names_packet(SEQUENCE, {}, annotations, is_first=True))
        progress.report(0.0, "flows")
        flows = self._flows()
        tracks = self._schema.tracks
        for track in tracks:
            progress.report(track.id / len(tracks), track.name)
            uuid = tree.uuids[track.id]
            if track.kind == "interval":
                self._write_slices(track.id, uuid, flows, progress)
            else:
                self._write_counter(track.id, uuid)
        progress.report(1.0, "done")

    def _rows(self, columns: IntervalColumns) -> slice:
        """Return the rows that overlap the window."""
        first = int(np.searchsorted(columns.end, np.int64(self._window[0]), side="right"))
        last = int(np.searchsorted(columns.start, np.int64(self._window[1])))
        return slice(first, max(first, last))

    def _write_slices(self, track: int, uuid: int, flows: "_Flows", progress: Progress) -> None:
        columns = self._reader.interval_columns(track)
        rows = self._rows(columns)
        start = columns.start[rows]
        keys, new_names = self._names.intern(columns.kind[rows], columns.node[rows])
        if new_names:
            self._file.write(names_packet(SEQUENCE, new_names, {}, is_first=False))
        instruction = np.ascontiguousarray(columns.instruction[rows]) if self._options.annotate else _NONE
        cycles = start if self._options.annotate and not self._clock.is_whole else _NONE
        begin_ns, end_ns = self._clock.nanoseconds(start), self._clock.nanoseconds(columns.end[rows])
        offsets, numbers = flows.of_track(track, rows)

        def encode(first: int, out: np.ndarray) -> tuple[int, int]:
            progress.report(track / len(self._schema.tracks), self._schema.tracks[track].name)
            return encode_slices(
                begin_ns, end_ns, keys, instruction, cycles, offsets, numbers, uuid, first, out
            )

        self._write(len(start), encode)

    def _write_counter(self, track: int, uuid: int) -> None:
        low, high = self._window
        columns = self._reader.counter_columns(track)
        first, last = np.searchsorted(columns.cycle, np.array([low, high], dtype=np.int64))
        cycles, values = columns.cycle[first:last], columns.value[first:last]
        held = self._reader.value_at(track, low)
        if len(cycles) == 0 or cycles[0] > low:
            cycles, values = np.insert(cycles, 0, low), np.insert(values, 0, held)
        nanoseconds, values = self._clock.nanoseconds(cycles), np.ascontiguousarray(values)

        def encode(first: int, out: np.ndarray) -> tuple[int, int]:
            return encode_counter(nanoseconds, values, uuid, first, out)

        self._write(len(values), encode)

    def _write(self, count: int, encode: _Encode) -> None:
        row = 0
        while row < count:
            row, used = encode(row, self._buffer)
            self._file.write(self._buffer[:used].data)

    def _flows(self) -> "_Flows":
        rows = self._reader.flows(self._window, self._options.max_flows)
        return _Flows(rows, self._working_rows() if len(rows) else iter(()))

    def _working_rows(self) -> Iterator[_TrackRows]:
        """Yield, for every interval track, the rows in the window that show work, not waiting."""
        waiting = [kind.id for kind in self._schema.kinds if kind.role.startswith("wait")]
        for track in self._schema.tracks:
            if track.kind != "interval":
                continue
            columns = self._reader.interval_columns(track.id)
            place = self._rows(columns)
            works = np.flatnonzero(~np.isin(columns.kind[place], waiting))
            yield track.id, works, columns.instruction[place][works], columns.start[place][works]


class _Clock:
    """Converts cycles to nanoseconds, in whole numbers and without overflow."""

    def __init__(self, frequency_hz: float) -> None:
        period = Fraction(1e9 / frequency_hz) if frequency_hz > 0 else Fraction(1)
        period = period.limit_denominator(1_000_000)
        self._over, self._under = (period.numerator or 1), period.denominator

    @property
    def is_whole(self) -> bool:
        """Whether a cycle is a whole number of nanoseconds."""
        return self._under == 1

    def nanoseconds(self, cycles: np.ndarray) -> np.ndarray:
        """Return the time at which each cycle begins, rounded down."""
        if self._under == 1:
            return cycles * np.int64(self._over)
        whole, rest = np.divmod(cycles, np.int64(self._under))
        return whole * np.int64(self._over) + rest * np.int64(self._over) // np.int64(self._under)


class _Names:
    """Numbers the names of slices, "GEMM conv1": the number follows from kind and node."""

    def __init__(self, schema: TraceSchema) -> None:
        self._kinds = {kind.id: kind.name for kind in schema.kinds}
        self._nodes = schema.node_names
        self._known = np.zeros(0, dtype=np.int64)

    def intern(self, kind: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
        """Return the number of every slice's name, and the names that had no number yet."""
        width = len(self._nodes) + 1
        node = np.where((node >= 0) & (node < len(self._nodes)), node, -1).astype(np.int64)
        keys = kind.astype(np.int64) * width + node + 2
        new = np.setdiff1d(np.unique(keys), self._known)
        self._known = np.union1d(self._known, new)
        names: dict[int, str] = {}
        for key in new.tolist():
            one_kind, one_node = divmod(key - 1, width)
            name = self._kinds.get(one_kind, f"kind {one_kind}")
            names[key] = f"{name} {self._nodes[one_node - 1]}" if one_node else name
        return keys, names


class _Flows:
    """Flows that leave and enter each slice.

    An instruction's slice is the one in which it works (not waits): its last one for a producer, its
    first one for a consumer, on the first track of the schema that has one. Flows with an end
    outside the window, or whose consumer began before the producer, cannot be drawn and are left out.
    """

    def __init__(
        self,
        flows: np.ndarray,
        tracks: Iterator[_TrackRows],
    ) -> None:
        sources, source_of = np.unique(flows["source"], return_inverse=True)
        sinks, sink_of = np.unique(flows["sink"], return_inverse=True)
        ends = [np.full((len(wanted), 3), -1, dtype=np.int64) for wanted in (sources, sinks)]
        for track, rows, instructions, starts in tracks:
            for wanted, found, step in ((sources, ends[0], 1), (sinks, ends[1], -1)):
                place = np.searchsorted(wanted, instructions)
                place[place == len(wanted)] = 0
                hit = np.flatnonzero((wanted[place] == instructions) & (found[place, 0] < 0))[::step]
                found[place[hit]] = np.column_stack([np.full(len(hit), track), rows[hit], starts[hit]])
        producer, consumer = ends[0][source_of], ends[1][sink_of]
        drawn = (producer[:, 0] >= 0) & (consumer[:, 0] >= 0) & (producer[:, 2] <= consumer[:, 2])
        producer, consumer = producer[drawn], consumer[drawn]
        numbers = np.arange(1, len(producer) + 1, dtype=np.int64)
        self._ends = np.concatenate([producer, consumer])[:, :2]
        self._numbers = np.concatenate([numbers, -numbers])

    def of_track(self, track: int, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets (rows + 1,) and flow numbers of the slices of a track; both empty if it has none."""
        chosen = np.flatnonzero(self._ends[:, 0] == track)
        if len(chosen) == 0:
            return _NONE, _NONE
        chosen = chosen[np.argsort(self._ends[chosen, 1], kind="stable")]
        edges = np.arange(rows.stop - rows.start + 1, dtype=np.int64)
        return np.searchsorted(self._ends[chosen, 1], edges), self._numbers[chosen]
