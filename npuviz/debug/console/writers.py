"""Text command `who`: who wrote a byte, and who sent the words of a fabric that are at a place."""

from collections.abc import Sequence
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.arguments import memory_of, words_of
from npuviz.debug.console.places import area_of, fabric_of, is_place, labels_in
from npuviz.debug.console.variables import absent_text, address_of, variable_named
from npuviz.debug.explain import last_write, last_writer, way_of
from npuviz.debug.session import Session
from npuviz.sim.description import Memory
from npuviz.sim.fabric import HasWordPaths, WordPath
from npuviz.sim.machine import HasUnitStops

MOST_WORDS = 64
"""Most words that are explained: each may have to be searched for."""
_COLUMNS = ("word", "color", "data", "sent_from", "sent_in", "by", "now")


def who(session: Session, rest: str) -> Answer:
    """Answer `who MEMORY ADDR`, `who VARIABLE`, `who QUEUE` or `who C,R`."""
    words = words_of(rest, 1, 2)
    if is_place(rest):
        return _at_element(session, rest)
    queue = session.description.queue_named(words[0])
    if len(words) == 2 and not is_place(words[0]):
        memory = memory_of(session, words[0])
        return _who_wrote(session, memory, address_of(session, memory, words[1]))
    variable = variable_named(session, words[0]) if queue is None else None
    if variable is not None:
        return _who_wrote(session, variable.memory, variable.address)
    if queue is None:
        raise UsageError(
            absent_text(session, words[0])
            or f"{words[0]!r}: expected a memory and an address, the name of a variable, a queue, "
            "or a place such as 0,0"
        )
    entries = session.machine.queue_entries(queue.id)
    found = [entry.word for entry in entries if entry.word >= 0]
    places = {queue.name.partition(".")[0]}
    return _words(session, found, {"queue": queue.name}, places)


def _who_wrote(session: Session, memory: Memory, address: int) -> Answer:
    pairs: dict[str, Any] = {"memory": memory.name, "address": f"{address:#x}"}
    found = last_writer(session, memory, address)
    if found is None and isinstance(session.machine, HasUnitStops):
        return _wrote_before(session, memory, address, pairs)
    if found is None:
        recorded = "no recorded instruction" if session.trace else "nothing is recorded, and no region,"
        return Answer({**pairs, "writer": None}, note=f"{recorded} has written it before now")
    node = found.instruction.node
    pairs |= {
        "writer": found.instruction.index,
        "text": found.instruction.text,
        "unit": session.description.units[found.instruction.unit].name,
        "operator": session.program.graph.nodes[node].name if node >= 0 else None,
        "since": found.since,
        "cycle": found.cycle if found.cycle >= 0 else None,
    }
    return Answer(pairs, note="" if found.cycle >= 0 else "the write is still under way")


def _wrote_before(session: Session, memory: Memory, address: int, pairs: dict[str, Any]) -> Answer:
    """Answer by going back to the last write, for a machine whose program does not tell addresses."""
    regions = session.machine.regions(memory.id)
    name = next((r.label for r in regions if r.holds(address, memory.bank_bytes)), None)
    stop = last_write(session, memory, address)
    pairs["variable"] = name
    if stop is None:
        note = "nothing has written it up to now: it holds what the program began with"
        return Answer({**pairs, "writer": None}, note=note)
    index = stop.instruction if stop.instruction >= 0 else None
    pairs |= {
        "writer": index,
        "text": session.program.listing.describe(index).text if index is not None else None,
        "unit": stop.unit,
        "source": stop.detail or None,
        "cycle": stop.cycle,
    }
    return Answer(pairs)


def _at_element(session: Session, rest: str) -> Answer:
    machine = session.machine
    area = area_of(session, rest)
    if not isinstance(machine, HasWordPaths):
        raise UsageError("this machine does not know the ways of words")
    found = [
        word
        for row in range(area.rows)
        for column in range(area.columns)
        for word in machine.words_of_element(area.column + column, area.row + row)
    ]
    return _words(session, list(dict.fromkeys(found)), {}, labels_in(session, area))


def _words(session: Session, words: Sequence[int], pairs: dict[str, Any], places: set[str]) -> Answer:
    rows = tuple(_row(session, word, places) for word in words[:MOST_WORDS])
    more = len(words) - MOST_WORDS
    note = "no words are there now" if not words else f"{more} words more" if more > 0 else ""
    return Answer(pairs, _COLUMNS, rows, "words", note)


def _row(session: Session, word: int, places: set[str]) -> tuple[Any, ...]:
    """Describe a word; `now` is its last known place among `places`, or anywhere."""
    path = way_of(session, word)
    if path is None:
        return word, None, None, None, None, "the host, or it is not known any more", None
    fabric = fabric_of(session)
    sent = next((hop for hop in path.hops if hop.kind == "sent"), None)
    here = (hop for hop in reversed(path.hops) if fabric.label(hop.column, hop.row) in places)
    last = next(here, path.hops[-1])
    now = f"{last.kind} at {fabric.label(last.column, last.row)} in cycle {last.cycle}"
    data = f"{path.data:#010x}" + (" control" if path.control else "")
    if sent is None:
        return word, path.color, data, None, None, _unsent(path), now
    place = fabric.label(sent.column, sent.row)
    return word, path.color, data, place, sent.cycle, sent.source or None, now


def _unsent(path: WordPath) -> str:
    return "the host" if path.id >> 62 else "not known any more"
