"""Perfetto's own protobuf classes read what the exporter wrote."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from npuviz.base.errors import Cancelled, ExportError
from npuviz.base.progress import CallbackProgress, NoProgress
from npuviz.export import perfetto
from npuviz.export.perfetto import EXPORTER, PerfettoExporter
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder
from npuviz.trace.schema import FLOW, INTERVAL, TraceSchema
from tests.trace import recordings
from tests.trace.recordings import SCHEMA, Instructions, random_events, record, row

Slice = tuple[str, str, int, int, int]


class Parsed:
    """A Perfetto trace put together again as its own tools do it."""

    def __init__(self, path: Path) -> None:
        trace: Any = perfetto_trace_pb2.Trace()
        trace.ParseFromString(path.read_bytes())
        self.descriptors: dict[int, Any] = {}
        names: dict[int, str] = {}
        annotations: dict[int, str] = {}
        open_slices: dict[int, list[Any]] = {}
        self.slices: list[Slice] = []
        self.annotations: list[dict[str, int]] = []
        self.counters: dict[str, list[tuple[int, int]]] = {}
        self.flow_begins: dict[int, Slice | Any] = {}
        self.flow_ends: dict[int, Any] = {}
        for packet in trace.packet:
            for one in packet.interned_data.event_names:
                assert names.setdefault(one.iid, one.name) == one.name
            for one in packet.interned_data.debug_annotation_names:
                annotations[one.iid] = one.name
            if packet.HasField("track_descriptor"):
                self.descriptors[packet.track_descriptor.uuid] = packet.track_descriptor
            elif packet.HasField("track_event"):
                event = packet.track_event
                track = self.path_of(event.track_uuid)
                if event.type == event.TYPE_SLICE_BEGIN:
                    assert packet.sequence_flags == 2
                    open_slices.setdefault(event.track_uuid, []).append((packet.timestamp, event))
                elif event.type == event.TYPE_SLICE_END:
                    begin, opened = open_slices[event.track_uuid].pop()
                    found = {annotations[a.name_iid]: a.int_value for a in opened.debug_annotations}
                    number = found.get("instruction", -1)
                    one_slice = (track, names[opened.name_iid], begin, packet.timestamp, number)
                    self.slices.append(one_slice)
                    self.annotations.append(found)
                    self.flow_begins |= dict.fromkeys(opened.flow_ids, one_slice)
                    self.flow_ends |= dict.fromkeys(opened.terminating_flow_ids, one_slice)
                else:
                    assert event.type == event.TYPE_COUNTER
                    self.counters.setdefault(track, []).append((packet.timestamp, event.counter_value))
        assert not any(open_slices.values())

    def path_of(self, uuid: int) -> str:
        descriptor = self.descriptors[uuid]
        own = descriptor.process.process_name or descriptor.name
        return f"{self.path_of(descriptor.parent_uuid)}/{own}" if descriptor.parent_uuid else own


def export(
    tmp_path: Path,
    rows: np.ndarray,
    window: tuple[int, int] | None = None,
    exporter: PerfettoExporter = EXPORTER,
    schema: TraceSchema = SCHEMA,
) -> Parsed:
    recorder = record(rows, 1, Recorder(schema, Instructions()))
    exporter.export(TraceReader(recorder.store), window, tmp_path / "out.pftrace", NoProgress())
    return Parsed(tmp_path / "out.pftrace")


def name_of(kind: int, instruction: int) -> str:
    kind_name = next(k.name for k in SCHEMA.kinds if k.id == kind)
    return f"{kind_name} node {instruction % recordings.NUM_NODES}" if instruction >= 0 else kind_name


PATHS = {0: "test made up/Core[0]/LD", 1: "test made up/Core[0]/PE", 4: "test made up/Core[10]/PE"}


def test_slices_and_counters_are_what_was_recorded(tmp_path: Path) -> None:
    rows = random_events(6, 300)
    parsed = export(tmp_path, rows)
    expected = Counter(
        (PATHS[track], name_of(kind, instruction), start, end, instruction)
        for track in PATHS
        for start, end, kind, instruction in recordings.intervals_of(rows, track)
    )
    assert Counter(parsed.slices) == expected
    for track, path in ((2, "test made up/Core[0]/LD.occupancy"), (3, "test made up/DRAM/read")):
        values = recordings.counter_of(rows, track)
        start = [] if values[0][0] == 0 else [(0, 0)]
        assert parsed.counters[path] == start + values


def test_a_small_buffer_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_events(5, 200)
    whole = export(tmp_path, rows)
    monkeypatch.setattr(perfetto, "BUFFER_BYTES", 700)
    pieces = export(tmp_path, rows)
    assert (pieces.slices, pieces.counters) == (whole.slices, whole.counters)


def test_tracks_are_nested_ordered_and_measured(tmp_path: Path) -> None:
    parsed = export(tmp_path, random_events(1, 3))
    by_path = {parsed.path_of(uuid): descriptor for uuid, descriptor in parsed.descriptors.items()}
    ranks = {path: d.sibling_order_rank for path, d in by_path.items()}
    root = "test made up"
    assert [ranks[f"{root}/{name}"] for name in ("Core[0]", "DRAM", "Core[10]")] == [0, 1, 2]
    assert [ranks[f"{root}/Core[0]/{name}"] for name in ("LD", "PE", "LD.occupancy")] == [0, 1, 2]
    assert by_path[f"{root}/Core[0]/LD.occupancy"].counter.unit_name == "entries"
    counter = by_path[f"{root}/DRAM/read"].counter
    assert counter.unit == counter.UNIT_SIZE_BYTES
    assert by_path[f"{root}/Core[0]/PE"].description == "the array"


@pytest.mark.parametrize(
    ("frequency", "over", "under"), [(1e9, 1, 1), (5e8, 2, 1), (1.4e9, 5, 7), (9.4e8, 50, 47)]
)
def test_times_are_nanoseconds(tmp_path: Path, frequency: float, over: int, under: int) -> None:
    far = 3 * 10**12
    rows = np.array([row(INTERVAL, 0, 0, 3, 10, 1), row(INTERVAL, 0, 0, far, far + 7, 2)], dtype=np.int64)
    parsed = export(tmp_path, rows, schema=replace(SCHEMA, frequency_hz=frequency))
    times = [(begin, end) for _, _, begin, end, _ in parsed.slices]
    assert times == [
        (3 * over // under, 10 * over // under),
        (far * over // under, (far + 7) * over // under),
    ]
    assert ("cycle" in parsed.annotations[0]) == (under != 1)
    assert parsed.annotations[1].get("cycle", far) == far


def test_flows_join_the_working_slices(tmp_path: Path) -> None:
    rows = np.array(
        [
            row(INTERVAL, 0, 2, 0, 4, 10),  # instruction 10 waits,
            row(INTERVAL, 0, 0, 4, 9, 10),  # then works
            row(INTERVAL, 1, 1, 10, 12, 11),
            row(FLOW, 0, 0, 10, 10, 11),
            row(INTERVAL, 1, 5, 12, 15, 12),
            row(FLOW, 0, 0, 12, 10, 12),
            row(FLOW, 0, 0, 13, 11, 12),
            row(FLOW, 0, 0, 14, 12, 99),  # nobody saw instruction 99
            row(FLOW, 0, 0, 14, 12, 10),  # against time
        ],
        dtype=np.int64,
    )
    parsed = export(tmp_path, rows)
    joined = {(parsed.flow_begins[f][2:4], end[2:4]) for f, end in parsed.flow_ends.items()}
    assert joined == {((4, 9), (10, 12)), ((4, 9), (12, 15)), ((10, 12), (12, 15))}
    assert len(parsed.flow_begins) == len(parsed.flow_ends) == 3


def test_many_flows_of_one_slice(tmp_path: Path) -> None:
    """The event is longer than 127 bytes: its length takes two bytes."""
    slices = [row(INTERVAL, 0, 0, 0, 4, 0)] + [row(INTERVAL, 1, 1, 5 + i, 6 + i, i + 1) for i in range(60)]
    flows = [row(FLOW, 0, 0, 70, 0, i + 1) for i in range(60)]
    parsed = export(tmp_path, np.array(slices + flows, dtype=np.int64))
    assert len(parsed.flow_begins) == 60
    assert parsed.flow_begins.keys() == parsed.flow_ends.keys()


def test_a_window_takes_what_overlaps_it(tmp_path: Path) -> None:
    rows = random_events(6, 100)
    parsed = export(tmp_path, rows, (100, 180), PerfettoExporter(annotate=False))
    expected = Counter(
        (PATHS[track], name_of(kind, instruction), start, end, -1)
        for track in PATHS
        for start, end, kind, instruction in recordings.intervals_of(rows, track)
        if end > 100 and start < 180
    )
    assert Counter(parsed.slices) == expected
    for values in parsed.counters.values():
        assert values[0][0] == 100
        assert values[-1][0] < 180


def test_failures_leave_nothing(tmp_path: Path) -> None:
    reader = TraceReader(record(random_events(6, 50)).store)
    with pytest.raises(ExportError, match="cannot write"):
        EXPORTER.export(reader, None, tmp_path / "no" / "out.pftrace", NoProgress())
    with pytest.raises(ExportError, match="empty"):
        EXPORTER.export(reader, (5, 5), tmp_path / "out.pftrace", NoProgress())
    (tmp_path / "out.pftrace").write_text("earlier")
    progress = CallbackProgress(lambda fraction, text: progress.cancel())
    with pytest.raises(Cancelled):
        EXPORTER.export(reader, None, tmp_path / "out.pftrace", progress)
    assert [path.name for path in tmp_path.iterdir()] == ["out.pftrace"]
    assert (tmp_path / "out.pftrace").read_text() == "earlier"
