"""Text commands about one processing element or unit:
steps by line and task, calls, variables, source text."""

import re
from collections.abc import Callable
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.arguments import unit_of
from npuviz.debug.console.motion import stop_answer
from npuviz.debug.console.places import area_of, fabric_of
from npuviz.debug.console.variables import tiles
from npuviz.debug.element_steps import LineStep, frames_of
from npuviz.debug.session import Session
from npuviz.debug.unit_steps import calls_at, instruction_at, step_unit_line
from npuviz.program.source import CallSite, HasCalls, HasSource, line_of
from npuviz.sim.frames import FrameVariable, HasFrames

LINES_AROUND = 5


def line_step(how: LineStep, is_back: bool = False) -> Callable[[Session, str], Answer]:
    """Return the command that brings an element or a unit to another line, forward or back in time.

    Its arguments are `C,R`, or `UNIT` on a machine without elements.
    """

    def run(session: Session, rest: str) -> Answer:
        if not isinstance(session.machine, HasFrames):
            return stop_answer(session, step_unit_line(session, unit_of(session, rest), how, is_back))
        step = session.step_line_back if is_back else session.step_line
        return stop_answer(session, step(element_of(session, rest), how))

    return run


over, over_back = line_step(LineStep.OVER), line_step(LineStep.OVER, True)
into, into_back = line_step(LineStep.INTO), line_step(LineStep.INTO, True)
out, out_back = line_step(LineStep.OUT), line_step(LineStep.OUT, True)


def task(session: Session, rest: str) -> Answer:
    """Answer `task C,R`: run until the element begins its next task."""
    return stop_answer(session, session.step_task(element_of(session, rest)))


def task_back(session: Session, rest: str) -> Answer:
    """Answer `task- C,R`: go back to where the element last began a task."""
    return stop_answer(session, session.step_task_back(element_of(session, rest)))


def frames(session: Session, rest: str) -> Answer:
    """Answer `frames C,R`, or `frames [UNIT]` if the text of the units' program has calls;
    without UNIT, one line for each unit."""
    listing = session.program.listing
    rows: list[tuple[Any, ...]] = []
    if session.fabric is None and isinstance(listing, HasSource):
        if not rest.strip() and isinstance(listing, HasCalls):
            return _lines_of_units(session, listing)
        return _unit_frames(session, unit_of(session, rest), listing)
    for depth, frame in enumerate(frames_of(session.machine, element_of(session, rest))):
        rows.append((depth, frame.name, frame.kind, frame.instruction, line_of(listing, frame.instruction)))
    note = "" if rows else "it runs nothing now"
    return Answer(columns=("depth", "name", "kind", "instruction", "place"), rows=tuple(rows), name="frames",
                  note=note)  # fmt: skip


def _lines_of_units(session: Session, listing: HasCalls) -> Answer:
    """List the innermost call of each unit that runs an instruction of the program's text."""
    rows: list[tuple[Any, ...]] = []
    for unit in session.description.units:
        index = instruction_at(session, unit.id)
        calls = listing.calls_of(index) if index >= 0 else ()
        if calls:
            rows.append((unit.name, *_call_cells(listing, calls[0])))
    note = "" if rows else "no unit runs anything of the text now"
    return Answer(columns=("unit", "name", "place", "loops"), rows=tuple(rows), name="frames", note=note)


def _call_cells(listing: object, call: CallSite) -> tuple[str, str, str]:
    """Return function, place and loops of a call as text."""
    sources = listing.sources if isinstance(listing, HasSource) else ()
    place = f"{sources[call.place.file].name}:{call.place.line}" if sources else ""
    loops = (f"{each.variable} = {each.value} ({each.turn} of {each.count})" for each in call.loops)
    return call.function, place, ", ".join(loops)


def _unit_frames(session: Session, unit: int, listing: HasSource) -> Answer:
    """List the calls and loops around the instruction that a unit runs, or else runs next."""
    index = instruction_at(session, unit)
    calls = calls_at(listing, index)
    rows = tuple((depth, *_call_cells(listing, call)) for depth, call in enumerate(calls))
    note = "" if rows else "it runs nothing of the text now"
    return Answer({"instruction": index}, ("depth", "name", "place", "loops"), rows, "frames", note)


def local_variables(session: Session, rest: str) -> Answer:
    """Answer `locals C,R`: the variables of the innermost call; without elements, `locals [MEMORY]`."""
    if session.fabric is None:
        return tiles(session, rest)
    found = frames_of(session.machine, element_of(session, rest))
    variables = found[0].variables if found else ()
    return _variables(variables, "it runs nothing now" if not found else "no variables are in scope here")


def global_variables(session: Session, rest: str) -> Answer:
    """Answer `globals C,R [NAME]`: the global variables of the element's program."""
    place, _, name = rest.strip().partition(" ")
    element = element_of(session, place)
    frames_of(session.machine, element)
    machine = session.machine
    variables = machine.globals_of(element) if isinstance(machine, HasFrames) else ()
    wanted = [v for v in variables if _is_named(v.name, name.strip())]
    return _variables(wanted, "no global variable has this name")


def _is_named(full: str, name: str) -> bool:
    """Whether `name` stands in the full name of a variable as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", full, re.IGNORECASE) is not None if name else True


def list_source(session: Session, rest: str) -> Answer:
    """Answer `list [C,R]`, or `list [UNIT]` without elements: the lines around the one that it runs."""
    listing = session.program.listing
    if session.fabric is None:
        index = instruction_at(session, unit_of(session, rest))
    else:
        found = frames_of(session.machine, element_of(session, rest))
        index = found[0].instruction if found else -1
    if index < 0 or not isinstance(listing, HasSource):
        note = "it runs nothing now" if index < 0 else "this program has no text"
        return Answer(columns=("line", "text"), name="source", note=note)
    calls = calls_at(listing, index)
    place = calls[0].place if calls else None
    if place is None:
        return Answer(columns=("line", "text"), name="source", note="this instruction has no source line")
    source = listing.sources[place.file]
    lines = source.text.splitlines()
    first = max(1, place.line - LINES_AROUND)
    last = min(len(lines), place.line + LINES_AROUND)
    rows = tuple(
        (f"{'>' if number == place.line else ' '}{number}", lines[number - 1])
        for number in range(first, last + 1)
    )
    return Answer({"file": source.name}, ("line", "text"), rows, "source")


def element_of(session: Session, rest: str) -> int:
    """Return the number of the element at `C,R`, counted from the corner of the program.

    Without a place, of the one at which the last stop was. Raises UsageError.
    """
    area = area_of(session, rest or session.stop.unit)
    if area.columns * area.rows != 1:
        raise UsageError(f"{rest}: expected one place, such as 0,0")
    return area.row * fabric_of(session).columns + area.column


def _variables(variables: Any, nothing: str) -> Answer:
    def row(variable: FrameVariable) -> tuple[Any, ...]:
        address = f"{variable.address:#x}" if variable.address >= 0 else None
        return variable.name, variable.type, variable.value, address

    rows = tuple(row(variable) for variable in variables)
    note = "" if rows else nothing
    return Answer(columns=("name", "type", "value", "address"), rows=rows, name="variables", note=note)
