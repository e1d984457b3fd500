"""Text commands that set breakpoints and move in time; each function takes the rest of its line."""

from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.arguments import count_of, number_of, time_of, words_of
from npuviz.debug.console.places import unit_at
from npuviz.debug.loop_turns import (
    go_to_turn,
    loops_around,
    program_loops,
    turn_beside,
    unit_in_loop,
)
from npuviz.debug.session import Session
from npuviz.debug.unit_steps import line_text
from npuviz.program.source import HasSource, Place
from npuviz.sim.stop import StopKind, StopReason


def set_breakpoint(session: Session, rest: str) -> Answer:
    """Answer `break CONDITION`: set a breakpoint; without a condition, list them."""
    if not rest:
        return list_breakpoints(session, rest)
    if rest.isdecimal() and not isinstance(session.program.listing, HasSource):
        raise UsageError(f"{rest}: this program has no text; `cycle == {rest}` or `instr {rest}` stop there")
    item = session.breakpoints.add(rest)
    note = "tested after every cycle: slow" if item.condition.is_slow else ""
    return Answer({"breakpoint": item.id, "condition": item.text}, note=note)


def log(session: Session, rest: str) -> Answer:
    """Answer `log [CONDITION]`: log a line at each hit; without a condition, show the lines."""
    if rest:
        return set_breakpoint(session, f"log {rest}")
    rows = tuple((each.cycle, each.breakpoint, each.unit, each.values) for each in session.log.lines)
    return Answer(columns=("cycle", "id", "unit", "values"), rows=rows, name="log")


def run_to(session: Session, rest: str) -> Answer:
    """Answer `runto CONDITION`: run to where a condition next holds."""
    return stop_answer(session, session.run_to(rest))


def to_turn(session: Session, rest: str) -> Answer:
    """Answer `turn VARIABLE N|+N|-N [UNIT]`: go to iteration N of a loop, or N iterations on or back."""
    variable, number, *names = words_of(rest, 2, 3)
    unit = unit_at(session, names[0]) if names else -1
    at = (_instruction_of(session, unit), unit) if names else unit_in_loop(session.machine, variable)
    turn = number_of(number.lstrip("+-"), "an iteration")
    if number[:1] in ("+", "-"):
        turn = turn_beside(session.program.listing, variable, at[0], -turn if number[0] == "-" else turn)
    elif not names:
        at = at[0], -1  # of the unit that comes there first
    return stop_answer(session, go_to_turn(session, variable, turn, NoProgress(), at))


def loops(session: Session, rest: str) -> Answer:
    """Answer `loops`: the program's loops, and the iterations that units are in."""
    words_of(rest, 0, 0)
    listing = session.program.listing
    found = program_loops(listing)
    sources = listing.sources if isinstance(listing, HasSource) else ()
    units = {unit.id: unit.name for unit in session.description.units}
    now: dict[tuple[Place, str], list[str]] = {}
    for state in session.machine.unit_states():
        for each in loops_around(listing, state.instruction):
            text = f"{units[state.unit]} {each.turn}"
            now.setdefault((each.place, each.variable), []).append(text)
    rows = tuple(
        (
            each.variable,
            f"{sources[each.place.file].name}:{each.place.line}" if sources else "",
            each.count,
            ", ".join(now.get((each.place, each.variable), ())),
        )
        for each in found
    )
    note = "" if rows else "this program has no loops"
    return Answer(
        columns=("variable", "place", "iterations", "units are in"), rows=rows, name="loops", note=note
    )


def _instruction_of(session: Session, unit: int) -> int:
    """Return the instruction that a unit executes, else the one that it starts next; -1 if there is none."""
    machine = session.machine
    state = next((state for state in machine.unit_states() if state.unit == unit), None)
    index = state.instruction if state is not None else -1
    return index if index >= 0 else machine.next_instructions().get(unit, -1)


def back_to(session: Session, rest: str) -> Answer:
    """Answer `backto CONDITION`: go back to where a condition last held."""
    return stop_answer(session, session.run_back_to(rest))


def list_breakpoints(session: Session, rest: str) -> Answer:
    """Answer `breakpoints`: list all breakpoints."""
    rows = tuple((item.id, item.text, item.enabled, item.hits) for item in session.breakpoints.all)
    return Answer(columns=("id", "condition", "enabled", "hits"), rows=rows, name="breakpoints")


def delete(session: Session, rest: str) -> Answer:
    """Answer `delete N...`: delete breakpoints."""
    wanted = [number_of(word, "a breakpoint id") for word in words_of(rest, 1, 100)]
    known = {item.id for item in session.breakpoints.all}
    for breakpoint_id in wanted:
        if breakpoint_id not in known:
            raise UsageError(f"no breakpoint {breakpoint_id}; there are {sorted(known) or 'none'}")
    for breakpoint_id in wanted:
        session.breakpoints.remove(breakpoint_id)
    return Answer({"deleted": wanted})


def run(session: Session, rest: str) -> Answer:
    """Answer `run [N]`: run to a stop, or to cycle N."""
    words = words_of(rest, 0, 1)
    return stop_answer(session, session.run(number_of(words[0], "a cycle") if words else None))


def step(session: Session, rest: str) -> Answer:
    """Answer `step [N]`: run N cycles."""
    return stop_answer(session, session.step(count_of(rest)))


def next_instruction(session: Session, rest: str) -> Answer:
    """Answer `next UNIT`: run to the unit's next instruction."""
    return stop_answer(session, session.step_instruction(unit_at(session, rest.strip())))


def back(session: Session, rest: str) -> Answer:
    """Answer `back [N]`: go N cycles back."""
    return stop_answer(session, session.step_back(count_of(rest)))


def previous_instruction(session: Session, rest: str) -> Answer:
    """Answer `previous [UNIT]`: go back to the unit's previous instruction; without UNIT, one cycle."""
    if not rest:
        return back(session, rest)
    return stop_answer(session, session.step_instruction_back(unit_at(session, rest.strip())))


def run_back(session: Session, rest: str) -> Answer:
    """Answer `runback`: go back to the last stop."""
    words_of(rest, 0, 0)
    return stop_answer(session, session.run_back())


def go_to(session: Session, rest: str) -> Answer:
    """Answer `goto CYCLE`: go to a cycle, ignoring breakpoints."""
    return stop_answer(session, session.go_to(number_of(words_of(rest, 1, 1)[0], "a cycle")))


def restart(session: Session, rest: str) -> Answer:
    """Answer `restart`: begin again, without what was written."""
    words_of(rest, 0, 0)
    return stop_answer(session, session.restart())


def stop_answer(session: Session, stop: StopReason) -> Answer:
    """Return why and where a session stopped."""
    pairs: dict[str, Any] = {
        "stop": str(stop.kind),
        "cycle": stop.cycle,
        "time": time_of(session, stop.cycle),
    }
    if stop.breakpoints:
        pairs["breakpoints"] = list(stop.breakpoints)
        known = {item.id: item.text for item in session.breakpoints.all}
        pairs["condition"] = "; ".join(known[i] for i in stop.breakpoints if i in known)
    is_hit = stop.kind is StopKind.BREAKPOINT or stop.detail.startswith("reached: ")
    instruction = stop.instruction if is_hit else -1
    unit = session.program.listing.describe(instruction).unit if instruction >= 0 else -1
    name = stop.unit or next((each.name for each in session.description.units if each.id == unit), "")
    if name:
        pairs["unit"] = name
    if instruction >= 0:
        pairs["instruction"] = instruction
    place = line_text(session.program.listing, instruction)
    if stop.detail or place:
        pairs["detail"] = stop.detail or place
    if stop.detail and place:
        pairs["line"] = place
    if stop.kind is StopKind.FINISHED:
        pairs["busy_cycles"] = [f"{name}={busy}" for name, busy, _ in session.machine.summary().units]
    return Answer(pairs)
