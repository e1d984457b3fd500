"""Define the program: everything that a machine needs to run and a person needs to follow it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from npuviz.program.graph import Graph
from npuviz.program.instruction import Listing
from npuviz.program.memory import MemoryMap

Severity = Literal["info", "warning", "error"]
"""How much a note matters. "error": the program's own data shows that it is wrong,
so that a run fails (exit code 1)."""


@dataclass(frozen=True, slots=True)
class HostReason:
    """Why an operator runs on the Host.

    limit   what the machine cannot hold or do, in words; found  the value in this model, "" where the limit
            says it; change  the smallest change of the model that lifts it, "" where none is known
    """

    limit: str
    found: str = ""
    change: str = ""

    def __str__(self) -> str:
        found = f" ({self.found})" if self.found else ""
        return f"{self.limit}{found}" + (f"; to lift it: {self.change}" if self.change else "")


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know about how the program was made.

    node  the graph node it concerns, -1 for the whole program
    code  short stable word, e.g. "host-operator", "deviation", "assumed", "unknown-key"
    reason  why an operator runs on the Host, None for other notes
    """

    severity: Severity
    code: str
    text: str
    node: int = -1
    reason: HostReason | None = None


class TakesNotes:
    """Base of loaders and compilers that collect notes for the user.

    notes  in the order in which they were made, each once
    """

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def note(
        self,
        code: str,
        text: str,
        node: int = -1,
        *,
        is_warning: bool = False,
        reason: HostReason | None = None,
    ) -> None:
        """Add a note for the user, unless there is the same one.

        reason  why an operator runs on the Host
        """
        made = Note("warning" if is_warning else "info", code, text, node, reason)
        if made not in self.notes:
            self.notes.append(made)


@dataclass(frozen=True)
class Program:
    """Immutable. Made by a target's `load`, run by the machine of the same target.

    target      id of the target that made it
    graph       the operators; may be empty for programs without one
    listing     instructions, decoded on demand
    memory_map  tensor places in the machine's large memories
    notes       what was assumed, placed on the Host, or done differently than asked
    placement   graph node id -> name of the unit group that runs it ("Core", "Host", ...)
    payload     the target's own tables; only that target looks inside
    fingerprint computes a digest of payload and tensor data when called, the same every time;
                it takes long with large inputs, so that targets cache it
    """

    target: str
    title: str
    graph: Graph
    listing: Listing
    memory_map: MemoryMap
    notes: tuple[Note, ...] = ()
    placement: Mapping[int, str] = field(default_factory=dict[int, str])
    payload: Any = None
    fingerprint: Callable[[], str] = str

    def digest(self) -> str:
        """Return a hexadecimal digest; equal programs have equal digests on every computer."""
        text = f"{self.target}\0{self.title}\0{self.fingerprint()}\0{len(self.listing)}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
