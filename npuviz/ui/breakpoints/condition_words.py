"""Which words may come next in a breakpoint condition, and examples that fit an open program."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.debug.condition.tokens import quoted
from npuviz.program.program import Program
from npuviz.program.source import HasSource
from npuviz.sim.description import MachineDescription
from npuviz.sim.fabric import FabricShape
from npuviz.sim.probe import Probe

KEYWORDS = ("cycle", "instr", "op", "queue", "read", "write")
MAX_OFFERED = 200
_WORD = re.compile(r'"[^"]*"?|\S+')


@dataclass(frozen=True)
class ConditionWords:
    """Names that conditions about one program and machine can use."""

    operators: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    word: str = ""

    @property
    def keywords(self) -> tuple[str, ...]:
        """First words of a condition."""
        source = ("line", "task", "function") if self.files else ()
        return (*KEYWORDS, *source, *((self.word,) if self.word else ()))

    def offers(self, text: str) -> tuple[int, list[str]]:
        """(where the word under way begins, words it can become) at the end of a text."""
        words = [(m.start(), m.group()) for m in _WORD.finditer(text)]
        begins_word = not words or (text[-1:].isspace() and not _is_open(words[-1][1]))
        start = len(text) if begins_word else words[-1][0]
        before = [word for _, word in (words if begins_word else words[:-1])]
        if "or" in before:
            before = before[len(before) - before[::-1].index("or") :]
        partial = text[start:].strip('"').casefold()
        found = [w for w in self._choices(before) if partial in w.strip('"').casefold()]
        found.sort(key=lambda w: (not w.strip('"').casefold().startswith(partial), w))
        if found == [text[start:]]:
            return start, []
        return start, found[:MAX_OFFERED]

    def _choices(self, before: Sequence[str]) -> Sequence[str]:
        if not before:
            return (*self.keywords, *self.probes)
        kind, place = before[0], len(before)
        named = {
            "op": self.operators,
            "queue": self.queues,
            "read": self.memories,
            "write": self.memories,
            "line": tuple(f"{name}:" for name in self.files),
            "task": self.tasks,
            "function": self.functions,
            self.word: ("color", *_PARTS),
        }
        if place == 1:
            return named.get(
                kind, ("==", ">=") if kind == "cycle" else () if kind == "instr" else _COMPARISONS
            )
        if place == 2 and kind == "op":
            return ("ends", "or")
        if place == 2 and kind == "queue":
            return (*_COMPARISONS, "full")
        if before[-1] in ("data", "f32", "index", "half"):
            return _COMPARISONS
        if kind == self.word and place == 3:
            return _PARTS
        return ("at",) if place == 2 and kind in ("line", "task", "function") else ()


_PARTS = ("at", "data", "f32", "index", "half", "control")
_COMPARISONS = (">=", "==", "<=", ">", "<", "!=")


def words_of(
    program: Program,
    description: MachineDescription,
    probes: Sequence[Probe],
    fabric: FabricShape | None = None,
) -> ConditionWords:
    """The names of an open program."""
    listing = program.listing
    entries = listing.entries if isinstance(listing, HasSource) else ()
    files = listing.sources if isinstance(listing, HasSource) else ()
    return ConditionWords(
        tuple(quoted(node.name or node.op_type) for node in program.graph.nodes),
        tuple(quoted(queue.name) for queue in description.queues),
        tuple(quoted(memory.name) for memory in description.memories),
        tuple(probe.id for probe in probes),
        tuple(dict.fromkeys(quoted(entry.name) for entry in entries if entry.kind == "task")),
        tuple(dict.fromkeys(quoted(entry.name) for entry in entries if entry.kind != "task")),
        tuple(file.name for file in files if not file.library),
        fabric.word.lower() if fabric is not None else "",
    )


def examples(words: ConditionWords) -> list[str]:
    """Conditions that can be set as they are."""
    found = ["cycle == 1000", "instr 10"]
    if words.operators:
        found.append(f"op {words.operators[min(1, len(words.operators) - 1)]}")
    if words.queues:
        found.append(f"queue {words.queues[0]} >= 2")
    if words.memories:
        found.append(f"write {words.memories[0]} 0x0..0x40")
    if words.tasks:
        found.append(f"task {words.tasks[0]} at 0,0")
    if words.word:
        found.append(f"{words.word} at 0,0")
    return found


def _is_open(word: str) -> bool:
    """Whether a quoted name still waits for its closing quote."""
    return word.startswith('"') and (len(word) == 1 or not word.endswith('"'))
