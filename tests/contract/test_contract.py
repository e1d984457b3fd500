from collections.abc import Callable

import numpy as np
import pytest

from npuviz.base.progress import NoProgress
from npuviz.debug.session import Session
from npuviz.program.program import Program
from npuviz.sim.machine import HasPeaks, Peak
from npuviz.sim.stop import NO_STOPS
from tests.contract import checks, event_checks
from tests.contract.jumping import check_jumping
from tests.contract.registry import CASES, Case
from tests.contract.runs import FOREVER, Make, run_recorded, run_straight, run_to
from tests.sweeps import quick
from tests.toy.session import make_recorder

CHECKS = [
    checks.check_same_run_twice,
    checks.check_cycles_count,
    checks.check_snapshots,
    checks.check_chunking,
    checks.check_recording,
    checks.check_interleaved,
    checks.check_probes,
    checks.check_memories,
    checks.check_writing_memory,
    checks.check_observation,
    checks.check_summary,
    checks.check_stops,
    event_checks.check_description,
    event_checks.check_floorplan,
    event_checks.check_listing,
    event_checks.check_events,
    event_checks.check_event_times,
    event_checks.check_activities_become_intervals,
    pytest.param(check_jumping, marks=pytest.mark.hypothesis),
]


@quick(but=["systolic cnn with *", "neuroncore transformer on trn1-*"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_promise(case: Case, check: Callable[[Make], None]) -> None:
    check(case.make)


COMPUTING = [case for case in CASES if case.has_values]


@pytest.mark.parametrize("case", COMPUTING, ids=lambda case: case.name)
def test_values_equal_the_reference(case: Case) -> None:
    machine = run_to(case.make(), FOREVER)
    result = case.target.check(machine, NoProgress())
    assert result.num_tensors > 0
    assert (result.num_failed, result.first_divergence) == (0, ""), result
    assert result.tolerance


@pytest.mark.parametrize("case", COMPUTING, ids=lambda case: case.name)
def test_check_notices_a_wrong_byte(case: Case) -> None:
    machine = run_to(case.make(), FOREVER)
    place = _an_output_place(machine.program)
    data = bytearray(machine.read_memory(place[0], place[1], 4))
    data[3] ^= 0x7F
    machine.write_memory(place[0], place[1], bytes(data))
    assert case.target.check(machine, NoProgress()).num_failed > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_exceeds_a_peak_and_no_byte_is_lost(case: Case) -> None:
    machine = case.make()
    if not isinstance(machine, HasPeaks):
        return
    for cycle in run_straight(case.make).sample(3):
        machine.advance(cycle, NO_STOPS, None)
        limits = [peak for peak in machine.peaks() if not peak.is_exact]
        assert all(peak.is_plausible for peak in limits), f"cycle {cycle}"
    assert machine.is_finished
    assert all(peak.is_plausible for peak in machine.peaks())
    assert any(peak.used > 0 for peak in machine.peaks())


def test_a_peak_tells_what_cannot_be() -> None:
    assert Peak("DRAM", 10, 10, "bytes").is_plausible
    assert not Peak("DRAM", 11, 10, "bytes").is_plausible
    assert Peak("DRAM", 9, 10, "bytes").is_plausible
    assert not Peak("DRAM", 9, 10, "bytes", is_exact=True).is_plausible


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_program_is_the_same_when_loaded_again(case: Case) -> None:
    again = Case(case.name, case.target, case.request)
    assert again.loaded[1] is not case.loaded[1]
    assert again.loaded[1].digest() == case.loaded[1].digest()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_session_records_what_the_machine_emits(case: Case) -> None:
    expected = run_recorded(case.make())
    machine = case.make()
    recorder = make_recorder(machine)
    session = Session(machine, recorder)
    session.run(200)
    session.step_back(150)
    session.run()
    session.go_to(17)
    session.run()
    assert session.trace is not None
    assert recorder.num_events == len(expected)
    intervals = int(np.count_nonzero(expected[:, 0] >> 56 == 1))
    assert session.trace.num_intervals == intervals > 0


def _an_output_place(program: Program) -> tuple[int, int]:
    """Memory and address of the first element of an output tensor."""
    for tensor in program.graph.outputs:
        place = program.memory_map.of_tensor(tensor)
        if place is not None:
            return place.memory, place.address
    raise AssertionError("no output tensor has a place in memory")


def test_make_is_a_factory() -> None:
    make: Make = CASES[0].make
    assert make() is not make()
