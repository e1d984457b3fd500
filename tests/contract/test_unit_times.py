"""What units did with their time is the same everywhere: machine, window, SQL and export, for every unit."""

from pathlib import Path

import pyarrow.csv as csv
import pytest

from npuviz.base.progress import NoProgress
from npuviz.debug.session import Session
from npuviz.export.tables import TableExporter
from npuviz.sim.machine import Machine
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.trace.bundle.bundle import BundleWriter, open_bundle
from npuviz.trace.bundle.query import query
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder
from npuviz.trace.unit_times import unit_times
from npuviz.ui.timeline.index import TimelineIndex
from npuviz.ui.timeline.measure import measure
from npuviz.workbench.costs import costs
from npuviz.workbench.under_way import under_way
from tests.contract.registry import CASES, Case
from tests.contract.runs import run_straight
from tests.toy.session import make_recorder

Times = dict[int, tuple[int, int, int]]
"""Unit id -> busy, waiting and idle cycles."""


def of_machine(machine: Machine) -> Times:
    """As `run --json` tells."""
    ids = {unit.name: unit.id for unit in machine.description.units}
    return {
        ids[name]: (busy, waiting, machine.cycle - busy - waiting)
        for name, busy, waiting in machine.summary().units
    }


def of_trace(reader: TraceReader, machine: Machine | None = None) -> Times:
    """As inspector and floorplan tell."""
    rows = under_way(machine, reader)
    times = unit_times(reader, (0, machine.cycle) if machine is not None else None, under_way=rows)
    return {unit: (time.busy, time.waiting, time.idle) for unit, time in times.items()}


def of_costs(reader: TraceReader) -> Times:
    """As the costs panel tells, of units that worked at all."""
    found = costs(reader, "unit")
    rows = zip(found.key.tolist(), found.work.tolist(), found.waiting.tolist(), strict=True)
    return {unit: (busy, waiting, found.end - busy - waiting) for unit, busy, waiting in rows}


def of_measure_box(reader: TraceReader) -> Times:
    """As the measure box tells of all tracks of one unit."""
    index, end, found = TimelineIndex(reader), reader.end_cycle, Times()
    for unit in {track.unit for track in reader.schema.tracks if track.kind == "interval"} - {-1}:
        box = measure(index, [track for track in reader.schema.tracks if track.unit == unit], 0, end)
        busy, waiting = round(box.busy * end), round(box.waiting * end)
        assert box.num_units == 1
        found[unit] = busy, waiting, end - busy - waiting
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_views_agree_on_every_unit(case: Case, tmp_path: Path) -> None:
    machine = case.make()
    schema = schema_of(machine.description, machine.program)
    resolver = ProgramResolver(machine.program.listing, machine.description.memories)
    recorder = Recorder(schema, resolver, BundleWriter(tmp_path / "run.npuviz", schema))
    session = Session(machine, recorder)
    session.run()
    expected = of_machine(machine)
    assert any(busy for busy, _, _ in expected.values())
    assert all(min(parts) >= 0 and sum(parts) == machine.cycle for parts in expected.values())
    assert session.trace is not None
    assert of_trace(session.trace) == expected
    assert of_costs(session.trace) == {unit: parts for unit, parts in expected.items() if parts[0]}
    assert of_measure_box(session.trace) == expected
    recorder.close()
    bundle = tmp_path / "run.npuviz"
    assert of_trace(open_bundle(bundle)) == expected
    rows = query(bundle, "select unit, busy, waiting, idle from unit_times").rows
    assert {unit: parts for unit, *parts in rows} == {unit: [*parts] for unit, parts in expected.items()}
    TableExporter("csv").export(open_bundle(bundle), None, tmp_path / "tables", NoProgress())
    table = csv.read_csv(tmp_path / "tables" / "units.csv").to_pylist()
    assert {row["unit"]: (row["busy"], row["waiting"], row["idle"]) for row in table} == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_machine_and_trace_agree_at_any_cycle(case: Case) -> None:
    machine = case.make()
    session = Session(machine, make_recorder(machine))
    assert session.trace is not None
    for cycle in run_straight(case.make).sample(9):
        session.run(cycle)
        assert of_trace(session.trace, machine) == of_machine(machine), f"cycle {cycle}"
    session.go_to(machine.cycle // 3)
    # The trace goes on behind this cycle: it may know why a unit stands still before the machine can.
    later, now = of_trace(session.trace, machine), of_machine(machine)
    assert {unit: busy for unit, (busy, _, _) in later.items()} == {u: now[u][0] for u in later}
    assert all(now[unit][1] <= waiting for unit, (_, waiting, _) in later.items())


def test_times_of_two_parts_add_up_to_those_of_the_whole() -> None:
    machine = next(case for case in CASES if case.name == "toy").make()
    session = Session(machine, make_recorder(machine))
    session.run()
    reader = session.trace
    assert reader is not None
    end = reader.end_cycle
    whole = unit_times(reader, (0, end))
    for cycle in (1, end // 3, end - 1):
        parts = unit_times(reader, (0, cycle)), unit_times(reader, (cycle, end))
        for unit, time in whole.items():
            assert time.busy == sum(part[unit].busy for part in parts), (cycle, unit)
            assert time.waiting == sum(part[unit].waiting for part in parts), (cycle, unit)
