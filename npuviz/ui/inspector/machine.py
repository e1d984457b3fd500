"""Inspector pages of the machine: units, tracks, ranges of cycles, and the overview."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from npuviz.base.names import natural_key
from npuviz.base.units import format_count, format_cycles_as_time
from npuviz.program.instruction import DetailTable
from npuviz.program.program import Note, Program
from npuviz.sim.description import Memory, Queue, Unit
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import Track
from npuviz.trace.unit_times import UnitTime, kind_times, time_of_tracks, tracks_of_units, unit_times
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page import (
    Cell,
    Field,
    Page,
    Section,
    Table,
    bytes_cell,
    count_cell,
    field,
    listed,
    muted_cell,
    number_cell,
    share_cell,
    span_cells,
    text_cell,
)
from npuviz.ui.inspector.tables import report_table
from npuviz.ui.kit.trace_facts import BUSY_MEANS, WAITING_MEANS
from npuviz.workbench.selection import MemoryRange, Selection, selected

MAX_ROWS = 128
MAX_UNITS = 32
"""Most rows of units on the page of the machine, which is written again at every step."""


def unit_page(source: InspectorSource, unit: Unit) -> Page:
    """Return the page of a unit."""
    about = (muted_cell(unit.doc),) if unit.doc else ()
    sections = [Section("Now", _state_fields(source, unit), sentences=about)]
    sections += _time_sections(source, unit.id)
    sections += _queues(source, unit.id)
    probes = _probe_fields(source, unit)
    if probes:
        sections.append(Section("Probes", probes))
    suffix = "cost is an assumption" if unit.estimated else unit.group
    return Page("Unit", unit.name, suffix, tuple(sections))


def track_page(source: InspectorSource, track: Track, cycles: tuple[int, int] | None) -> Page:
    """Return the page of a track, with one interval: at `cycles` if given, else at the cursor."""
    reader = source.reader
    facts = [field("Unit", source.unit_cell(track.unit))]
    if reader is None:
        return Page("Track", track.name, track.doc, (Section("", tuple(facts)),))
    sections: list[Section] = []
    if track.kind == "counter":
        facts += _counter_fields(reader, track, source.cycle)
        return Page("Counter", track.name, track.doc, (Section("", tuple(facts)),))
    at = reader.at(track.id, cycles[0] if cycles else max(0, source.cycle - 1))
    if at is not None:
        title = "Interval" if cycles else "At the cursor"
        sections.append(Section(title, _interval_fields(source, reader, track, at)))
    facts.append(field("Intervals", count_cell(reader.num_intervals_of(track.id))))
    sections.append(Section("Track", tuple(facts)))
    sections += _kind_sections(source, [track.id])
    return Page("Track", track.name, track.doc, tuple(sections))


def range_page(source: InspectorSource, cycles: tuple[int, int]) -> Page:
    """Return the page of a range of cycles: what units did, and values of counters."""
    start, end = min(cycles), max(cycles)
    head = Section("", (field("Cycles", *span_cells(start, end, source.frequency_hz)),))
    reader = source.reader
    if reader is None or end <= start:
        return Page("Range", f"{format_count(end - start)} cycles", "", (head,))
    counters: list[tuple[Cell, ...]] = []
    known = [track for track in reader.schema.tracks if track.kind == "counter"]
    for track in sorted(known, key=lambda t: natural_key(t.name))[:MAX_ROWS]:
        _, low, high, last = reader.counter(track.id, (start, end), 1)
        values = (count_cell(int(column[0])) for column in (low, high, last))
        link = Selection(track=track.id)
        counters.append((text_cell(track.name, link), *values, text_cell(track.measure)))
    sections = [head, _units_of_range(source, (start, end))]
    if counters:
        headers = ("Counter", "Lowest", "Highest", "Last", "Measure")
        table = Table(headers, tuple(counters), max(0, len(known) - MAX_ROWS))
        sections.append(Section("Counters", table=table))
    return Page("Range", f"{format_count(end - start)} cycles", "", tuple(sections))


def machine_page(source: InspectorSource) -> Page:
    """Return the page of the machine and its program, which is shown when nothing is selected."""
    description, program = source.description, source.program
    if description is None or program is None:
        return bundle_page(source)
    clock = description.base_clock
    facts: list[Field] = []
    for domain in description.clocks:
        facts.append(field(f"Clock {domain.name}", text_cell(f"{domain.frequency_hz / 1e6:g} MHz")))
    time = format_cycles_as_time(source.cycle, clock.frequency_hz)
    facts.append(field("Cycle", count_cell(source.cycle), text_cell(time)))
    if source.session is not None and source.session.end_cycle is not None:
        facts.append(field("End", count_cell(source.session.end_cycle)))
    facts.append(field("Operators", count_cell(len(program.graph.nodes))))
    facts.append(field("Instructions", count_cell(len(program.listing))))
    sections = [Section("", tuple(facts)), _units(source)]
    sections += source.made_of("memories", description.memories, _memories)
    for number, report in enumerate(source.reports()):
        sections += source.made_of(f"report {number}", report, partial(_report, program))
    sections += source.made_of("notes", program.notes, _notes)
    if description.limits:
        sentences = tuple(text_cell(f"\u2022 {limit}") for limit in description.limits)
        sections.append(Section("What the model does not model", sentences=sentences))
    return Page("Machine", description.title, program.title, tuple(sections))


def _memories(memories: Sequence[Memory]) -> list[Section]:
    return listed("Memories", ("Memory", "Size", "Banks"), memories, _memory_row, MAX_ROWS)


def _notes(notes: Sequence[Note]) -> list[Section]:
    return listed("Notes", ("Code", "Note"), notes, _note_row, MAX_ROWS)


def _report(program: Program, report: DetailTable) -> list[Section]:
    nodes = {node.name: Selection(node=node.id) for node in program.graph.nodes if node.name}
    return report_table(report, nodes)


def bundle_page(source: InspectorSource) -> Page:
    """Return the page of a trace bundle."""
    reader = source.reader
    if reader is None:
        return Page("Machine", "Nothing is open")
    schema = reader.schema
    facts = [
        field("Machine", text_cell(schema.target)),
        field("Cycles", *span_cells(0, reader.end_cycle, schema.frequency_hz)),
        field("Intervals", count_cell(reader.num_intervals)),
        field("Operators", count_cell(len(schema.node_names))),
        field("Tensors", count_cell(len(schema.tensor_names))),
    ]
    sections = [Section("", tuple(facts))]
    if not reader.is_complete:
        sentence = text_cell("The run was killed: the trace ends before the program does.", role="warning")
        sections.insert(0, Section("", sentences=(sentence,)))
    sections.append(_units_of_range(source, (0, reader.end_cycle)))
    rows = tuple((text_cell(name), bytes_cell(size)) for name, size in schema.memory_names[:MAX_ROWS])
    sections.append(Section("Memories", table=Table(("Memory", "Size"), rows)))
    return Page("Trace", schema.title or "Trace bundle", "a recorded run, without machine", tuple(sections))


def _units_of_range(source: InspectorSource, cycles: tuple[int, int]) -> Section:
    """List the units with their busy and waiting shares of a range, and the kind that took most of it."""
    reader = source.reader
    assert reader is not None
    kinds = {kind.id: kind for kind in reader.schema.kinds}
    owned = {
        source.unit_name(unit): (unit, tracks) for unit, tracks in tracks_of_units(reader.schema).items()
    }
    rows: list[tuple[Cell, ...]] = []
    heading = ""
    for name in sorted(owned, key=natural_key)[:MAX_ROWS]:
        unit, tracks = owned[name]
        group = name.rpartition(".")[0]
        if group != heading and group:
            # To save room, the common beginning of the units' names is a heading above them.
            rows.append((muted_cell(group), *(text_cell("") for _ in range(3))))
        heading = group
        link = Selection(unit=unit) if source.unit(unit) is not None else Selection(track=tracks[0])
        amounts = kind_times(reader, tracks, cycles, source.under_way)
        kind = kinds.get(max(amounts, key=lambda number: (amounts[number], -number), default=-1))
        mostly = text_cell(kind.name, role=kind.role) if kind else muted_cell("idle")
        time = time_of_tracks(reader, tracks, cycles, source.under_way)
        rows.append((text_cell(name.removeprefix(f"{group}."), link), *_parts(time), mostly))
    headers = ("Unit", "Busy", "Waiting", "Mostly")
    about = (muted_cell(f"{BUSY_MEANS}. {WAITING_MEANS}."),)
    table = Table(headers, tuple(rows), max(0, len(owned) - MAX_ROWS))
    return Section("Units", sentences=about, table=table)


def _parts(time: UnitTime) -> tuple[Cell, ...]:
    cycles = max(time.cycles, 1)
    # One bar a row: the inspector is narrow.
    return share_cell(time.busy / cycles), replace(share_cell(time.waiting / cycles), fraction=-1.0)


def _note_row(note: Note) -> tuple[Cell, ...]:
    return (
        text_cell(note.code, role="text-muted" if note.severity == "info" else note.severity),
        text_cell(note.text, Selection(node=note.node) if note.node >= 0 else None),
    )


def _memory_row(memory: Memory) -> tuple[Cell, ...]:
    link = Selection(memory=MemoryRange(memory.id, 0, max(1, memory.size_bytes)))
    return text_cell(memory.name, link), bytes_cell(memory.size_bytes), count_cell(memory.num_banks)


def _state_fields(source: InspectorSource, unit: Unit) -> tuple[Field, ...]:
    session = source.session
    if session is None:
        return (field("Status", muted_cell("shown while the machine stands still")),)
    state = next((s for s in session.machine.unit_states() if s.unit == unit.id), None)
    fields: list[Field] = []
    if state is not None:
        fields.append(field("Status", Cell(state.status, role=state.role, is_estimated=unit.estimated)))
        if state.detail:
            fields.append(field("Why", text_cell(state.detail)))
        if state.since >= 0:
            passed = f"{format_count(max(0, source.cycle - state.since))} cycles ago"
            fields.append(field("Since", count_cell(state.since), muted_cell(passed)))
        if state.instruction >= 0:
            fields.append(field("Holds", source.instruction_cell(state.instruction)))
    following = session.machine.next_instructions().get(unit.id, -1)
    if following >= 0:
        fields.append(field("Next", source.instruction_cell(following)))
    return tuple(fields)


def _known_until(source: InspectorSource, reader: TraceReader) -> int:
    """Return the cursor if it lies inside the trace, else the end of the trace."""
    is_before = source.session is not None and 0 < source.cycle < reader.end_cycle
    return source.cycle if is_before else reader.end_cycle


def _kind_sections(source: InspectorSource, tracks: Sequence[int]) -> list[Section]:
    """List the cycles per interval kind up to the cursor, over some tracks."""
    reader = source.reader
    if reader is None or not tracks or (end := _known_until(source, reader)) <= 0:
        return []
    rows = _kind_rows(reader, kind_times(reader, tracks, (0, end), source.under_way), end)
    return listed(_span_title(end), ("What", "Cycles", "Share"), rows, lambda row: row)


def _time_sections(source: InspectorSource, unit: int) -> list[Section]:
    """List a unit's busy, waiting and idle cycles up to the cursor, then the cycles per interval kind."""
    reader = source.reader
    tracks = tracks_of_units(reader.schema).get(unit, []) if reader is not None else []
    if reader is None or not tracks or (end := _known_until(source, reader)) <= 0:
        return []
    time = time_of_tracks(reader, tracks, (0, end), source.under_way)
    sums = (("Busy", time.busy), ("Waiting", time.waiting), ("Idle", time.idle))
    rows = [(text_cell(name), count_cell(part), share_cell(part / end)) for name, part in sums]
    table = Table(("What", "Cycles", "Share"), tuple(rows))
    about = (muted_cell(f"{BUSY_MEANS}. {WAITING_MEANS}."),)
    kinds = _kind_rows(reader, kind_times(reader, tracks, (0, end), source.under_way), end)
    found = [Section(_span_title(end), sentences=about, table=table)]
    return found + listed("Kinds", ("What", "Cycles", "Share"), kinds, lambda row: row)


def _span_title(end: int) -> str:
    return f"Cycles 0 \u2013 {format_count(end)}"


def _kind_rows(reader: TraceReader, amounts: dict[int, int], end: int) -> list[tuple[Cell, ...]]:
    """Return a row for each kind with its cycles, the largest first."""
    kinds = {kind.id: kind for kind in reader.schema.kinds}
    ordered = sorted((number for number in amounts if number in kinds), key=lambda n: -amounts[n])
    return [
        (
            text_cell(kinds[number].name, role=kinds[number].role),
            count_cell(amounts[number]),
            share_cell(amounts[number] / end),
        )
        for number in ordered
    ]


def _queues(source: InspectorSource, unit: int) -> list[Section]:
    description, session = source.description, source.session
    if description is None or session is None:
        return []

    def row(queue: Queue) -> tuple[Cell, ...]:
        capacity = count_cell(queue.capacity) if queue.capacity else text_cell("unlimited")
        return text_cell(queue.name), count_cell(int(session.read(queue.probe))), capacity

    own = [queue for queue in description.queues if queue.unit == unit]
    return listed("Queues", ("Queue", "Entries", "Capacity"), own, row)


def _probe_fields(source: InspectorSource, unit: Unit) -> tuple[Field, ...]:
    """Return the values of the scalar probes whose id begins with the unit's name."""
    session = source.session
    if session is None:
        return ()
    fields: list[Field] = []
    for probe in session.machine.probes:
        if probe.id.startswith(unit.name + ".") and not probe.shape:
            value = session.read(probe.id)
            text = format_count(value) if isinstance(value, int) else f"{value:g}"
            shown = number_cell(f"{text} {probe.measure}".strip())
            fields.append(field(probe.id[len(unit.name) + 1 :], shown, muted_cell(probe.title)))
    return tuple(fields[:MAX_ROWS])


def _counter_fields(reader: TraceReader, track: Track, cycle: int) -> list[Field]:
    columns = reader.counter_columns(track.id)
    now = reader.value_at(track.id, max(0, cycle - 1))
    fields = [field("At the cursor", count_cell(now, measure=track.measure))]
    if track.maximum:
        fields.append(field("Largest possible", count_cell(track.maximum, measure=track.measure)))
    if len(columns):
        ends = np.append(columns.cycle[1:], max(reader.end_cycle, int(columns.cycle[-1])))
        lengths = (ends - columns.cycle).astype(np.float64)
        span = float(reader.end_cycle) or 1.0
        fields.append(field("Lowest", count_cell(int(columns.value.min()))))
        mean = float((columns.value * lengths).sum()) / span
        fields.append(field("Mean", number_cell(f"{mean:.4g}")))
        fields.append(field("Highest", count_cell(int(columns.value.max()))))
        fields.append(field("Changes", count_cell(len(columns))))
    return fields


def _interval_fields(
    source: InspectorSource, reader: TraceReader, track: Track, row: np.void
) -> tuple[Field, ...]:
    kind = next((k for k in reader.schema.kinds if k.id == int(row["kind"])), None)
    start, end = int(row["start"]), int(row["end"])
    link = selected(track=track.id, cycles=(start, end), unit=track.unit)
    fields = [
        field("What", text_cell(kind.name if kind else "", role=kind.role if kind else "")),
        field("Cycles", *span_cells(start, end, source.frequency_hz, link)),
        field("Operator", source.node_cell(int(row["node"]))),
        field("Instruction", source.instruction_cell(int(row["instruction"]))),
    ]
    if kind and kind.doc:
        fields.insert(1, field("Means", muted_cell(kind.doc)))
    return tuple(fields)


def _units(source: InspectorSource) -> Section:
    description, reader = source.description, source.reader
    assert description is not None
    machine = source.session.machine if source.session else None
    states = {state.unit: state for state in machine.unit_states(MAX_UNITS)} if machine else {}
    shown = [unit.id for unit in description.units[:MAX_UNITS]]
    times: dict[int, UnitTime] = {}
    if reader is not None and source.cycle > 0:
        times = unit_times(reader, (0, source.cycle), shown, source.under_way)
    rows: list[tuple[Cell, ...]] = []
    group = heading = ""
    for unit in description.units[:MAX_UNITS]:
        if unit.group != group and unit.name.startswith(f"{unit.group}."):
            heading = unit.group
            rows.append((muted_cell(heading), text_cell(""), text_cell("")))
        group = unit.group
        state, time = states.get(unit.id), times.get(unit.id)
        busy = share_cell(time.share) if time is not None else text_cell("")
        status = Cell(state.status, role=state.role, is_estimated=unit.estimated) if state else text_cell("")
        link = source.unit_cell(unit.id)
        rows.append((replace(link, text=unit.name.removeprefix(f"{heading}.")), status, busy))
    left_out = max(0, len(description.units) - MAX_UNITS)
    return Section("Units", table=Table(("Unit", "Status", "Busy"), tuple(rows), left_out))
