"""Answers questions about the selection with a sentence, and with a selection that shows the answer."""

from dataclasses import dataclass

from npuviz.base.progress import Progress
from npuviz.base.units import format_count
from npuviz.debug.causes import Cause
from npuviz.debug.explain import cause_unit, last_writer, why
from npuviz.debug.session import Session
from npuviz.program.instruction import Instruction, Operand
from npuviz.sim.description import Memory
from npuviz.sim.stop import StopKind
from npuviz.workbench.breakpoint_text import memory_words
from npuviz.workbench.selection import MemoryRange, Selection, selected

MAX_NAMED = 3
"""Candidates for an access are named if there are at most this many."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer.

    text       one line; `details` are further lines, "" for none
    selection  the subject of the answer, None if nothing was found
    cycle      cycle of the event, None if it is now or unknown
    """

    text: str
    details: str = ""
    selection: Selection | None = None
    cycle: int | None = None


def why_waiting(session: Session, unit: int, cycle: int) -> Found:
    """Explain what a unit waits for in a cycle, and what that waits for in turn, as far as it is recorded."""
    name = session.description.units[unit].name
    chain = why(session, unit, cycle)
    if not chain:
        return Found(f"{name}: nothing is recorded for cycle {format_count(cycle)}.")
    lines = [_cause_text(session, cause) for cause in chain]
    last, what = chain[-1], chain[0].what
    waits = what if what.startswith("wait") else f"waits ({what})"
    text = f"{name} {waits}"
    if not chain[0].is_wait:
        text = f"{lines[0]}: it does not wait"
    elif len(chain) > 1:
        text += f" \u2190 {lines[1]}"
        text += f" \u2190 \u2026 \u2190 {lines[-1]}" if len(chain) > 2 else ""
    if last.is_wait and not last.recorded:
        text += "; what that waits for is not recorded" if len(chain) > 1 else ": for what is not recorded"
    cycles = (last.start, last.end) if 0 <= last.start < last.end else None
    track = _track(session, last, cycle)
    where = selected(unit=last.unit, track=track, instruction=last.instruction, cycles=cycles)
    return Found(f"{text}.", "\n".join(lines), where)


def _track(session: Session, cause: Cause, cycle: int) -> int:
    """Return the interval track that shows a cause, -1 if its unit has none."""
    if cause.track >= 0:
        return cause.track
    tracks = [t.id for t in session.description.tracks if t.unit == cause.unit and t.kind == "interval"]
    trace = session.trace
    at = cause.start if cause.start >= 0 else cycle
    for track in tracks if trace is not None else ():
        row = trace.at(track, at) if trace is not None else None
        if row is not None and int(row["start"]) == cause.start:
            return track
    return tracks[0] if tracks else -1


def who_wrote(session: Session, wanted: MemoryRange) -> Found:
    """Find the last instruction before now that wrote to the beginning of a range.

    If the records do not tell, the session goes back to the last write to the range, and returns to its
    cycle.
    """
    memory = _memory(session, wanted)
    place = f"{memory.name} {wanted.address:#x}"
    found = last_writer(session, memory, wanted.address)
    if found is None:
        return _who_wrote_by_going_back(session, memory, wanted)
    state = f"at cycle {format_count(found.cycle)}" if found.cycle >= 0 else "and is not done yet"
    text = f"{place} was written by {_name(session, found.instruction)} {state}."
    return Found(
        text,
        found.instruction.text,
        _selection_of(found.instruction),
        found.cycle if found.cycle >= 0 else None,
    )


def _who_wrote_by_going_back(session: Session, memory: Memory, wanted: MemoryRange) -> Found:
    start, place = session.cycle, f"{memory.name} {wanted.address:#x}"
    reason = session.run_back_to(f"write {memory_words(memory, wanted)}")
    cycle = session.cycle
    writers = _accessors(session, memory, wanted, is_write=True) if reason.kind is StopKind.UNTIL else []
    session.go_to(start)
    if reason.kind is StopKind.INTERRUPTED:
        return Found(f"The search for who wrote {place} was stopped.")
    if reason.kind is not StopKind.UNTIL:
        return Found(f"No instruction has written {place} before now.")
    return _access(session, f"{place} was written", writers, cycle)


def who_reads_next(session: Session, progress: Progress, wanted: MemoryRange) -> Found:
    """Find the next instruction that reads a byte of a range: the session runs to it, and returns to its
    cycle."""
    memory = _memory(session, wanted)
    start, place = session.cycle, f"{memory.name} {wanted.address:#x}"
    reason = session.run_to(f"read {memory_words(memory, wanted)}", progress)
    cycle = session.cycle
    readers = _accessors(session, memory, wanted, is_write=False) if reason.kind is StopKind.UNTIL else []
    session.go_to(start)
    if reason.kind is StopKind.INTERRUPTED:
        return Found(f"The search for who reads {place} was stopped at cycle {format_count(cycle)}.")
    if reason.kind is not StopKind.UNTIL:
        return Found(f"No instruction reads {place} before the run ends at cycle {format_count(cycle)}.")
    return _access(session, f"{place} is read next", readers, cycle)


def _access(session: Session, happened: str, found: list[Instruction], cycle: int) -> Found:
    """Write the answer about an access in a cycle by one of the found instructions."""
    when = f"{happened} in cycle {format_count(cycle)}"
    if not found or len(found) > MAX_NAMED:
        return Found(f"{when}; by which instruction is not known.", "", None, cycle)
    names = " or ".join(_name(session, instruction) for instruction in found)
    where = _selection_of(found[0]) if len(found) == 1 else None
    return Found(f"{when} by {names}.", "\n".join(each.text for each in found), where, cycle)


def _accessors(session: Session, memory: Memory, wanted: MemoryRange, *, is_write: bool) -> list[Instruction]:
    """Return the instructions of which one has just read or written a byte of a range.

    If none is under way, the cycle before is searched: the access may have been the last act of the
    instruction.
    """
    found = _under_way(session, memory, wanted, is_write=is_write)
    if not found and session.cycle > 0:
        session.go_to(session.cycle - 1)
        found = _under_way(session, memory, wanted, is_write=is_write)
    return found


def _under_way(session: Session, memory: Memory, wanted: MemoryRange, *, is_write: bool) -> list[Instruction]:
    """Return the instructions that are issued and not retired and may read or write a byte of a range.

    Operands in banked memories match in any bank: the program does not say in which bank they run.
    """
    machine, listing = session.machine, session.program.listing
    held = {state.instruction for state in machine.unit_states()}
    held |= {activity.instruction for activity in machine.activities()}
    for queue in session.description.queues:
        held |= {entry.instruction for entry in machine.queue_entries(queue.id)}
    trace, before = session.trace, max(session.cycle - 1, 0)
    for track in session.description.tracks if trace is not None else ():
        row = trace.at(track.id, before) if trace is not None and track.kind == "interval" else None
        held.add(int(row["instruction"]) if row is not None else -1)
    found = [listing.describe(index) for index in sorted(held) if 0 <= index < len(listing)]
    return [
        each
        for each in found
        if any(_overlaps(operand, memory, wanted) for operand in (each.writes if is_write else each.reads))
    ]


def _overlaps(operand: Operand, memory: Memory, wanted: MemoryRange) -> bool:
    low, first = operand.address, wanted.address
    if memory.num_banks > 1:
        low, first = low % memory.bank_bytes, first % memory.bank_bytes
    is_there = low < first + wanted.size_bytes and first < low + operand.size_bytes
    return operand.memory == memory.id and is_there


def _selection_of(instruction: Instruction) -> Selection:
    return selected(instruction=instruction.index, node=instruction.node, unit=instruction.unit)


def _memory(session: Session, wanted: MemoryRange) -> Memory:
    return next(memory for memory in session.description.memories if memory.id == wanted.memory)


def _name(session: Session, instruction: Instruction) -> str:
    unit = session.description.units[instruction.unit].name
    return f"{unit}: {instruction.opcode} #{instruction.index}"


def _cause_text(session: Session, cause: Cause) -> str:
    """Write a cause as "Core[0].EX, cycles 120 to 180: MATMUL #17"."""
    name = cause_unit(session, cause)
    end = f"{format_count(cause.end)}" if cause.end >= 0 else "now"
    since = f", cycles {format_count(cause.start)} to {end}" if cause.start >= 0 else ""
    what = cause.what
    if 0 <= cause.instruction < len(session.program.listing):
        found = session.program.listing.describe(cause.instruction)
        joint = " before " if cause.what == "idle" else ", "
        own = "" if found.opcode == cause.what else f"{cause.what}{joint}"
        what = f"{own}{found.opcode} #{found.index}"
    return f"{name}{since}: {what}"
