"""Breakpoints on lines, tasks and wavelets, on the sample programs and the real machine."""

import numpy as np
import pytest

from npuviz.base.errors import ConditionError
from npuviz.debug.session import Session
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from tests.targets.wavelet.samples import element_of, line_of, row_sum


@pytest.fixture
def session() -> Session:
    return Session(row_sum())


def machine_in(session: Session) -> WaveletMachine:
    assert isinstance(session.machine, WaveletMachine)
    return session.machine


def hits(session: Session, text: str) -> list[tuple[int, str]]:
    """(cycle, unit) of every stop of one breakpoint; going back finds the same cycles."""
    for old in tuple(session.breakpoints.all):
        session.breakpoints.remove(old.id)
    session.restart()
    item = session.breakpoints.add(text)
    found: list[tuple[int, str]] = []
    while (stop := session.run()).kind is StopKind.BREAKPOINT:
        assert stop.breakpoints == (item.id,)
        found.append((stop.cycle, stop.unit))
    assert stop.kind is StopKind.FINISHED
    assert item.hits == len(found)
    cycles = [session.cycle for _ in found if session.run_back().kind is StopKind.BREAKPOINT]
    assert cycles[::-1] == [cycle for cycle, _ in found]
    return found


def test_a_line_of_one_pe_and_of_all(session: Session) -> None:
    line = line_of(machine_in(session), "pass_on(sum_so_far + value[0])")
    everywhere = hits(session, f"line pe.csl:{line}")
    assert everywhere == hits(session, f"line {line}")
    second = hits(session, f"line pe.csl:{line} at 1,0")
    third = hits(session, f"line pe.csl:{line} at 2, 0")
    assert second
    assert third
    assert sorted(second + third) == everywhere
    assert {unit for _, unit in second} == {"PE(1,0)"}
    assert {unit for _, unit in third} == {"PE(2,0)"}
    assert hits(session, f"line {line} at 0,0") == []


def test_lines_tasks_and_functions_need_no_word_before_them(session: Session) -> None:
    line = line_of(machine_in(session), "pass_on(sum_so_far + value[0])")
    for short, full in (
        (f"pe.csl:{line}", f"line pe.csl:{line}"),
        (f"pe.csl:{line} at 1,0", f"line pe.csl:{line} at 1,0"),
        ("take_total", "task take_total"),
        ("pass_on at 2,0", "function pass_on at 2,0"),
    ):
        assert session.breakpoints.parse(short).text == full
        assert hits(session, short) == hits(session, full) != []
    with pytest.raises(ConditionError, match="no instruction comes from line 1;"):
        session.breakpoints.parse("pe.csl:1")
    with pytest.raises(ConditionError, match="did you mean take_total"):
        session.breakpoints.parse("take_totale")


def test_a_task_stops_when_its_first_instruction_starts(session: Session) -> None:
    ((cycle, unit),) = hits(session, "task take_partial at 2,0")
    session.go_to(cycle)
    machine = machine_in(session)
    (frame,) = machine.frames(element_of(machine, 2, 0))
    assert (unit, frame.name, frame.kind) == ("PE(2,0)", "take_partial", "task")
    assert [(v.name, v.type, v.value) for v in frame.variables] == [("sum_so_far", "f32", "1")]
    session.go_to(cycle - 1)
    assert machine.frames(element_of(machine, 2, 0))[0].instruction == frame.instruction
    assert machine.engine.counter(sk.BAND.instructions) < _instructions(session, cycle)
    assert len(hits(session, "task take_total")) == 2
    assert len(hits(session, "function pass_on at 2,0")) == 1


def _instructions(session: Session, cycle: int) -> int:
    session.go_to(cycle)
    return machine_in(session).engine.counter(sk.BAND.instructions)


def test_wavelets_by_color_place_and_value(session: Session) -> None:
    # Partial sums 0 and 1 travel east, the total 3 comes back to two PEs.
    assert len(hits(session, "wavelet")) == 4
    assert len(hits(session, "wavelet color 2")) == 2
    (partial,) = hits(session, "wavelet at 2,0")
    assert partial[1] == "PE(2,0)"
    one = np.float32(1).view(np.uint32)
    assert hits(session, f"wavelet data == {one:#x}") == [partial]
    assert hits(session, f"wavelet data >= {one:#x} at 2,0") == [partial]
    assert hits(session, f"wavelet color 2 at 1,0 index == {np.float32(3).view(np.uint32) >> 16:#x}")
    assert hits(session, "wavelet half != 0") == []
    assert len(hits(session, "wavelet f32 > 1.5")) == 2
    assert hits(session, "wavelet f32 < 0.5") == hits(session, "wavelet at 1,0 f32 < 0.5")
    assert hits(session, "wavelet control") == []


def test_a_word_arrives_before_its_task_starts(session: Session) -> None:
    ((arrival, _),) = hits(session, "wavelet at 2,0")
    ((start, _),) = hits(session, "task take_partial at 2,0")
    session.go_to(arrival)
    assert [entry.text for entry in machine_in(session).queue_entries(_queue(session, "PE(2,0).in2"))]
    assert arrival < start


def _queue(session: Session, name: str) -> int:
    return next(queue.id for queue in session.description.queues if queue.name == name)


def test_a_queue_reaches_a_level(session: Session) -> None:
    ((arrival, _),) = hits(session, "wavelet at 2,0")
    ((filled, _),) = hits(session, "queue PE(2,0).in2 >= 1")
    assert filled == arrival
    assert hits(session, "queue PE(2,0).in2 full") == []


def test_conditions_are_joined(session: Session) -> None:
    both = hits(session, "task take_partial at 1,0 or task take_total at 1,0")
    assert both == sorted(hits(session, "task take_partial at 1,0") + hits(session, "task take_total at 1,0"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("line pe.csl:1", "no instruction comes from line 1; the nearest line with code is"),
        ("line other.csl:3", "no file other.csl"),
        ("line pe.csl:x", "expected a line"),
        ("line", "expected a line"),
        ("task take_partly", "did you mean take_partial"),
        ("task take_partial at 3,0", "the program has 3 x 1 PEs"),
        ("task take_partial at 3", "expected a PE"),
        ("wavelet color 77", "no color"),
        ("wavelet data", "expected a comparison"),
        ("wavelet index == 70000", "`index` is below 0x10000"),
        ("wavelet at -1,0", "expected a PE"),
        ("queue PE(2,0).in9 full", "PE(2,0)"),
    ],
)
def test_mistakes_are_named_with_their_place(session: Session, text: str, reason: str) -> None:
    with pytest.raises(ConditionError) as caught:
        session.breakpoints.add(text)
    assert reason in str(caught.value)


def test_frames_do_not_depend_on_the_chunks_of_a_run() -> None:
    whole, parts = row_sum(), row_sum()
    element = element_of(whole, 1, 0)
    whole.advance(150, NO_STOPS, None)
    for cycle in range(1, 151):
        parts.advance(cycle, NO_STOPS, None)
    assert whole.frames(element) == parts.frames(element)
