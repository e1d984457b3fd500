"""Steps by line, call and task of one PE, forward and back, and the text commands about it."""

import io

import pytest

from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.element_steps import LineStep
from npuviz.debug.session import Session
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from tests.targets.wavelet.samples import element_of, heat, line_of, row_sum

Stop = tuple[int, str, str]
PLACE = "PE(1,0)"


@pytest.fixture
def session() -> Session:
    return Session(row_sum())


@pytest.fixture
def element(session: Session) -> int:
    return element_of(machine_in(session), 1, 0)


def machine_in(session: Session) -> WaveletMachine:
    assert isinstance(session.machine, WaveletMachine)
    return session.machine


def walk(session: Session, element: int, how: LineStep) -> list[Stop]:
    """(cycle, where, digest) of every stop of steps from the first task on."""
    found: list[Stop] = []
    stop = session.run()
    while stop.kind in (StopKind.UNTIL, StopKind.BREAKPOINT):
        found.append((stop.cycle, stop.detail, session.machine.digest()))
        stop = session.step_line(element, how)
    assert stop.kind is StopKind.FINISHED
    return found


@pytest.mark.parametrize("how", [LineStep.INTO, LineStep.OVER])
def test_steps_back_meet_the_stops_of_steps_forward(session: Session, element: int, how: LineStep) -> None:
    session.breakpoints.add("task take_partial at 1,0")
    forward = walk(session, element, how)
    session.breakpoints.remove(1)
    straight = row_sum()
    for cycle, _, digest in forward:
        straight.advance(cycle, NO_STOPS, None)
        assert straight.digest() == digest
    session.go_to(forward[-1][0])
    back: list[Stop] = []
    while (stop := session.step_line_back(element, how)).kind is StopKind.UNTIL:
        back.append((stop.cycle, stop.detail, session.machine.digest()))
    assert stop.kind is StopKind.START
    assert [stop for stop in back[::-1] if stop[0] > forward[0][0]] == forward[1:-1]


def test_into_enters_functions_and_over_does_not(session: Session, element: int) -> None:
    machine = machine_in(session)
    inner = line_of(machine, "@fmovs(partial_dsd, sum_so_far)")
    outer = line_of(machine, "pass_on(sum_so_far + value[0])")
    session.breakpoints.add("task take_partial at 1,0")
    begin = session.run()
    assert (begin.unit, machine.frames(element)[0].name) == (PLACE, "take_partial")
    stop = session.step_line(element, LineStep.INTO)
    assert (stop.kind, stop.unit, stop.detail) == (StopKind.UNTIL, PLACE, f"pe.csl:{inner} in pass_on")
    assert [frame.name for frame in machine.frames(element)] == ["pass_on", "take_partial"]
    assert [frame.kind for frame in machine.frames(element)] == ["function", "task"]
    places = [machine.listing.place_of(frame.instruction) for frame in machine.frames(element)]
    assert [place.line for place in places if place is not None] == [inner, outer]
    assert machine.frames(element)[0].variables[0].value == "1"
    session.go_to(begin.cycle)
    second = line_of(machine, "result[0] = sum_of_row")
    stop = session.step_line(element, LineStep.OVER)
    assert stop.detail == f"pe.csl:{second} in take_total"


def test_out_goes_on_after_the_call(session: Session, element: int) -> None:
    session.breakpoints.add("function pass_on at 1,0")
    inside = session.run()
    stop = session.step_line(element, LineStep.OUT)
    assert stop.cycle > inside.cycle
    assert stop.detail.endswith(" in take_total")
    session.go_to(inside.cycle)
    stop = session.step_line_back(element, LineStep.OUT)
    line = line_of(machine_in(session), "pass_on(sum_so_far + value[0])")
    assert (stop.detail, stop.cycle < inside.cycle) == (f"pe.csl:{line} in take_partial", True)


def test_steps_by_task(session: Session, element: int) -> None:
    stops = [session.step_task(element) for _ in range(3)]
    assert [stop.unit for stop in stops] == [PLACE] * 3
    # The launched function does nothing on this PE: it is over within its cycle.
    assert [stop.detail.rpartition(" ")[2] for stop in stops] == ["now", "take_partial", "take_total"]
    digest = session.machine.digest()
    assert session.step_task(element).kind is StopKind.FINISHED
    assert session.step_task_back(element).cycle == stops[2].cycle
    assert session.machine.digest() == digest
    assert session.step_task_back(element).cycle == stops[1].cycle
    assert session.step_task_back(element).cycle == stops[0].cycle
    assert session.step_task_back(element).kind is StopKind.START


def test_a_breakpoint_stops_a_step(session: Session, element: int) -> None:
    item = session.breakpoints.add("wavelet at 2,0")
    session.run(until=session.step_task(element).cycle)
    stops = [session.step_task(element) for _ in range(2)]
    assert [stop.breakpoints for stop in stops] == [(), (item.id,)]
    assert stops[1].unit == "PE(2,0)"


def test_variables_by_name_and_type(session: Session, element: int) -> None:
    session.run()
    machine = machine_in(session)
    assert machine.frames(element) == ()
    variables = {variable.name: variable for variable in machine.globals_of(element)}
    assert (variables["value"].type, variables["value"].value) == ("[1]f32", "1")
    assert (variables["result"].type, variables["result"].value) == ("[1]f32", "3")
    pointer = variables["result_pointer"]
    assert (pointer.type, int(pointer.value, 16)) == ("[*]f32", variables["result"].address)
    assert list(variables) == sorted(variables)
    assert machine.globals_of(0) == ()
    session.restart()
    before = {variable.name: variable.value for variable in machine.globals_of(element)}
    assert before["result"] == "0"


def test_a_stencil_steps_through_its_operations() -> None:
    session = Session(heat())
    machine = machine_in(session)
    element = element_of(machine, 0, 0)
    session.breakpoints.add("task compute at 0,0")
    session.run()
    first = line_of(machine, "@fadds(change_dsd, west_dsd, east_dsd)")
    lines: list[int] = []
    for _ in range(6):
        place = machine.listing.place_of(machine.frames(element)[0].instruction)
        assert place is not None
        lines.append(place.line)
        session.step_line(element, LineStep.OVER)
    assert lines == list(range(first, first + 6))
    values = {variable.name: variable for variable in machine.globals_of(element)}
    assert (values["steps_left"].type, values["rate"].value) == ("u16", "0.125")
    assert values["heat_dsd"].value.startswith("mem1d at 0x")


def answers(session: Session, *lines: str) -> str:
    out = io.StringIO()
    debugger = TextDebugger(session, out)
    for line in lines:
        debugger.execute(line)
    return out.getvalue()


def test_text_commands(session: Session) -> None:
    text = answers(session, "break function pass_on at 1,0", "run", "frames 1,0", "locals 1,0", "list 1,0")
    assert "pass_on" in text
    assert "take_partial" in text
    assert "sum_so_far" in text
    line = line_of(machine_in(session), "@fmovs(partial_dsd, sum_so_far)")
    assert f">{line}" in text
    assert answers(session, "list PE(1,0)", "frames PE(1,0).task") == answers(
        session, "list 1,0", "frames 1,0"
    )
    text = answers(session, "globals 1,0 value_pointer", "out 1,0", "over 1,0")
    assert "value_pointer" in text
    assert "take_total" in text
    text = answers(session, "over- 1,0", "into- 1,0", "task- 1,0", "task 1,0", "into 1,0", "frames 0,0")
    assert "error" not in text
    assert "it runs nothing now" in text


@pytest.mark.parametrize(
    "command", ["over", "over 3,0", "over 1", "frames x,y", "globals 9,9", "list 1,0 2", "list PE(9,9)"]
)
def test_mistakes_in_commands_are_one_line(session: Session, command: str) -> None:
    text = answers(session, command)
    assert text.startswith("error: ")
    assert text.count("\n") == 1
