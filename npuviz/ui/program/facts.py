"""Look up facts about a program: units with instructions, short names, opcode colours, breakpoints."""

import re
from collections.abc import Iterable

from npuviz.base.names import natural_key
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription, Unit

_INSTRUCTION = re.compile(r"^\s*instr\s+(\d+)(?:\s*\.\.\s*(\d+))?\s*$")
_NUMBERED = re.compile(r"(\w+)\[(\d+)\]")
MAX_MARKED_RANGE = 10_000


def units_with_code(program: Program, description: MachineDescription) -> list[Unit]:
    """Return the units that have instructions, in natural order of their names."""
    units = [unit for unit in description.units if program.listing.ranges_of_unit(unit.id)]
    return sorted(units, key=lambda unit: natural_key(unit.name))


def short_names(units: Iterable[Unit]) -> dict[int, str]:
    """Return {unit id: short name}: without the group if all are of one, else with the group's number
    only.
    """
    found = list(units)
    groups = {unit.group for unit in found if unit.group}
    if len(groups) == 1:
        prefix = f"{next(iter(groups))}."
        return {unit.id: unit.name.removeprefix(prefix) for unit in found}
    numbered = {group: match for group in groups if (match := _NUMBERED.fullmatch(group))}
    if len(numbered) < len(groups) or len({match[1] for match in numbered.values()}) > 1:
        return {unit.id: unit.name for unit in found}
    return {
        unit.id: f"{numbered[unit.group][2]}.{unit.name.removeprefix(f'{unit.group}.')}"
        if unit.group
        else unit.name
        for unit in found
    }


def opcode_roles(description: MachineDescription) -> dict[str, str]:
    """Return {lower-case name of an interval kind, an opcode or stall cause: colour role}."""
    return {kind.name.casefold(): kind.role for kind in description.kinds}


def instruction_of_breakpoint(text: str) -> tuple[int, int] | None:
    """Return (first, end) of the instructions that a condition like `instr 7` or `instr 7..9` names, else
    None.
    """
    found = _INSTRUCTION.match(text)
    if found is None:
        return None
    first = int(found.group(1))
    return first, int(found.group(2)) if found.group(2) else first + 1


def marked_instructions(breakpoints: Iterable[tuple[str, bool]]) -> dict[int, bool]:
    """Return {instruction: enabled} from (text, enabled) of all breakpoints; long ranges are cut.

    Of a range at most MAX_MARKED_RANGE instructions are marked.
    """
    marks: dict[int, bool] = {}
    for text, enabled in breakpoints:
        span = instruction_of_breakpoint(text)
        for index in range(*span)[:MAX_MARKED_RANGE] if span else ():
            marks[index] = enabled or marks.get(index, False)
    return marks
