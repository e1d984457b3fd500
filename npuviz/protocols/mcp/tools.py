"""Implements the tools of the MCP server: each runs a verb or answers a question, and returns text."""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.api import DebugSession, OpenArguments, Picture, open_session
from npuviz.api.questions import PictureArguments
from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.debug.console.motion import stop_answer
from npuviz.protocols.mcp.answers import Answers
from npuviz.protocols.mcp.folders import Folders
from npuviz.sim.machine import LogsHazards
from npuviz.sim.stop import StopReason
from npuviz.trace.bundle.query import QueryResult
from npuviz.workbench.arguments import parse_size, read_array
from npuviz.workbench.headless.bundles import table_text
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.trust import scripts_to_run

MOST_SESSIONS = 8
MOST_SECONDS = 600.0
QUERY_SECONDS = 30.0
MOST_VALUES = 256
"""Most elements of a tensor that are shown."""
MOST_PICTURES = 8


@dataclass(frozen=True, slots=True)
class Policy:
    """Permissions of the user: the folders, and whether opening a file may run programs in them."""

    folders: Folders
    runs_programs: bool = True


class Tools:
    """The sessions of a client, with a method for each tool. One call at a time; `interrupt` may be called
    at any.

    Every method raises NpuvizError with one line.
    """

    def __init__(self, policy: Policy, answers: Answers) -> None:
        self._policy, self.answers = policy, answers
        self._sessions: dict[str, DebugSession] = {}
        self._pictures: dict[str, Picture] = {}
        self._count = 0
        self._busy: DebugSession | None = None
        self.lock = threading.Lock()

    # ---- sessions

    def open(self, path: str, arguments: Mapping[str, Any]) -> str:
        """Open a file and describe the session; `arguments` as of npuviz.open, with paths instead of
        arrays."""
        if len(self._sessions) >= MOST_SESSIONS:
            raise UsageError(f"{MOST_SESSIONS} sessions are open; close one: {', '.join(self._sessions)}")
        folders = self._policy.folders
        file = folders.inside(path)
        chosen = OpenArguments(**{name: value for name, value in arguments.items() if value})
        if "config" in chosen:
            chosen["config"] = folders.inside(str(chosen["config"]))
        inputs = chosen.get("inputs", {})
        chosen["inputs"] = {name: _array(folders, str(each)) for name, each in inputs.items()}
        self._check_programs(file, chosen)
        opened = open_session(file, **chosen)
        self._count += 1
        name = f"s{self._count}"
        self._sessions[name] = opened
        if opened.opened.session is None:
            return f"session: {name}\ntrace: {opened.title}\ncycles: {opened.trace.end_cycle}"
        notes = [f"note: {note.text}" for note in opened.program.notes if note.severity == "warning"]
        units = [unit.name for unit in opened.description.units]
        return "\n".join(
            [f"session: {name}", opened.info().as_text(), f"unit names: {', '.join(units)}", *notes]
        )

    def sessions(self) -> str:
        """List the open sessions."""
        return "\n".join(f"{name}: {session!r}" for name, session in self._sessions.items()) or "none is open"

    def close(self, session: str) -> str:
        """Close a session."""
        self._session(session).close()
        name = session or next(reversed(self._sessions))
        del self._sessions[name]
        return f"closed: {name}"

    def close_all(self) -> None:
        """Close all sessions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def interrupt(self) -> None:
        """Stop the verb that is running, if there is one."""
        busy = self._busy
        if busy is not None and busy.opened.session is not None:
            busy.interrupt()

    # ---- verbs

    def run(self, session: str, until: int | None, condition: str, seconds: float) -> str:
        """Run to a cycle, a condition or a stop, for at most `seconds`."""
        with self._moving(session, seconds) as found:
            return self._stopped(found, found.run_to(condition) if condition else found.run(until))

    def step(self, session: str, cycles: int, unit: str, seconds: float) -> str:
        """Run some cycles, or to the next instruction of a unit."""
        with self._moving(session, seconds) as found:
            return self._stopped(found, found.next(unit) if unit else found.step(cycles))

    def back(self, session: str, cycles: int | None, condition: str, unit: str) -> str:
        """Go back by cycles, to a condition, to a unit's instruction, or to the last breakpoint."""
        with self._moving(session, MOST_SECONDS) as found:
            if condition:
                return self._stopped(found, found.run_back_to(condition))
            if unit:
                return self._stopped(found, found.previous(unit))
            return self._stopped(found, found.run_back() if cycles is None else found.back(cycles))

    def goto(self, session: str, cycle: int, seconds: float) -> str:
        """Go to a cycle, forwards or backwards."""
        with self._moving(session, seconds) as found:
            return self._stopped(found, found.goto(cycle))

    # ---- questions

    def command(self, session: str, line: str, seconds: float = MOST_SECONDS) -> str:
        """Execute a line of the text debugger and return its answer."""
        if "\n" in line or not line.strip():
            raise UsageError("expected one line with one command; `help` lists them")
        with self._moving(session, seconds) as found:
            return found.do(line).as_text()

    def why(self, session: str, unit: str, cycle: int | None, until: int | None) -> str:
        """Explain why a unit waits."""
        return self._session(session).why(unit, cycle, until).as_text()

    def who(self, session: str, place: str) -> str:
        """Find the instruction that last wrote a byte."""
        return self._session(session).who(place).as_text()

    def explain(self, session: str) -> str:
        """Explain what costs most."""
        return self._session(session).explain().as_text()

    def accuracy(self, session: str) -> str:
        """Report how far tensors are from the reference."""
        return self._session(session).accuracy().as_text()

    def hazards(self, session: str) -> str:
        """List the hazards up to now."""
        return self.command(session, "hazards")

    def diff(self, session: str, other: str) -> str:
        """Report where two recorded runs differ."""
        return self._session(session).compare(self._session(other)).as_text()

    def query(self, session: str, sql: str) -> str:
        """Run SQL over the recorded trace, and return the rows as text."""
        found = self._session(session).query(sql, max_seconds=QUERY_SECONDS)
        return table_text(QueryResult(tuple(found.columns), list(found.rows)))

    def tensor(self, session: str, name: str, part: str) -> str:
        """Report statistics of a tensor now, and its elements in a range `a:b` of the flattened array."""
        found = self._session(session)
        if not name:
            return found.tensors.as_text()
        values = found.tensor(name)
        numbers = values.astype(np.float64).reshape(-1)
        low, high = _range(part, numbers.size)
        finite = numbers[np.isfinite(numbers)]
        lines = [f"tensor: {name}", f"shape: {list(values.shape)}", f"dtype: {values.dtype}"]
        if finite.size:
            lines.append(
                f"minimum: {finite.min():.6g}\nmaximum: {finite.max():.6g}\nmean: {finite.mean():.6g}"
            )
        lines.append(f"nan or infinite: {numbers.size - finite.size}")
        shown = " ".join(f"{value:.6g}" for value in numbers[low:high])
        return "\n".join([*lines, f"[{low}:{high}]: {shown}"])

    def picture(self, session: str, panels: tuple[str, ...], size: str) -> tuple[str, Picture]:
        """Take a picture of the window. Returns the name under which it is kept, and the picture."""
        chosen = PictureArguments(panels=panels, size=parse_size(size))
        picture = self._session(session).picture(**chosen)
        self._count += 1
        name = f"p{self._count}"
        self._pictures[name] = picture
        while len(self._pictures) > MOST_PICTURES:
            del self._pictures[next(iter(self._pictures))]
        return name, picture

    def kept_picture(self, name: str) -> Picture:
        """Return a picture that is kept. Raises UsageError."""
        if name not in self._pictures:
            raise UsageError(f"no picture {echo(name)!r}; there are: {', '.join(self._pictures) or 'none'}")
        return self._pictures[name]

    # ---- inside

    def _session(self, name: str) -> DebugSession:
        """Return a session by name, the newest for "". Raises UsageError."""
        if not self._sessions:
            raise UsageError("no session is open; call `open` with a file first")
        if name and name not in self._sessions:
            raise UsageError(f"no session {echo(name)!r}; open are: {', '.join(self._sessions)}")
        return self._sessions[name or next(reversed(self._sessions))]

    @contextmanager
    def _moving(self, name: str, seconds: float) -> Generator[DebugSession]:
        """Give a session for a verb inside the block, and interrupt it after `seconds`. Raises UsageError."""
        if not 0 < seconds <= MOST_SECONDS:
            raise UsageError(f"seconds {seconds:g}: expected more than 0, at most {MOST_SECONDS:g}")
        found = self._session(name)
        timer = threading.Timer(seconds, found.session.interrupt)
        timer.daemon = True
        timer.start()
        self._busy = found
        try:
            yield found
        finally:
            self._busy = None
            timer.cancel()

    def _stopped(self, found: DebugSession, reason: StopReason) -> str:
        """Write the reason of a stop, and the number of hazards if the machine logs them at no cost."""
        text = stop_answer(found.session, reason).as_text()
        machine = found.session.machine
        if isinstance(machine, LogsHazards) and machine.logs_hazards and (count := len(machine.hazards())):
            text += f"\nhazards so far: {count}"
        return text

    def _check_programs(self, file: Path, chosen: OpenArguments) -> None:
        options = OpenOptions(target=chosen.get("target", ""), preset=chosen.get("preset", ""))
        scripts = () if self._policy.runs_programs else scripts_to_run(file, options)
        if scripts:
            raise UsageError(
                f"{file.name}: opening it would run {scripts[0].name}, and --no-programs forbids that"
            )


def _array(folders: Folders, text: str) -> np.ndarray:
    return read_array(folders.inside(text))


def _range(text: str, size: int) -> tuple[int, int]:
    """Parse `a:b` to half-open indices within `size`, at most MOST_VALUES of them. Raises UsageError."""
    first, colon, last = text.partition(":")
    try:
        low, high = int(first or 0), int(last) if colon and last else size
    except ValueError:
        raise UsageError(f"part {echo(text)!r}: expected a:b, such as 0:100") from None
    if not 0 <= low <= high:
        raise UsageError(f"part {echo(text)!r}: expected 0 <= a <= b")
    return min(low, size), min(high, size, low + MOST_VALUES)
