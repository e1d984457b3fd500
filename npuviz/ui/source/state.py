"""Read from a stopped machine what the source panel shows: places, variables, breakpoints."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from npuviz.debug.condition.tokens import quoted
from npuviz.program.source import CallSite, HasCalls, HasSource, Place
from npuviz.sim.fabric import FabricShape, HasFabric
from npuviz.sim.frames import Frame, FrameVariable, HasFrames
from npuviz.sim.machine import Machine

_LINE = re.compile(
    r'(?:log\s+)?line\s+"?(?P<place>[^"]+?)"?(?:\s+at\s+(?P<column>\d+)\s*,\s*(?P<row>\d+))?'
    r"\s*(?:\b(?:if|and|show)\b.*)?"
)


@dataclass(frozen=True, slots=True)
class ElementPlace:
    """The place of an element in its program.

    element    row * columns + column
    label      its name
    frames     calls under way, innermost first, with their places
    variables  global variables;  title  what they are
    """

    element: int
    label: str
    frames: tuple[tuple[Frame, Place | None], ...] = ()
    variables: tuple[FrameVariable, ...] = ()
    title: str = "globals"

    @property
    def place(self) -> Place | None:
        """The place of the innermost call, None if unknown."""
        return self.frames[0][1] if self.frames else None

    def variable(self, name: str) -> FrameVariable | None:
        """Return the variable or tile that a name means in the innermost call, or the global one, or None.

        A tile may have several names ("out, half (block 2)"): its own, and those of what it was passed as.
        """
        scopes = [*(frame.variables for frame, _place in self.frames[:1]), self.variables]
        return next((v for scope in scopes for v in scope if name in _names_of(v)), None)


def _names_of(variable: FrameVariable) -> Sequence[str]:
    names = variable.name.partition(" (")[0].split(", ")
    return [name.rpartition(".")[2] for name in names]


@dataclass(frozen=True, slots=True)
class LineMark:
    """A breakpoint on a line; `element` is 1 + the element it is for, 0 for all."""

    breakpoint: int
    is_enabled: bool
    element: int = 0


def element_place(machine: Machine, element: int) -> ElementPlace:
    """Ask a machine, which must not be running, for the place of an element."""
    label = f"element {element}"
    if isinstance(machine, HasFabric):
        row, column = divmod(element, machine.fabric.columns)
        label = machine.fabric.label(column, row)
    if not isinstance(machine, HasFrames):
        return ElementPlace(element, label)
    listing = machine.program.listing
    frames = tuple((frame, place_of(listing, frame.instruction)) for frame in machine.frames(element))
    return ElementPlace(element, label, frames, tuple(machine.globals_of(element)))


def unit_place(machine: Machine, unit: int | None) -> ElementPlace | None:
    """Return the place of a unit; if it has none, of the unit that began last, one that works before one that
    waits; None if no unit has one.
    """
    listing = machine.program.listing
    found = [
        (
            state.unit == unit,
            not state.role.startswith("wait"),
            state.since,
            -state.unit,
            state.instruction,
            place,
        )
        for state in machine.unit_states()
        if (place := place_of(listing, state.instruction)) is not None
    ]
    if not found:
        return None
    *_, negative, instruction, place = max(found, key=lambda each: each[:4])
    names = {each.id: each.name for each in machine.description.units}
    calls = listing.calls_of(instruction) if isinstance(listing, HasCalls) else ()
    if not calls:
        frame = Frame(listing.describe(instruction).opcode, "function", instruction)
        return ElementPlace(-1, names.get(-negative, ""), ((frame, place),))
    frames = tuple(
        (Frame(call.function, "function", instruction, note=_turns_text(call)), call.place) for call in calls
    )
    return ElementPlace(-1, names.get(-negative, ""), frames)


def place_of(listing: object, instruction: int) -> Place | None:
    """Return the place of an instruction, None if it has none or the number is no instruction."""
    if not isinstance(listing, HasSource) or instruction < 0:
        return None
    try:
        return listing.place_of(instruction)
    except IndexError:
        return None


def line_condition(listing: HasSource, file: int, line: int, at: str = "") -> str:
    """Return the condition of a breakpoint on a line; `at` is "column,row" for one element."""
    text = f"line {quoted(f'{listing.sources[file].name}:{line}')}"
    return f"{text} at {at}" if at else text


def line_marks(
    listing: HasSource, points: Iterable[tuple[int, str, bool]], shape: FabricShape | None
) -> dict[tuple[int, int], list[LineMark]]:
    """Return {(file, line): breakpoints on it}; points are (id, text, enabled)."""
    files = {file.name: number for number, file in enumerate(listing.sources)}
    own = [number for number, file in enumerate(listing.sources) if not file.library]
    found: dict[tuple[int, int], list[LineMark]] = {}
    for number, text, is_enabled in points:
        match = _LINE.fullmatch(text)
        if match is None:
            continue
        name, _, line = match["place"].rpartition(":")
        if not line.isdigit():
            continue
        where = [number for file, number in files.items() if _is_named(file, name)] if name else own
        element = 0
        if match["column"] is not None and shape is not None:
            row, column = int(match["row"]) + shape.program.row, int(match["column"]) + shape.program.column
            element = 1 + row * shape.columns + column
        for file in where:
            found.setdefault((file, int(line)), []).append(LineMark(number, is_enabled, element))
    return found


def _turns_text(call: CallSite) -> str:
    return ", ".join(f"{loop.variable} = {loop.value} ({loop.turn} of {loop.count})" for loop in call.loops)


def _is_named(file: str, text: str) -> bool:
    """Whether a condition names a file by its name, or by a path that ends in it."""
    return text == file or PurePath(text).name == file


def next_line_with_code(lines: Sequence[int], line: int) -> int | None:
    """Return the line if it has code, else the next one that has, None after the last."""
    return next((each for each in lines if each >= line), None)
