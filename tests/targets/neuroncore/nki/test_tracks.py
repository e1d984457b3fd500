"""Tracks by line and by loop, against a plain search through the trace and the calls of each instruction."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from npuviz.base.errors import FormatError
from npuviz.base.progress import NoProgress
from npuviz.debug.session import Session
from npuviz.program.loops import turns_of
from npuviz.program.source import HasCalls, HasSource, Place
from npuviz.trace.bundle.manifest import TEXT_NAME
from npuviz.trace.grouped import GroupedSource
from npuviz.trace.reader import TraceReader
from npuviz.trace.store import TraceStore
from npuviz.workbench.headless.bundles import export_bundle
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.opening import Opened, OpenOptions, open_file
from npuviz.workbench.tracks.by_line import line_grouping
from npuviz.workbench.tracks.by_loop import MAX_LANES, lanes_of, loop_grouping, with_loops
from tests.targets.neuroncore.nki.running import SECOND

KERNEL = (
    SECOND
    + """
def scaled(tile, times):
    for k in range(2):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(0, 256, 128):
        for j, _ in enumerate("abc"):
            part = nl.ds(3 * i + 128 * j, 128)
            tile = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[part])
            scaled(tile, 2)
            scaled(tile, 3)
            nisa.dma_copy(dst=out[part], src=tile)
    return out
"""
)
OPTIONS = OpenOptions(settings={"shape.a": "768x8"})
PATHS = [
    "Loops.for i :{i}",
    "Loops.for i :{i}.for j :{j}",
    "Loops.for i :{i}.for j :{j}.for k :{k}",
    "Loops.for i :{i}.for j :{j}.for k :{k} again 1",
]
"""The helper is called from two places: two loops over k."""


def kernel_file(folder: Path) -> Path:
    path = folder / "kernel.py"
    path.write_text(KERNEL)
    return path


def line_of(text: str) -> int:
    return KERNEL[: KERNEL.index(text)].count("\n") + 1


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made = open_file(kernel_file(tmp_path), OPTIONS)
    yield made
    made.close()


def session_of(opened: Opened) -> Session:
    assert opened.session is not None
    return opened.session


def recorded(opened: Opened) -> TraceReader:
    assert opened.reader is not None
    return opened.reader


Row = tuple[int, int, int, int]


def rows_with_instruction(reader: TraceReader) -> Iterator[tuple[int, Row]]:
    """Yield (track, (start, end, kind, instruction)) of all rows that were recorded for an instruction."""
    for track in reader.schema.tracks:
        if track.kind == "interval":
            rows = reader.interval_columns(track.id)
            for row in zip(
                *(c.tolist() for c in (rows.start, rows.end, rows.kind, rows.instruction)), strict=True
            ):
                if row[3] >= 0:
                    yield track.id, row


def spans_of_turns(reader: TraceReader, listing: HasCalls) -> dict[tuple[object, ...], tuple[int, int]]:
    """Return first start and last end of the work of each turn, by the way to it."""
    waits = {kind.id for kind in reader.schema.kinds if kind.role.startswith("wait-")}
    found: dict[tuple[object, ...], tuple[int, int]] = {}
    for _, (start, end, kind, instruction) in rows_with_instruction(reader):
        way: tuple[object, ...] = ()
        for call in reversed(listing.calls_of(instruction)):
            for loop in call.loops:
                way = *way, (loop.variable, loop.turn)
                if kind not in waits:
                    low, high = found.get(way, (start, end))
                    found[way] = min(low, start), max(high, end)
            way = *way, call.place
    return found


def made_of(reader: TraceReader, grouped: TraceReader) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Return the made tracks: name, and (start, end, name of the node) of their rows."""
    names = grouped.schema.node_names
    found: list[tuple[str, list[tuple[int, int, str]]]] = []
    for track in grouped.schema.tracks[len(reader.schema.tracks) :]:
        rows = grouped.interval_columns(track.id)
        nodes = [names[node] if node >= 0 else "" for node in rows.node.tolist()]
        found.append((track.name, list(zip(rows.start.tolist(), rows.end.tolist(), nodes, strict=True))))
    return found


def test_each_turn_spans_the_work_of_its_instructions(opened: Opened) -> None:
    session, reader = session_of(opened), recorded(opened)
    session.run()
    listing = session.program.listing
    assert isinstance(listing, HasCalls)
    made = made_of(reader, with_loops(reader, listing))
    lines = {"i": line_of("for i"), "j": line_of("for j"), "k": line_of("for k")}
    loops = list(dict.fromkeys(name.rpartition(".")[0] for name, _ in made))
    assert loops == [path.format(**lines) for path in PATHS]
    spans = sorted(span for span in spans_of_turns(reader, listing).values())
    assert sorted((start, end) for _, rows in made for start, end, _ in rows) == spans
    assert len(spans) == 2 + 6 + 12 + 12
    for _, rows in made:
        assert all(before[1] <= after[0] for before, after in pairwise(rows))
    texts = {text for name, rows in made if name.startswith(f"{loops[0]}.turns") for _, _, text in rows}
    assert texts == {"1 of 2", "2 of 2, i = 128"}


def test_a_turn_knows_its_instructions(opened: Opened) -> None:
    listing = session_of(opened).program.listing
    assert isinstance(listing, HasCalls)
    turns = turns_of(listing)
    assert turns is not None
    for number in range(len(turns)):
        way: list[tuple[str, int]] = []
        outer = number
        while outer >= 0:
            way.insert(0, (turns.loops[int(turns.loop[outer])].variable, int(turns.turn[outer])))
            outer = int(turns.outer[outer])
        inside = turns.instructions_of(number).tolist()
        for index in range(len(listing)):
            loops = [
                (loop.variable, loop.turn)
                for call in reversed(listing.calls_of(index))
                for loop in call.loops
            ]
            if len(way) < 3:
                assert (index in inside) == (loops[: len(way)] == way)
            elif index in inside:
                assert loops == way
    innermost = [number for number in range(len(turns)) if turns.loops[int(turns.loop[number])].depth == 2]
    assert [len(turns.instructions_of(number)) for number in innermost] == [1] * 24


def test_lines_have_the_rows_of_their_instructions(opened: Opened) -> None:
    session, reader = session_of(opened), recorded(opened)
    session.run()
    listing = session.program.listing
    assert isinstance(listing, HasSource)
    grouping = line_grouping(listing)
    assert grouping is not None
    source = GroupedSource(reader.source, grouping)
    source.update()
    grouped = TraceReader(source)
    wanted: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for track, row in rows_with_instruction(reader):
        place = listing.place_of(row[3])
        if place is not None:
            wanted[place.line, track].append(row)
    found: dict[tuple[int, int], list[Row]] = {}
    for track in grouped.schema.tracks[source.num_recorded :]:
        _, line, name = track.name.split(".")
        columns = grouped.interval_columns(track.id)
        parts = (columns.start, columns.end, columns.kind, columns.instruction)
        origin = source.origin_of(track.id)
        assert reader.schema.tracks[origin].name.endswith(f".{name}")
        found[int(line.removeprefix("line ")), origin] = list(
            zip(*(part.tolist() for part in parts), strict=True)
        )
    assert found == wanted


def test_tracks_follow_a_run_and_a_history_that_is_rewritten(opened: Opened) -> None:
    session, reader = session_of(opened), recorded(opened)
    listing = session.program.listing
    grouping = loop_grouping(listing)
    assert grouping is not None
    source = GroupedSource(reader.source, grouping)
    grouped = TraceReader(source)
    session.go_to(3000)
    assert source.update()
    early = made_of(reader, grouped)
    assert early
    session.run()
    assert source.update()
    assert not source.update()
    whole = made_of(reader, grouped)
    assert whole == made_of(reader, with_loops(reader, listing))
    assert whole != early
    assert isinstance(reader.source, TraceStore)
    reader.source.truncate(3000)
    assert source.update()
    assert made_of(reader, grouped) == made_of(reader, with_loops(reader, listing)) != whole


def test_more_turns_at_once_than_lanes_lengthen_one() -> None:
    count = MAX_LANES + 40
    first = np.arange(count, dtype=np.int64)
    last = first + 10_000
    lanes, ends = lanes_of(first, last)
    kept = ends > first
    assert int(lanes.max()) == MAX_LANES - 1
    assert int(kept.sum()) == MAX_LANES
    assert int(ends.max()) == int(last.max())
    for lane in range(MAX_LANES):
        mine = np.flatnonzero(kept & (lanes == lane))
        assert (first[mine][1:] >= ends[mine][:-1]).all()


def test_perfetto_has_the_loops(tmp_path: Path) -> None:
    out = tmp_path / "run.pftrace"
    run_model(kernel_file(tmp_path), RunOptions(OPTIONS, exports=(("perfetto", out),)))
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(out.read_bytes())
    tracks = {p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
    names = {one.name for p in trace.packet for one in p.interned_data.event_names}
    assert {"Loops", f"for j :{line_of('for j')}", "turns 1"} <= tracks
    assert {"iteration 1 of 3", "iteration 3 of 3", "iteration 2 of 2, i = 128"} <= names


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A recorded run, and no kernel beside it any more."""
    path = kernel_file(tmp_path)
    run_model(path, RunOptions(replace(OPTIONS, record=tmp_path / "run.npuviz")))
    path.unlink()
    return tmp_path / "run.npuviz"


def test_a_bundle_keeps_lines_and_loops(bundle: Path, opened: Opened) -> None:
    session, reader = session_of(opened), recorded(opened)
    session.run()
    listing = session.program.listing
    assert isinstance(listing, HasSource)
    closed = open_file(bundle)
    text = closed.text
    assert text is not None
    assert len(text) == len(listing)
    assert [text.place_of(index) for index in range(len(text))] == [
        place if place is None else Place(place.file, place.line)
        for place in map(listing.place_of, range(len(text)))
    ]
    made = made_of(recorded(closed), with_loops(recorded(closed), closed.listing))
    assert made == made_of(reader, with_loops(reader, listing))
    assert len(made) > 3
    lines: list[list[tuple[str, list[tuple[int, int, str]]]]] = []
    for one, known in ((recorded(closed), text), (reader, listing)):
        grouping = line_grouping(known)
        assert grouping is not None
        source = GroupedSource(one.source, grouping)
        source.update()
        lines.append(made_of(one, TraceReader(source)))
    assert lines[0] == lines[1]
    assert lines[0]
    for line in text.lines_with_code(0):
        inside = {index for first, end in text.ranges_of_line(0, line) for index in range(first, end)}
        assert inside == {i for i in range(len(text)) if text.place_of(i) == Place(0, line)}


def test_a_bundle_is_exported_with_its_loops(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.pftrace"
    export_bundle(bundle, "perfetto", out, "", NoProgress())
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(out.read_bytes())
    names = {one.name for p in trace.packet for one in p.interned_data.event_names}
    assert {"iteration 1 of 3", "iteration 2 of 2, i = 128"} <= names


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda text: text.pop("sources"), "sources"),
        (lambda text: text["sources"][0].pop("name"), "sources"),
        (lambda text: text["places"][0].append(1), "places"),
        (lambda text: text["places"].__setitem__(0, [9, 1]), "places"),
        (lambda text: text["line"].__setitem__(0, len(text["places"])), "line"),
        (lambda text: text["line"].__setitem__(0, 1 << 70), "line"),
        (lambda text: text["line"].append(0), "innermost"),
        (lambda text: text["loops"][0].__setitem__(3, 0), "loops"),
        (lambda text: text.__setitem__("loops", []), "turns"),
        (lambda text: text.__setitem__("turns", 3), "turns"),
        (lambda text: text["turns"]["count"].pop(), "turns"),
        (lambda text: text["turns"]["outer"].__setitem__(0, 0), "turns.outer"),
        (lambda text: text["turns"]["outer"].__setitem__(-1, -1), "turns.outer"),
        (lambda text: text["turns"]["value"].__setitem__(0, True), "turns.value"),
        (lambda text: text["innermost"].__setitem__(0, "a"), "innermost"),
    ],
)
def test_damaged_lines_and_loops_are_refused(
    bundle: Path, change: Callable[[dict[str, Any]], object], field: str
) -> None:
    text = json.loads((bundle / TEXT_NAME).read_bytes())
    change(text)
    (bundle / TEXT_NAME).write_text(json.dumps(text))
    with pytest.raises(FormatError, match=f"{TEXT_NAME}.*{field}") as found:
        open_file(bundle)
    assert "record it again" in str(found.value)


def test_a_program_without_loops_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        SECOND
        + """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out
"""
    )
    opened = open_file(tmp_path / "one.py", OpenOptions(settings={"shape.a": "128x8"}))
    try:
        reader = recorded(opened)
        assert with_loops(reader, session_of(opened).program.listing) is reader
        assert with_loops(reader, object()) is reader
        assert loop_grouping(object()) is None
        assert line_grouping(object()) is None
    finally:
        opened.close()
