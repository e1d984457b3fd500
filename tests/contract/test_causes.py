"""The critical path of every machine: exactly as long as the run, along what was recorded."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from npuviz.debug.causes import has_causes, losses, recorded_why
from npuviz.debug.session import Session
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.trace.bundle.bundle import BundleWriter, open_bundle
from npuviz.trace.causes.graph import cause_graph, critical_path, graph_of, path_to, sources_of
from npuviz.trace.causes.waits import UNKNOWN, standstill_at, standstills, unit_causes, why_standing
from npuviz.trace.causes.what_if import Change, Retimer
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder
from npuviz.trace.unit_times import tracks_of_units, unit_times, wait_kinds
from npuviz.workbench.causes.run import run_causes
from tests.contract.registry import CASES, SMALL_LOADS, Case

UNRECORDED = {"toy": 1.0}
"""Share of the path whose causes a machine may leave open; none where nothing is said."""


def recorded(case: Case, bundle: Path | None = None) -> TraceReader:
    machine = case.make()
    schema = schema_of(machine.description, machine.program)
    resolver = ProgramResolver(machine.program.listing, machine.description.memories)
    recorder = Recorder(schema, resolver, BundleWriter(bundle, schema) if bundle else None)
    session = Session(machine, recorder)
    session.run()
    assert session.trace is not None
    assert session.trace.end_cycle == machine.cycle
    recorder.close()
    return session.trace


def check_path(trace: TraceReader, path: np.ndarray, first: int, last: int) -> None:
    """Without gaps, and work only where a track shows it."""
    assert path["start"][0] == first
    assert path["end"][-1] == last
    assert (path["start"][1:] == path["end"][:-1]).all()
    assert (path["end"] > path["start"]).all()
    works = {kind.id for kind in trace.schema.kinds if not kind.role.startswith("wait")}
    for row in path.tolist():
        start, end, track, kind, instruction = row
        if track >= 0 and trace.schema.tracks[track].kind == "interval" and kind in works:
            shown = trace.at(track, start)
            if shown is not None and int(shown["kind"]) == kind:
                assert int(shown["end"]) >= end, row
                assert int(shown["instruction"]) == instruction, row


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_critical_path_is_as_long_as_the_run(case: Case, tmp_path: Path) -> None:
    trace = recorded(case, tmp_path / "run.npuviz")
    graph = cause_graph(trace)
    path = critical_path(graph)
    check_path(trace, path, 0, trace.end_cycle)
    assert int((path["end"] - path["start"]).sum()) == trace.end_cycle
    unknown = int((path["end"] - path["start"])[path["kind"] < 0].sum())
    assert unknown <= UNRECORDED.get(case.target.id, 0.0) * trace.end_cycle
    # A bundle tells the same.
    again = critical_path(cause_graph(open_bundle(tmp_path / "run.npuviz")))
    assert np.array_equal(again, path)


@pytest.mark.parametrize("case", [*CASES, SMALL_LOADS], ids=lambda case: case.name)
def test_what_led_to_a_cause_was_at_work_before(case: Case) -> None:
    graph = graph_of(recorded(case))
    tracks, cycles = sources_of(graph)
    named = graph.source >= 0
    assert (tracks[named] >= 0).all(), np.flatnonzero(named & (tracks < 0))
    assert (cycles[named] <= graph.cause_cycle[named]).all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_led_to_any_point_has_no_gap(case: Case) -> None:
    trace = recorded(case)
    graph = cause_graph(trace)
    for track in trace.schema.tracks:
        rows = trace.interval_columns(track.id) if track.kind == "interval" else None
        if rows is None or len(rows) == 0:
            continue
        cycle = int(rows.end[len(rows) // 2])
        check_path(trace, path_to(graph, track.id, cycle), 0, cycle)
        stop = cycle // 2
        check_path(trace, path_to(graph, track.id, cycle, stop), stop, cycle)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_trace_timed_again_without_a_change_takes_as_long(case: Case) -> None:
    trace = recorded(case)
    retimer = Retimer(trace, graph_of(trace))
    assert retimer.cycles() == trace.end_cycle
    units = frozenset(track.unit for track in trace.schema.tracks)
    assert retimer.cycles([Change(0.5, units)]) <= trace.end_cycle
    # Everything recorded twice as slow: at most twice the time.
    assert trace.end_cycle <= retimer.cycles([Change(2.0)]) <= 2 * trace.end_cycle


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_units_lost_sums_to_the_run(case: Case) -> None:
    trace = recorded(case)
    for unit, time in unit_times(trace).items():
        causes = unit_causes(trace, unit)
        assert sum(causes.values()) == trace.end_cycle
        assert causes["busy"] == time.busy
        assert min(causes.values()) >= 0
        spans = standstills(trace, unit, 0, trace.end_cycle)
        assert sum(span.end - span.start for span in spans) == trace.end_cycle - time.busy
        for span in spans[:: max(1, len(spans) // 16)]:
            hops = why_standing(trace, span)
            assert span.track < 0 or sum(hop.cycles for hop in hops) == span.end - span.start


def gap_causes(trace: TraceReader, unit: int) -> Counter[str]:
    """Cycles in which no track of a unit shows anything, by cause: one gap after the other."""
    graph, roles = graph_of(trace), {kind.id: kind.role for kind in trace.schema.kinds}
    views = {track: trace.source.interval_view(track) for track in tracks_of_units(trace.schema)[unit]}
    shown = sorted(
        (a, b) for v in views.values() for a, b in zip(v.start.tolist(), v.end.tolist(), strict=True)
    )
    found: Counter[str] = Counter()
    low = 0
    for high, end in (*shown, (trace.end_cycle, trace.end_cycle)):
        if high > low:
            owner = next((track for track, view in views.items() if high in view.start), -1)
            first, last = graph.cause_offsets[owner : owner + 2].tolist() if owner >= 0 else (0, 0)
            known = [row for row in range(first, last) if low <= graph.cause_cycle[row] <= high]
            if owner < 0:
                found["empty"] += high - low
            elif not known:
                found[UNKNOWN] += high - low
            else:
                done, source = int(graph.done[known[-1]]), int(graph.source[known[-1]])
                role = roles[int(graph.cause_kind[known[-1]])]
                begin = min(max(low, done if done >= 0 else low), high)
                rows = slice(*graph.offsets[-2 - source : -source].tolist()) if source <= -2 else slice(0, 0)
                makers = {roles[each] for each in np.unique(graph.kind[rows]).tolist()}
                is_host = role == "host" or makers == {"host"}
                cause = "host" if is_host else role[5:] if role.startswith("wait-") else "dependency"
                found += Counter({cause: high - begin, "empty": begin - low})
        low = max(low, end)
    return +found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gaps_are_summed_as_one_by_one(case: Case) -> None:
    trace = recorded(case)
    waits = wait_kinds(trace.schema)
    for unit, tracks in tracks_of_units(trace.schema).items():
        if any(not waits.isdisjoint(trace.source.interval_view(track).kind.tolist()) for track in tracks):
            continue  # the waits are in the sums, too
        causes = Counter(unit_causes(trace, unit))
        del causes["busy"]
        assert +causes == gap_causes(trace, unit)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_why_says_what_every_cycle_of_a_standstill_was_lost_to(case: Case) -> None:
    trace = recorded(case)
    end, asked = trace.end_cycle, 0
    for unit, time in unit_times(trace).items():
        spans = standstills(trace, unit, 0, end)
        for span in spans[:: max(1, len(spans) // 8)]:
            for cycle in (span.start, span.end - 1):
                assert standstill_at(trace, unit, cycle) == span
            chain = recorded_why(trace, unit, span.start)
            assert bool(chain) == (span.track >= 0 and has_causes(trace))
            assert sum(cause.cycles for cause in chain[1:]) == (chain[0].cycles if chain else 0)
            asked += len(chain) > 1
        assert standstill_at(trace, unit, end) is None
        if has_causes(trace) and len(spans) < 200:
            assert sum(loss.cycles for loss in losses(trace, unit, 0, end)) == end - time.busy
            third = losses(trace, unit, end // 3, end // 2)
            idle = sum(min(span.end, end // 2) - max(span.start, end // 3) for span in spans
                       if span.start < end // 2 and span.end > end // 3)  # fmt: skip
            assert sum(loss.cycles for loss in third) == idle
    assert asked or not has_causes(trace)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_path_by_cause_operator_and_part_sums_to_the_run(case: Case) -> None:
    trace = recorded(case)
    found = run_causes(trace, case.make().program)
    assert sum(found.by_cause.values()) == trace.end_cycle
    assert sum(cost.cycles for cost in found.costs) == trace.end_cycle
    assert sum(sum(one.values()) for one in found.operators.values()) == trace.end_cycle
