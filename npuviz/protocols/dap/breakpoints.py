"""What a client set to stop at, as breakpoints of the session, and whether a stop counts."""

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
"""Ids of breakpoints that the session does not have."""
ACCESS = {"read": ("read",), "write": ("write",), "readWrite": ("read", "write")}


@dataclass(slots=True)
class Wanted:
    """A breakpoint of a client.

    reason    of the stop, as the protocol names it
    guard     tests made when it hits: it counts if one of them holds; None always counts
    hits      (comparison, number) on how often it hit; None for every time
    message   printed instead of stopping, "" stops
    """

    reason: str
    guard: Condition | None = None
    hits: tuple[str, int] | None = None
    message: str = ""
    count: int = 0


@dataclass(slots=True)
class Breakpoints:
    """Breakpoints of the session that a client set, by session id and by what they belong to."""

    session: Session
    places: Places
    _wanted: dict[int, Wanted] = field(default_factory=dict[int, Wanted])
    _refused: int = 0
    _groups: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def reason(self, hits: Sequence[int]) -> str:
        """Why a hit of these stops."""
        found = [self._wanted[hit].reason for hit in hits if hit in self._wanted]
        return found[0] if found else "breakpoint"

    # ---- requests

    def set_lines(self, arguments: Arguments) -> dict[str, Any]:
        """Have exactly these breakpoints in one source."""
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
        """Have exactly these breakpoints on instructions."""

        def place(item: Arguments) -> tuple[str, dict[str, Any]]:
            index = hexadecimal(text_in(item, "instructionReference"), "an instruction, such as 0x1a")
            index += number_in(item, "offset", 0)
            return f"instr {index}", {"instructionReference": hex(index)}

        return self._replace("instructions", arguments, place, "instruction breakpoint")

    def set_functions(self, arguments: Arguments) -> dict[str, Any]:
        """Have exactly these breakpoints on tasks, functions and operators."""

        def place(item: Arguments) -> tuple[str, dict[str, Any]]:
            name = text_in(item, "name")
            for word in ("function", "task", "op"):
                text = f"{word} {quoted(name)}"
                try:
                    self.session.breakpoints.parse(text)
                except ConditionError:
                    continue
                return text, {}
            raise UsageError(f"{echo(name)!r}: neither a function, a task nor an operator")

        return self._replace("functions", arguments, place, "function breakpoint")

    def set_data(self, arguments: Arguments) -> dict[str, Any]:
        """Have exactly these breakpoints on bytes."""

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
        """Whether a stop at these breakpoints is one; messages of log points go to `say`."""
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
        """Set a breakpoint on `text` that also needs the client's condition."""
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
        """A condition that is tested when a breakpoint hits. Raises ConditionError, UsageError."""
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
    """How often a breakpoint must have hit: `3`, `>= 3`, `== 3`, `% 3`. Raises UsageError."""
    if not text.strip():
        return None
    match = _HITS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{echo(text)!r}: expected a number of hits, such as 3, >= 3 or % 3")
    return match[1] or "", int(match[2])
