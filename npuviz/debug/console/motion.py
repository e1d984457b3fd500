"""Text commands that set breakpoints and move: each takes the rest of its line."""

from typing import Any

from npuviz.base.errors import UsageError
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.arguments import count_of, number_of, time_of, words_of
from npuviz.debug.console.places import unit_at
from npuviz.debug.session import Session
from npuviz.debug.unit_steps import turn_condition
from npuviz.sim.stop import StopKind, StopReason


def set_breakpoint(session: Session, rest: str) -> Answer:
    """break CONDITION."""
    if not rest:
        return list_breakpoints(session, rest)
    item = session.breakpoints.add(rest)
    note = "tested after every cycle: slow" if item.condition.is_slow else ""
    return Answer({"breakpoint": item.id, "condition": item.text}, note=note)


def log(session: Session, rest: str) -> Answer:
    """log [CONDITION]."""
    if rest:
        return set_breakpoint(session, f"log {rest}")
    rows = tuple((each.cycle, each.breakpoint, each.unit, each.values) for each in session.log.lines)
    return Answer(columns=("cycle", "id", "unit", "values"), rows=rows, name="log")


def run_to(session: Session, rest: str) -> Answer:
    """runto CONDITION."""
    return stop_answer(session, session.run_to(rest))


def to_turn(session: Session, rest: str) -> Answer:
    """turn VARIABLE N."""
    variable, number = words_of(rest, 2, 2)
    condition = turn_condition(session.program.listing, variable, number_of(number, "an iteration"))
    session.go_to(0)
    return stop_answer(session, session.run_to(condition))


def back_to(session: Session, rest: str) -> Answer:
    """backto CONDITION."""
    return stop_answer(session, session.run_back_to(rest))


def list_breakpoints(session: Session, rest: str) -> Answer:
    """breakpoints."""
    rows = tuple((item.id, item.text, item.enabled, item.hits) for item in session.breakpoints.all)
    return Answer(columns=("id", "condition", "enabled", "hits"), rows=rows, name="breakpoints")


def delete(session: Session, rest: str) -> Answer:
    """delete N..."""
    wanted = [number_of(word, "a breakpoint id") for word in words_of(rest, 1, 100)]
    known = {item.id for item in session.breakpoints.all}
    for breakpoint_id in wanted:
        if breakpoint_id not in known:
            raise UsageError(f"no breakpoint {breakpoint_id}; there are {sorted(known) or 'none'}")
    for breakpoint_id in wanted:
        session.breakpoints.remove(breakpoint_id)
    return Answer({"deleted": wanted})


def run(session: Session, rest: str) -> Answer:
    """run [N]."""
    words = words_of(rest, 0, 1)
    return stop_answer(session, session.run(number_of(words[0], "a cycle") if words else None))


def step(session: Session, rest: str) -> Answer:
    """step [N]."""
    return stop_answer(session, session.step(count_of(rest)))


def next_instruction(session: Session, rest: str) -> Answer:
    """next UNIT."""
    return stop_answer(session, session.step_instruction(unit_at(session, rest.strip())))


def back(session: Session, rest: str) -> Answer:
    """back [N]."""
    return stop_answer(session, session.step_back(count_of(rest)))


def previous_instruction(session: Session, rest: str) -> Answer:
    """previous [UNIT]."""
    if not rest:
        return back(session, rest)
    return stop_answer(session, session.step_instruction_back(unit_at(session, rest.strip())))


def run_back(session: Session, rest: str) -> Answer:
    """runback."""
    words_of(rest, 0, 0)
    return stop_answer(session, session.run_back())


def go_to(session: Session, rest: str) -> Answer:
    """goto CYCLE."""
    return stop_answer(session, session.go_to(number_of(words_of(rest, 1, 1)[0], "a cycle")))


def restart(session: Session, rest: str) -> Answer:
    """restart."""
    words_of(rest, 0, 0)
    return stop_answer(session, session.restart())


def stop_answer(session: Session, stop: StopReason) -> Answer:
    """Why and where a verb stopped."""
    pairs: dict[str, Any] = {
        "stop": str(stop.kind),
        "cycle": stop.cycle,
        "time": time_of(session, stop.cycle),
    }
    if stop.breakpoints:
        pairs["breakpoints"] = list(stop.breakpoints)
        known = {item.id: item.text for item in session.breakpoints.all}
        pairs["condition"] = "; ".join(known[i] for i in stop.breakpoints if i in known)
    if stop.unit:
        pairs["unit"] = stop.unit
    if stop.detail:
        pairs["detail"] = stop.detail
    if stop.kind is StopKind.FINISHED:
        pairs["busy_cycles"] = [f"{name}={busy}" for name, busy, _ in session.machine.summary().units]
    return Answer(pairs)
