"""Explain who wrote a byte, and why a unit waits, from the trace and the units' states.

Nothing is guessed: an answer ends where the trace and the machine's description end.
"""

from dataclasses import dataclass, replace

import numpy as np

from npuviz.debug.causes import IDLE, Cause, recorded_why
from npuviz.debug.session import Session
from npuviz.debug.translate import status_role
from npuviz.program.instruction import HasDependencies, Instruction
from npuviz.sim.description import Memory
from npuviz.sim.fabric import HasWordPaths, WordPath
from npuviz.sim.machine import HasSemaphores, HasWaitChains, WaitLink
from npuviz.sim.stop import STOP_MEMORY_WRITE, StopReason, stop_table
from npuviz.trace.reader import TraceReader

CHUNK_ROWS = 1 << 16
LONGEST_CHAIN = 8
MAX_PRODUCERS = 64
NUM_PARTITIONED = 32
"""Memories with at least this many banks are partitions side by side:
a tile in one usually covers its neighbours."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The last instruction that wrote a byte.

    cycle  cycle at which the write was complete; -1 while it is still under way, or if that is unknown
    """

    instruction: Instruction
    cycle: int
    since: int


def last_writer(session: Session, memory: Memory, address: int) -> Writer | None:
    """Return the last instruction before now that wrote a byte; None if none is known.

    For memories with banks, lifetimes and regions are searched, for others the instructions'
    destinations. Raises ValueError outside the memory.
    """
    _check_inside(memory, address)
    for region in session.machine.regions(memory.id):
        if region.instruction >= 0 and region.holds(address, memory.bank_bytes):
            return _writer(session, region.instruction, region.since)
    if session.trace is None:
        return None
    if memory.num_banks > 1:
        return _writer_by_lifetime(session, session.trace, memory, address)
    return _writer_by_destination(session, session.trace, memory.id, address)


def last_write(session: Session, memory: Memory, address: int) -> StopReason | None:
    """Return the stop at the last write of a byte up to now, found by going back;
    None if nothing has written it.

    Raises ValueError outside the memory, Cancelled when interrupted.
    """
    _check_inside(memory, address)
    return session.last_hit(stop_table([(STOP_MEMORY_WRITE, memory.id, address, address + 1, 0, 0)]))


def way_of(session: Session, word: int) -> WordPath | None:
    """Return the way of a word from where it was sent, going back to that if needed; None if unknown.

    Raises Cancelled when interrupted.
    """
    machine = session.machine
    if not isinstance(machine, HasWordPaths):
        return None
    path = machine.word_path(word)
    if (path is not None and path.hops and path.hops[0].kind == "sent") or not machine.is_sent(word):
        return path
    begin = session.at_first(lambda: machine.is_sent(word), lambda: machine.word_path(word))
    if begin is None or path is None:
        return begin
    known = {(hop.cycle, hop.column, hop.row, hop.kind) for hop in begin.hops}
    later = [hop for hop in path.hops if (hop.cycle, hop.column, hop.row, hop.kind) not in known]
    return replace(path, hops=(*begin.hops, *later))


def _check_inside(memory: Memory, address: int) -> None:
    if not 0 <= address < memory.size_bytes:
        raise ValueError(f"{address:#x}: expected an address below {memory.size_bytes:#x} of {memory.name}")


def why(session: Session, unit: int, cycle: int) -> list[Cause]:
    """Return the chain of causes of what a unit does at a cycle:
    each next link is what the one before waits for.

    If the trace records what ended the wait, the chain is that of `recorded_why`. A wait that nothing has
    ended yet is followed by the machine's own wait chain, by flows to the producer of the waiting
    instruction, and by the links of the description: upstream when a unit waits for work, downstream when it
    waits for room.
    """
    machine = session.machine
    if session.trace is not None and (known := recorded_why(session.trace, unit, cycle)):
        return known
    if cycle == session.cycle and isinstance(machine, HasWaitChains):
        links = machine.wait_chain(unit)
        if links:
            return [_linked(link) for link in links]
    chain: list[Cause] = []
    seen: set[int] = set()
    while unit not in seen and len(chain) < LONGEST_CHAIN:
        seen.add(unit)
        cause = what_at(session, unit, cycle)
        if cause is None:
            break
        chain.append(cause)
        if not cause.is_wait:
            break
        following = _following(session, cause, cycle, seen)
        if following is None:
            break
        unit = following
    return chain


def cause_unit(session: Session, cause: Cause) -> str:
    """Return the name of a link's unit; of its track if that belongs to no unit."""
    if cause.unit >= 0:
        return session.description.units[cause.unit].name
    return session.description.tracks[cause.track].name if cause.track >= 0 else "the run"


def _linked(link: WaitLink) -> Cause:
    role = "wait-dependency" if link.waits else "control"
    return Cause(link.unit, -1, -1, link.what, role, link.instruction)


def _following(session: Session, cause: Cause, cycle: int, seen: set[int]) -> int | None:
    """Return the unit that a waiting unit waits for, from the most reliable source that knows it."""
    for unit in (_producer(session, cause), _waited_for(session, cause, cycle, seen)):
        if unit is not None:
            return unit
    return _neighbour(session, cause, cycle, seen)


def what_at(session: Session, unit: int, cycle: int) -> Cause | None:
    """Return what a unit did in a cycle; None if nothing is recorded."""
    if cycle == session.cycle:
        cause = _now(session, unit)
        if cause is not None:
            return cause
    if session.trace is None or not 0 <= cycle < session.trace.end_cycle:
        return None
    kinds = {kind.id: kind for kind in session.description.kinds}
    best: Cause | None = None
    tracks = _tracks_of(session, unit)
    for track in tracks:
        row = session.trace.at(track, cycle)
        if row is None:
            continue
        kind = kinds[int(row["kind"])]
        start, end = int(row["start"]), int(row["end"])
        found = Cause(unit, start, end, kind.name, kind.role, int(row["instruction"]), kind.doc)
        if best is None or (best.is_wait and not found.is_wait):
            best = found
    return best or (_gap(session.trace, unit, tracks, cycle) if tracks else None)


def _gap(trace: TraceReader, unit: int, tracks: list[int], cycle: int) -> Cause:
    """Return a link for a unit without an interval in a cycle:
    it was idle from its last end to its next start."""
    before = [row for track in tracks if (row := trace.neighbor(track, cycle, -1)) is not None]
    behind = [row for track in tracks if (row := trace.neighbor(track, cycle, 1)) is not None]
    start = max((int(row["end"]) for row in before), default=0)
    following = min(behind, key=lambda row: int(row["start"]), default=None)
    end = int(following["start"]) if following is not None else -1
    index = int(following["instruction"]) if following is not None else -1
    return Cause(unit, start, end, IDLE, "wait-empty", index, "nothing to do")


def _now(session: Session, unit: int) -> Cause | None:
    state = next((s for s in session.machine.unit_states() if s.unit == unit), None)
    if state is None:
        return None
    role = status_role(state.status, state.role)
    tracks = set(_tracks_of(session, unit))
    kinds = {kind.id: kind for kind in session.description.kinds}
    under_way = [a for a in session.machine.activities() if a.track in tracks]
    for activity in sorted(under_way, key=lambda a: a.start, reverse=True):
        kind = kinds[activity.kind]
        if kind.role.startswith("wait") == role.startswith("wait"):
            start, end = activity.start, activity.planned_end
            return Cause(unit, start, end, kind.name, kind.role, activity.instruction, state.detail)
    return Cause(unit, state.since, -1, state.status, role, state.instruction, state.detail)


def _tracks_of(session: Session, unit: int) -> list[int]:
    return [t.id for t in session.description.tracks if t.unit == unit and t.kind == "interval"]


def _work_kinds(session: Session) -> list[int]:
    """Return the kinds of intervals in which an instruction works; in others it only waits."""
    return [kind.id for kind in session.description.kinds if not kind.role.startswith("wait")]


def _producer(session: Session, cause: Cause) -> int | None:
    """Return the unit of that producer of the waiting instruction which finished last, if it is recorded."""
    if session.trace is None or cause.instruction < 0:
        return None
    best: tuple[int, int] | None = None
    for producer in _producers(session, session.trace, cause.instruction):
        unit = session.program.listing.describe(producer).unit
        end = _end_of(session, session.trace, producer, unit)
        if end > cause.start and (best is None or end > best[0]) and unit != cause.unit:
            best = end, unit
    return best[1] if best is not None else None


def _producers(session: Session, trace: TraceReader, instruction: int) -> list[int]:
    """Return the instructions that another one waits for,
    from the trace's flows and the program's dependencies."""
    flows = trace.flows_of(instruction)
    found = flows["source"][(flows["sink"] == instruction) & (flows["source"] >= 0)].tolist()
    listing = session.program.listing
    if isinstance(listing, HasDependencies) and instruction < len(listing):
        found += [d.source for d in listing.dependencies_of(instruction) if d.sink == instruction]
    return sorted(set(found))[:MAX_PRODUCERS]


def _waited_for(session: Session, cause: Cause, cycle: int, seen: set[int]) -> int | None:
    """Return the unit that updates the semaphore for which a unit waits now."""
    machine = session.machine
    if cycle != session.cycle or not isinstance(machine, HasSemaphores):
        return None
    for state in machine.semaphores():
        if any(wait.unit == cause.unit for wait in state.waiting):
            for name in (f"{state.group}.{state.use}", state.use):
                unit = session.description.unit_named(name)
                if unit is not None and unit.id not in seen:
                    return unit.id
    return None


def _neighbour(session: Session, cause: Cause, cycle: int, seen: set[int]) -> int | None:
    is_downstream = cause.role in ("wait-queue", "wait-bandwidth")
    candidates: list[Cause] = []
    for link in session.description.links:
        here, there = (link.source, link.sink) if is_downstream else (link.sink, link.source)
        if here == cause.unit and there not in seen:
            found = what_at(session, there, cycle)
            if found is not None:
                candidates.append(found)
    # A unit that works explains the wait; one that waits itself only passes it on.
    candidates.sort(key=lambda c: (c.is_wait, c.unit))
    return candidates[0].unit if candidates else None


def _writer(session: Session, index: int, since: int) -> Writer:
    instruction = session.program.listing.describe(index)
    end = -1
    if session.trace is not None:
        end = _end_of(session, session.trace, index, instruction.unit)
    return Writer(instruction, end if end <= session.cycle else -1, since)


def _end_of(session: Session, trace: TraceReader, index: int, unit: int) -> int:
    """Return the end of an instruction's last interval on its unit's tracks, -1 if not recorded."""
    end = -1
    for track in _tracks_of(session, unit):
        columns = trace.interval_columns(track)
        rows = np.flatnonzero((columns.instruction == index) & np.isin(columns.kind, _work_kinds(session)))
        if rows.size:
            end = max(end, int(columns.end[rows[-1]]))
    return end


def _writer_by_lifetime(session: Session, trace: TraceReader, memory: Memory, address: int) -> Writer | None:
    rows = trace.lifetimes(memory.id, (0, session.cycle))
    first, size = rows["address"], rows["size_bytes"]
    inside = (first <= address) & (address < first + size)
    if memory.num_banks >= NUM_PARTITIONED:
        # A lifetime names the first of the partitions that a tile covers, but not how many they are.
        place = address % memory.bank_bytes
        offset = first % memory.bank_bytes
        inside |= (first <= address) & (offset <= place) & (place < offset + size)
    rows = rows[inside & (rows["start"] < session.cycle) & (rows["instruction"] >= 0)]
    if len(rows) == 0:
        return None
    last = rows[int(np.argmax(rows["start"]))]
    return _writer(session, int(last["instruction"]), int(last["start"]))


def _writer_by_destination(session: Session, trace: TraceReader, memory: int, address: int) -> Writer | None:
    listing = session.program.listing
    work = _work_kinds(session)
    best: tuple[int, int, int] | None = None  # (end, start, instruction)
    for track in (t.id for t in session.description.tracks if t.kind == "interval"):
        columns = trace.interval_columns(track)
        stop = int(np.searchsorted(columns.end, np.int64(session.cycle), side="right"))
        while stop > 0 and (best is None or columns.end[stop - 1] > best[0]):
            first = max(0, stop - CHUNK_ROWS)
            indices = np.ascontiguousarray(columns.instruction[first:stop])
            addresses, sizes, _ = listing.destinations_of(indices)
            fits = (indices >= 0) & (addresses <= address) & (address < addresses + sizes)
            fits &= np.isin(columns.kind[first:stop], work)
            for row in np.flatnonzero(fits)[::-1].tolist():
                index = int(indices[row])
                if any(operand.memory == memory for operand in listing.describe(index).writes):
                    end, start = int(columns.end[first + row]), int(columns.start[first + row])
                    if best is None or end > best[0]:
                        best = end, start, index
                    break
            else:
                stop = first
                continue
            break
    return Writer(listing.describe(best[2]), best[0], best[1]) if best is not None else None
