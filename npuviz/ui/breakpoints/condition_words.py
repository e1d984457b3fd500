"""Complete words in breakpoint conditions, and make example conditions for an open program."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.debug.condition.atoms import Scope
from npuviz.debug.condition.language import complete
from npuviz.debug.condition.tokens import quoted
from npuviz.program.program import Program
from npuviz.program.source import HasSource
from npuviz.sim.description import MachineDescription
from npuviz.sim.fabric import FabricShape
from npuviz.sim.probe import Probe

MAX_OFFERED = 200


@dataclass(frozen=True)
class ConditionWords:
    """The names of one program and machine that conditions can use: for completion (`scope`) and examples."""

    operators: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    word: str = ""
    scope: Scope | None = None

    def offers(self, text: str) -> tuple[int, list[str]]:
        """Return (start of the last word of a text, words that it can be completed to)."""
        if self.scope is None:
            return len(text), []
        start, found = complete(text, self.scope)
        return start, found[:MAX_OFFERED]


def words_of(
    program: Program,
    description: MachineDescription,
    probes: Sequence[Probe],
    fabric: FabricShape | None = None,
) -> ConditionWords:
    """Collect the names of an open program."""
    listing = program.listing
    entries = listing.entries if isinstance(listing, HasSource) else ()
    return ConditionWords(
        tuple(quoted(node.name or node.op_type) for node in program.graph.nodes),
        tuple(quoted(queue.name) for queue in description.queues),
        tuple(quoted(memory.name) for memory in description.memories),
        tuple(dict.fromkeys(quoted(entry.name) for entry in entries if entry.kind == "task")),
        fabric.word.lower() if fabric is not None else "",
        Scope(description, program, probes, fabric),
    )


def examples(words: ConditionWords) -> list[str]:
    """Return example conditions that are valid for the program."""
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
