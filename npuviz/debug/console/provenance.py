"""Text commands `origin` and `readers`: what a byte was made from, and who uses it."""

from collections.abc import Iterator
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.debug.console.answer import Answer, Shown
from npuviz.debug.console.arguments import number_of, words_of
from npuviz.debug.console.variables import place_of
from npuviz.debug.provenance import Origin, Provenance, Step, provenance_of
from npuviz.debug.session import Session
from npuviz.sim.description import Memory

USUAL_DEPTH = 3
DEEPEST = 64
MOST_SOURCES = 8
"""Most sources of one step that are listed; the others are counted."""
MOST_ROWS = 120
MOST_READERS = 40
WIDEST = 88
"""Longest text of an instruction in a tree, in characters; JSON has the whole text."""
ORIGIN_COLUMNS = ("depth", "step", "unit", "operator", "cycle", "from", "line")
READER_COLUMNS = ("instruction", "text", "unit", "operator", "cycle", "line")


def origin(session: Session, rest: str) -> Answer:
    """Answer `origin MEMORY ADDR|TENSOR|VARIABLE [DEPTH]`: what a byte was made from."""
    memory, address, depth = _place_of(session, rest, has_depth=True)
    found = provenance_of(session)
    writer = found.writer(memory, address)
    pairs: dict[str, Any] = {"memory": memory.name, "address": f"{address:#x}"}
    if writer is None:
        note = "no step of the run has written it up to now: it holds what the run began with, or nothing"
        return Answer(pairs, ORIGIN_COLUMNS, (), "origin", note)
    tree = _Tree(found, depth)
    rows, left = tree.rows(writer)
    notes = [
        f"{left} more are not listed" if left else "",
        f"it goes on below: `origin {memory.name} {address:#x} {2 * depth}`" if tree.is_cut else "",
        *(f"not followed: {what}" for what in found.left_out),
    ]
    return Answer(pairs, ORIGIN_COLUMNS, tuple(rows), "origin", "; ".join(filter(None, notes)))


def readers(session: Session, rest: str) -> Answer:
    """Answer `readers MEMORY ADDR|TENSOR|VARIABLE`: who reads a byte, and who overwrites it."""
    memory, address, _ = _place_of(session, rest, has_depth=False)
    provenance = provenance_of(session)
    found = provenance.readers(memory, address)
    over = found.overwritten
    pairs = {
        "memory": memory.name,
        "address": f"{address:#x}",
        "writer": found.writer.instruction.index if found.writer is not None else None,
        "overwritten_by": over.instruction.index if over is not None else None,
        "overwritten_at": over.cycle if over is not None else None,
        "followed_to": provenance.until,
        "reaches": list(found.outputs) if found.outputs is not None else None,
    }
    notes: list[str] = []
    if found.outputs is None:
        notes.append(
            "the run has not ended: which outputs it reaches is not known, and later readers neither"
        )
    elif not found.outputs and not found.doubtful:
        notes.append("no output depends on it")
    if found.doubtful:
        notes.append(f"may reach {', '.join(found.doubtful)}: bytes between gaps were not all compared")
    if len(found.steps) > MOST_READERS:
        notes.append(f"{len(found.steps) - MOST_READERS} more read it")
    if not found.steps:
        notes.append(
            "nobody reads it" if provenance.is_whole or over is not None else "nobody has read it so far"
        )
    rows = tuple(_reader_row(step) for step in found.steps[:MOST_READERS])
    return Answer(pairs, READER_COLUMNS, rows, "readers", "; ".join(notes))


def _place_of(session: Session, rest: str, *, has_depth: bool) -> tuple[Memory, int, int]:
    """Parse a byte and a depth: MEMORY ADDR [DEPTH], or the first byte of TENSOR or VARIABLE [DEPTH].

    Returns memory, address and depth.
    """
    words = words_of(rest, 1, 3 if has_depth else 2)
    if session.description.memory_named(words[0]) is None:
        tensor = next((each for each in session.program.graph.tensors if each.name == words[0]), None)
        place = session.program.memory_map.of_tensor(tensor.id) if tensor is not None else None
        if tensor is not None and place is None:
            raise UsageError(f"tensor {words[0]}: it has no place of its own in a large memory")
        if place is not None:
            memory = next(each for each in session.description.memories if each.id == place.memory)
            return memory, place.address, _depth_of(words[1:])
    memory, address, rest_of_words = place_of(session, words)
    return memory, address, _depth_of(rest_of_words)


def _depth_of(words: list[str]) -> int:
    depth = number_of(words[0], "a depth", 1) if words else USUAL_DEPTH
    return min(depth, DEEPEST)


class _Tree:
    """Rows of a tree, each step with its sources below it. is_cut  there are more sources below its depth"""

    def __init__(self, found: Provenance, depth: int) -> None:
        self._found = found
        self._depth = depth
        self._seen: set[int] = set()
        self.is_cut = False

    def rows(self, root: Step) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows, and the number of rows left out."""
        rows: list[tuple[Any, ...]] = [_step_row(0, root, "", "")]
        self._seen.add(root.place)
        for row in self._below(root, 1):
            rows.append(row)
            if len(rows) >= 100 * MOST_ROWS:
                break
        return rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS)

    def _below(self, step: Step, level: int) -> Iterator[tuple[Any, ...]]:
        """Yield the sources of a step, with their sources in turn below them, each step only once."""
        sources = self._found.origins(step.place)
        for each in sources[:MOST_SOURCES]:
            yield _origin_row(level, each, self._seen)
            if each.step is not None and each.step.place not in self._seen:
                self._seen.add(each.step.place)
                if level < self._depth:
                    yield from self._below(each.step, level + 1)
                elif self._found.origins(each.step.place):
                    self.is_cut = self._depth < DEEPEST
        if len(sources) > MOST_SOURCES:
            text = f"... and {len(sources) - MOST_SOURCES} more"
            yield level, Shown(text, "  " * level + text), None, None, None, None, None


def _origin_row(level: int, origin: Origin, seen: set[int]) -> tuple[Any, ...]:
    if origin.step is None:
        return level, Shown(origin.name, "  " * level + origin.name), None, None, None, origin.through, None
    return _step_row(level, origin.step, origin.through, " (above)" if origin.step.place in seen else "")


def _step_row(level: int, step: Step, through: str, remark: str) -> tuple[Any, ...]:
    number = f"#{step.instruction.index} " if step.instruction.index >= 0 else ""
    text = f"{number}{step.instruction.text}{remark}"
    shown = Shown(text, "  " * level + (text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}\u2026"))
    return level, shown, step.unit, step.operator or None, step.cycle, through or None, step.line or None


def _reader_row(step: Step) -> tuple[Any, ...]:
    found = step.instruction
    return found.index, found.text, step.unit, step.operator or None, step.cycle, step.line or None
