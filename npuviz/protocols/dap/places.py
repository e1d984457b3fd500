"""Maps elements or units to threads, calls or instructions to frames, and program texts to sources of a
client."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.names import echo, resolved
from npuviz.debug.session import Session
from npuviz.debug.unit_steps import instruction_at
from npuviz.program.source import CallSite, HasCalls, HasSource, Place, SourceFile
from npuviz.protocols.dap.arguments import Arguments, number_in, text_in
from npuviz.sim.frames import Frame, HasFrames

MOST_THREADS = 1000
PAGE = 1000
"""Instructions of one page of the listing."""
MOST_PAGES = 100
"""Most pages that are listed as sources; the others are reached through frames."""
FIRST_PAGE = 1 << 20
"""Source reference of the first page; lower references are program texts without a file."""
FRAMES_PER_THREAD = 512


@dataclass(frozen=True, slots=True)
class Spot:
    """Position of a frame: an instruction (-1 none), its call, if any, and its thread.

    frame  of an element that calls functions;  call  of a unit whose source text has calls
    """

    thread: int
    instruction: int
    frame: Frame | None = None
    call: CallSite | None = None


class Places:
    """Threads, frames and texts of a session. Ids of threads are 1 + element or 1 + unit.

    folder  of the program: files of program texts that were compiled elsewhere are searched there, by name
    and
    content
    """

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        listing = session.program.listing
        self.sources = tuple(listing.sources) if isinstance(listing, HasSource) else ()
        self._paths = tuple(_path_of(source, folder) for source in self.sources)
        self.has_elements = isinstance(session.machine, HasFrames) and session.fabric is not None
        self.threads = tuple(self._elements() if self.has_elements else self._units())

    # ---- threads

    def _elements(self) -> list[tuple[int, str]]:
        fabric = self._session.fabric
        assert fabric is not None
        area = fabric.program
        places = [
            (area.column + number % area.columns, area.row + number // area.columns)
            for number in range(min(area.columns * area.rows, MOST_THREADS))
        ]
        return [(1 + row * fabric.columns + column, fabric.label(column, row)) for column, row in places]

    def _units(self) -> list[tuple[int, str]]:
        listing = self._session.program.listing
        running = self._session.machine.next_instructions()
        units = self._session.description.units
        found = [unit for unit in units if unit.id in running or listing.ranges_of_unit(unit.id)]
        return [(1 + unit.id, unit.name) for unit in (found or units)[:MOST_THREADS]]

    def subject(self, arguments: Arguments) -> int:
        """Return the element or unit of the thread in a request, the first one by default. Raises
        UsageError."""
        thread = number_in(arguments, "threadId", self.threads[0][0])
        if not any(thread == known for known, _ in self.threads):
            raise UsageError(f"no thread {thread}")
        return thread - 1

    def thread_at(self, instructions: Sequence[tuple[int, int]], name: str) -> int | None:
        """Find the thread of this name, else the first one whose current instruction is in these half-open
        ranges."""
        for thread, known in self.threads:
            if known == name:
                return thread
        for thread, _ in self.threads:
            now = self.spots(thread)[:1]
            if now and any(low <= now[0].instruction < high for low, high in instructions):
                return thread
        return None

    # ---- frames

    def spots(self, thread: int) -> list[Spot]:
        """Return the frames of a thread, innermost first; none if it runs nothing."""
        machine = self._session.machine
        if self.has_elements and isinstance(machine, HasFrames):
            frames = machine.frames(thread - 1)[:FRAMES_PER_THREAD]
            return [Spot(thread, frame.instruction, frame) for frame in frames]
        index = instruction_at(self._session, thread - 1)
        listing = self._session.program.listing
        if not 0 <= index < len(listing):
            return []
        calls = listing.calls_of(index) if isinstance(listing, HasCalls) else ()
        found = [Spot(thread, index, None, call) for call in calls[:FRAMES_PER_THREAD]]
        return found or [Spot(thread, index)]

    def frames(self, thread: int, first: int, count: int) -> dict[str, Any]:
        """Return the body of a stackTrace response."""
        spots = self.spots(thread)
        chosen = spots[first : first + count if count > 0 else None]
        return {
            "stackFrames": [self._frame(spot, first + depth) for depth, spot in enumerate(chosen)],
            "totalFrames": len(spots),
        }

    def _frame(self, spot: Spot, depth: int) -> dict[str, Any]:
        name = spot.frame.name if spot.frame is not None else self._name(spot.instruction)
        place = None
        if spot.call is not None:
            name = _call_text(spot.call) if depth else f"{_call_text(spot.call)}: {name}"
            place = spot.call.place
        return {
            "id": spot.thread * FRAMES_PER_THREAD + depth,
            "name": name,
            "instructionPointerReference": hex(spot.instruction),
            **self.location(spot.instruction, place),
        }

    def spot(self, frame: int) -> Spot:
        """Return the spot of a frame id. Raises UsageError if the frame no longer exists."""
        thread, depth = divmod(frame, FRAMES_PER_THREAD)
        spots = self.spots(thread) if any(thread == known for known, _ in self.threads) else []
        if depth >= len(spots):
            raise UsageError(f"no frame {frame} now")
        return spots[depth]

    def _name(self, instruction: int) -> str:
        found = self._session.program.listing.describe(instruction)
        nodes = self._session.program.graph.nodes
        operator = f"{nodes[found.node].name}: " if 0 <= found.node < len(nodes) else ""
        return f"{operator}{found.opcode} #{instruction}"

    # ---- texts

    def location(self, instruction: int, place: Place | None = None) -> dict[str, Any]:
        """Return source, line and column of a place or instruction: in the program text, else in the
        listing."""
        listing = self._session.program.listing
        if place is None and isinstance(listing, HasSource):
            place = listing.place_of(instruction)
        if place is not None:
            return {"source": self.source(place.file), "line": place.line, "column": place.column}
        page, line = divmod(instruction, PAGE)
        return {"source": self.page(page), "line": line + 1, "column": 1}

    def source(self, file: int) -> dict[str, Any]:
        """Return a program text as a source of the protocol: by path if it has a file, else by reference."""
        text = self.sources[file]
        hint = {"presentationHint": "deemphasize"} if text.library else {}
        if self._paths[file]:
            return {"name": text.name, "path": self._paths[file], **hint}
        return {"name": text.name, "sourceReference": 1 + file, **hint}

    def page(self, page: int) -> dict[str, Any]:
        """Return a page of the listing as a source of the protocol."""
        first = page * PAGE
        last = min(first + PAGE, len(self._session.program.listing)) - 1
        return {"name": f"instructions {first} to {last}", "sourceReference": FIRST_PAGE + page}

    def all_sources(self) -> list[dict[str, Any]]:
        """Return all program texts and the first MOST_PAGES pages of the listing as sources."""
        pages = min(-(-len(self._session.program.listing) // PAGE), MOST_PAGES)
        return [*map(self.source, range(len(self.sources))), *map(self.page, range(pages))]

    def text(self, reference: int) -> str:
        """Return the content of a source reference. Raises UsageError."""
        if 1 <= reference <= len(self.sources):
            return self.sources[reference - 1].text
        listing = self._session.program.listing
        first = (reference - FIRST_PAGE) * PAGE
        if not 0 <= first < len(listing):
            raise UsageError(f"no source {reference}")
        last = min(first + PAGE, len(listing))
        return "\n".join(f"#{index}  {listing.describe(index).text}" for index in range(first, last))

    def file_of(self, source: Arguments) -> int | None:
        """Return the index of the program text of a source, by reference, path or name; None for other
        sources."""
        reference = number_in(source, "sourceReference", 0)
        if 1 <= reference <= len(self.sources):
            return reference - 1
        path = text_in(source, "path", "")
        if path:
            wanted = resolved(Path(path.removeprefix("file://")))
            for number, known in enumerate(self._paths):
                if known and wanted is not None and Path(known).resolve() == wanted:
                    return number
        name = text_in(source, "name", "") or os.path.basename(path)
        named = [number for number, file in enumerate(self.sources) if file.name == name]
        return named[0] if len(named) == 1 and not path else None

    def page_of(self, source: Arguments) -> int | None:
        """Return the page of the listing of a source, None for other sources."""
        page = number_in(source, "sourceReference", 0) - FIRST_PAGE
        return page if 0 <= page * PAGE < len(self._session.program.listing) else None

    def line_with_code(self, file: int, line: int) -> int:
        """Return the line if it has code, else the next one that has. Raises UsageError behind the last
        one."""
        listing = self._session.program.listing
        lines = listing.lines_with_code(file) if isinstance(listing, HasSource) else ()
        found = next((each for each in lines if each >= line), None)
        if found is None:
            raise UsageError(f"no instruction comes from line {line} or a later one")
        return found

    def lines(self, file: int, first: int, last: int) -> list[int]:
        """Return the lines from `first` to `last` that have code."""
        listing = self._session.program.listing
        found = listing.lines_with_code(file) if isinstance(listing, HasSource) else ()
        return [line for line in found if first <= line <= last]

    def known(self, source: Arguments) -> str:
        """Return a key that identifies a source."""
        file = self.file_of(source)
        page = self.page_of(source)
        if file is None and page is None:
            return echo(text_in(source, "path", "") or text_in(source, "name", "?"))
        return f"file {file}" if file is not None else f"page {page}"


def _path_of(source: SourceFile, folder: Path) -> str:
    """Find the file of a program text: its own path, else a file of the program's folder with equal content,
    else ""."""
    if source.path and os.path.isfile(source.path):
        return os.path.abspath(source.path)
    if source.library:
        return ""
    found = folder / source.name
    try:
        is_same = found.is_file() and found.read_text(encoding="utf-8") == source.text
    except (OSError, ValueError):
        is_same = False
    return str(found.resolve()) if is_same else ""


def _call_text(call: CallSite) -> str:
    """Write a call with its loops, as "softmax, block = 128 (2 of 4)"."""
    loops = (f"{loop.variable} = {loop.value} ({loop.turn} of {loop.count})" for loop in call.loops)
    return ", ".join((call.function, *loops))
