"""Keeps a client's breakpoints as breakpoints of the session, and decides whether a hit counts as a stop."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npuviz.base.errors import ConditionError, NpuvizError, UsageError
from npuviz.base.names import echo
from npuviz.debug.condition.language import Condition
from npuviz.debug.condition.tokens import quoted
from npuviz.debug.session import Session
from npuviz.protocols.dap.arguments import Arguments, hexadecimal, number_in, object_in, objects_in, text_in
from npuviz.protocols.dap.memory import parse_area
from npuviz.protocols.dap.places import PAGE, Places

_HITS = re.compile(r"(>=|==|=|>|%)?\s*(\d{1,12})")
FIRST_REFUSED = 1 << 30
"""First id of breakpoints that were refused and that the session therefore does not have."""
ACCESS = {"read": ("read",), "write": ("write",), "readWrite": ("read", "write")}


@dataclass(slots=True)
class Wanted:
    """A breakpoint of a client.

    reason    of the stop, in the words of the protocol
    guard     condition that is tested at a hit, which counts if one of its tests holds; None: every hit
    counts
    hits      (comparison, number) that the number of hits must satisfy; None: any number does
    message   printed instead of stopping, "" to stop
    """

    reason: str
    guard: Condition | None = None
    hits: tuple[str, int] | None = None
    message: str = ""
    count: int = 0


@dataclass(slots=True)
class Breakpoints:
    """The breakpoints that a client set, by session id and by group (a source, instructions, functions,
    data)."""

    session: Session
    places: Places
    _wanted: dict[int, Wanted] = field(default_factory=dict[int, Wanted])
    _refused: int = 0
    _groups: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def reason(self, hits: Sequence[int]) -> str:
        """Return the reason of a stop at these breakpoints, in the words of the protocol."""
        found = [self._wanted[hit].reason for hit in hits if hit in self._wanted]
        return found[0] if found else "breakpoint"

    # ---- requests

    def set_lines(self, arguments: Arguments) -> dict[str, Any]:
        """Replace all breakpoints in one source by those of a request. Returns the body of the response."""
        source = object_in(arguments, "source")
        file, page = self.places.file_of(source), self.places.page_of(source)

        def place(item: Arguments) -> tuple[str, dict[str, Any]]:
            line = number_in(item, "line")
            if file is not None:
                line = self.places.line_with_code(file, line)
                text = f"line {quoted(f'{self.places.sources[file].name}:{line}')}"
                return text, {"line": line, "source": self.places.source(file)}
            if page is not None:
                if not 1 <= line <= PAGE:
                    raise UsageError(f"line {line}: expected 1 to {PAGE}")
                return f"instr {page * PAGE + line - 1}", {"line": line}
            raise UsageError("no instruction of this program comes from this file")

        return self._replace(self.places.known(source), arguments, place, "breakpoint")

    def set_instructions(self, arguments: Arguments) -> dict[str, Any]:
        """Replace all breakpoints on instructions by those of a request. Returns the body of the response."""

        def place(item: Arguments) -> tuple[str, dict[str, Any]]:
            index = hexadecimal(text_in(item, "instructionReference"), "an instruction, such as 0x1a")
            index += number_in(item, "offset", 0)
            return f"instr {index}", {"instructionReference": hex(index)}

        return self._replace("instructions", arguments, place, "instruction breakpoint")

    def set_functions(self, arguments: Arguments) -> dict[str, Any]:
        """Replace all breakpoints on tasks, functions and operators by those of a request. Returns the
        response's body."""

        def place(item: Arguments) -> tuple[str, dict[str, Any]]:
            name = text_in(item, "name")
            try:
                return self.session.breakpoints.parse(f'"{name}"').text, {}
            except ConditionError:
                raise UsageError(f"{echo(name)!r}: neither a function, a task nor an operator") from None

        return self._replace("functions", arguments, place, "function breakpoint")

    def set_data(self, arguments: Arguments) -> dict[str, Any]:
        """Replace all breakpoints on bytes by those of a request. Returns the body of the response."""

        def place(item: Arguments) -> tuple[str, dict[str, Any]]:
            area = parse_area(self.session, text_in(item, "dataId"))
            words = ACCESS.get(text_in(item, "accessType", "write"))
            if words is None:
                raise UsageError("accessType: expected read, write or readWrite")
            where = f"{quoted(area.memory.name)} {area.address:#x}..{area.address + area.size_bytes:#x}"
            return " or ".join(f"{word} {where}" for word in words), {}

        return self._replace("data", arguments, place, "data breakpoint")

    # ---- hits

    def counts(self, hits: Sequence[int], say: Callable[[str], None]) -> bool:
        """Count a hit of these breakpoints, and return whether it is a stop; messages of log points go to
        `say`."""
        counted = [self._counts(hit, say) for hit in hits]  # each of them counts its hits
        return any(counted)

    def _counts(self, hit: int, say: Callable[[str], None]) -> bool:
        wanted = self._wanted.get(hit)
        if wanted is None:
            return True  # set by a command of the console
        if wanted.guard is not None and not self._holds(wanted.guard):
            return False
        wanted.count += 1
        if wanted.hits is not None:
            comparison, number = wanted.hits
            if not _COMPARE[comparison](wanted.count, number):
                return False
        if wanted.message:
            say(wanted.message)
        return not wanted.message

    def _holds(self, guard: Condition) -> bool:
        machine = self.session.machine
        return any(test.holds(machine.read(test.probe)) for test in guard.probes)

    # ---- inside

    def _replace(
        self,
        group: str,
        arguments: Arguments,
        place: Callable[[Arguments], tuple[str, dict[str, Any]]],
        reason: str,
    ) -> dict[str, Any]:
        known = {item.id for item in self.session.breakpoints.all}
        for old in self._groups.pop(group, []):
            self._wanted.pop(old, None)
            if old in known:
                self.session.breakpoints.remove(old)
        made: list[int] = []
        answers: list[dict[str, Any]] = []
        for item in objects_in(arguments, "breakpoints"):
            try:
                text, where = place(item)
                number, wanted = self._add(text, item, reason)
            except NpuvizError as error:
                line = {"line": item["line"]} if isinstance(item.get("line"), int) else {}
                self._refused += 1
                answers.append(
                    {"id": FIRST_REFUSED + self._refused, "verified": False, "message": str(error), **line}
                )
                continue
            self._wanted[number] = wanted
            made.append(number)
            answers.append({"id": number, "verified": True, **where})
        self._groups[group] = made
        return {"breakpoints": answers}

    def _add(self, text: str, item: Arguments, reason: str) -> tuple[int, Wanted]:
        """Add a breakpoint at `text` that only stops if the client's condition holds too."""
        wanted = Wanted(
            reason, None, _hits(text_in(item, "hitCondition", "")), text_in(item, "logMessage", "")
        )
        condition = text_in(item, "condition", "").strip()
        if condition:
            both = f"({text}) and ({condition})"
            try:
                return self.session.breakpoints.add(both).id, wanted
            except ConditionError:
                wanted.guard = self._guard(condition)
        return self.session.breakpoints.add(text).id, wanted

    def _guard(self, condition: str) -> Condition:
        """Parse a condition that is tested when a breakpoint hits. Raises ConditionError, UsageError."""
        guard = self.session.breakpoints.parse(condition)
        if guard.rows or guard.cycles:
            raise UsageError(f"{echo(condition)}: expected comparisons of probes, such as NAME >= 2")
        return guard


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "": lambda count, number: count >= number,
    ">=": lambda count, number: count >= number,
    ">": lambda count, number: count > number,
    "==": lambda count, number: count == number,
    "=": lambda count, number: count == number,
    "%": lambda count, number: number > 0 and count % number == 0,
}


def _hits(text: str) -> tuple[str, int] | None:
    """Parse a condition on the number of hits: `3`, `>= 3`, `== 3`, `% 3`. Raises UsageError."""
    if not text.strip():
        return None
    match = _HITS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{echo(text)!r}: expected a number of hits, such as 3, >= 3 or % 3")
    return match[1] or "", int(match[2])
