"""Variables and tiles by name: where a memory holds one now, for commands that take an address."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.debug import translate
from npuviz.debug.console.answer import Answer, Shown
from npuviz.debug.console.arguments import memory_of, number_of, words_of
from npuviz.debug.loop_turns import loops_around
from npuviz.debug.session import Session
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.source import line_of
from npuviz.program.variables import HasVariables
from npuviz.sim.description import Memory
from npuviz.sim.machine import Region

MOST_MEMORIES = 64
"""Memories that are searched for a name alone; with more of them, the memory has to be named, too."""


MOST_TILES = 200


@dataclass(frozen=True, slots=True)
class Variable:
    """A named region of a memory, or the part of it from byte `offset` on.

    alike   regions that have that name now; of several, `choice` says which one this is
    """

    memory: Memory
    region: Region
    offset: int = 0
    alike: int = 1
    choice: str = ""

    @property
    def address(self) -> int:
        """Address of its first byte."""
        return self.region.address + self.offset

    @property
    def size_bytes(self) -> int:
        """Bytes from there to the end of the region, of its first bank."""
        return max(0, self.region.size_bytes - self.offset)


def variable_in(session: Session, memory: Memory, text: str) -> Variable | None:
    """Find `heat`, or `heat+8`, in a memory. None: it has none.

    Of several regions of that name, it is the one that the instruction uses at which the session stopped,
    else one of the same iterations of loops, else the newest. Raises UsageError for an offset that is no
    number.
    """
    name, plus, offset = text.partition("+")
    regions = [each for each in session.machine.regions(memory.id) if each.is_called(name)]
    if not regions:
        return None
    kept, choice = _preferred(session, memory, regions)
    # What another function calls a tile counts where nothing was made under that name.
    newest = max(kept, key=lambda region: (region.label == name, region.since, -region.address))
    bytes_on = number_of(offset, "a number of bytes") if plus else 0
    return Variable(memory, newest, bytes_on, len(regions), choice)


def _preferred(session: Session, memory: Memory, regions: list[Region]) -> tuple[list[Region], str]:
    """Return the regions that the place of the last stop means, and why."""
    listing, instruction = session.program.listing, session.stop.instruction
    if len(regions) == 1 or instruction < 0 or session.stop.cycle != session.cycle:
        return regions, "the newest"
    stopped = listing.describe(instruction)
    used = [each.address for each in (*stopped.writes, *stopped.reads) if each.memory == memory.id]
    mine = [each for each in regions if any(each.holds(at, memory.bank_bytes) for at in used)]
    if mine:
        return mine, "the one used where it stopped"
    turns = {loop.place: loop.turn for loop in loops_around(listing, instruction)}
    mine = [
        each
        for each in regions
        if all(
            turns.get(loop.place, loop.turn) == loop.turn for loop in loops_around(listing, each.instruction)
        )
    ]
    return (mine, "the one of this iteration") if mine else (regions, "the newest")


def _of_the_stop(session: Session, found: list[Variable]) -> list[Variable]:
    """Return the variables that the instruction of the last stop writes, else those it reads, else all."""
    instruction = session.stop.instruction
    if instruction < 0 or session.stop.cycle != session.cycle:
        return found
    stopped = session.program.listing.describe(instruction)
    for operands in (stopped.writes, stopped.reads):
        mine = [
            each
            for each in found
            if any(
                operand.memory == each.memory.id
                and each.region.holds(operand.address, each.memory.bank_bytes)
                for operand in operands
            )
        ]
        if mine:
            alike, choice = sum(each.alike for each in found), "the one used where it stopped"
            return [replace(each, alike=alike, choice=choice) for each in mine]
    return found


def absent_text(session: Session, name: str) -> str:
    """Return why no memory holds a variable or tile of the program now; "" if none of its is so named."""
    listing = session.program.listing
    places = listing.variable_places if isinstance(listing, HasVariables) else ()
    mine = [each for each in places if each.name == name and each.first >= 0]
    if not mine:
        return ""
    taken = session.machine.next_instructions()
    end = 0 if session.cycle == 0 else len(listing)  # a unit without a next one has not begun, or has ended
    nexts = [taken.get(listing.describe(each.first).unit, -1) for each in mine]
    first = min(mine, key=lambda each: each.first)
    later = [each for each, at in zip(mine, nexts, strict=True) if each.first >= (at if at >= 0 else end)]
    many = f"{len(mine)} tiles have this name; " if len(mine) > 1 else ""
    if len(later) == len(mine):
        where = line_of(listing, first.first) or f"instruction {first.first}"
        return f"{many}nothing has written {name} yet: {where} is the first to do so (`runto write {name}`)"
    after = f", {len(later)} are written later" if later else ""
    return (
        f"{many}no memory holds {name} any more{after}: what it held was read for the last time "
        f"(`backto read {name}`)"
    )


def variable_named(session: Session, text: str) -> Variable | None:
    """Find a variable or tile by name alone.

    Of several memories that hold one of it, it is the one that the instruction writes, else reads, at which
    the session stopped. Raises UsageError where that does not decide.
    """
    memories = session.description.memories
    if len(memories) > MOST_MEMORIES:
        return None
    found = [each for memory in memories if (each := variable_in(session, memory, text)) is not None]
    if len(found) > 1:
        found = _of_the_stop(session, found)
    if len(found) > 1:
        names = ", ".join(each.memory.name for each in found)
        raise UsageError(f"{echo(text)} is in {names}: name one of them before it")
    return found[0] if found else None


def place_of(session: Session, words: list[str]) -> tuple[Memory, int, list[str]]:
    """Return the memory and address that words begin with, and the words behind: MEMORY ADDR, or VARIABLE.

    Raises UsageError.
    """
    if len(words) > 1 and _is_memory(session, words[0]):
        memory = memory_of(session, words[0])
        return memory, address_of(session, memory, words[1]), words[2:]
    variable = variable_named(session, words[0])
    if variable is not None:
        return variable.memory, variable.address, words[1:]
    if _is_memory(session, words[0]):
        raise UsageError(f"expected an address in {words[0]}, or the name of what it holds")
    if absent := absent_text(session, words[0]):
        raise UsageError(absent)
    known = ", ".join(memory.name for memory in session.description.memories[:8])
    raise UsageError(
        f"{echo(words[0])!r}: neither a memory ({known}) nor a variable that one of them holds now"
    )


def address_of(session: Session, memory: Memory, text: str) -> int:
    """Return the address that `0x40`, `heat` or `heat+8` means in a memory. Raises UsageError."""
    found = variable_in(session, memory, text)
    return found.address if found is not None else number_of(text, "an address, or the name of a variable")


def values_of(session: Session, variable: Variable) -> np.ndarray:
    """Read the numbers of a variable now: of its shape, a one-dimensional array from an offset on."""
    region, memory = variable.region, variable.memory
    item = numpy_dtype(region.dtype).itemsize
    whole = math.prod(region.shape) * item // region.banks
    size = max(0, min(whole or region.size_bytes, region.size_bytes) - variable.offset)
    parts = [
        session.machine.read_memory(memory.id, variable.address + bank * memory.bank_bytes, size)
        for bank in range(region.banks)
    ]
    values = translate.numbers(b"".join(parts), region.dtype)
    return values.reshape(region.shape) if values.size == math.prod(region.shape) else values


def type_text(region: Region) -> str:
    """Return element type and shape as text: "float32 128x512"."""
    return f"{region.dtype} {'x'.join(map(str, region.shape))}".rstrip()


def print_variable(session: Session, name: str) -> Answer:
    """Show the values of a variable or tile, and their range."""
    variable = variable_named(session, name)
    if variable is None:
        absent = absent_text(session, name)
        raise UsageError(
            absent or f"no probe {name!r}, nor a variable; `print` alone lists probes, `locals` variables"
        )
    values = values_of(session, variable)
    pairs: dict[str, Any] = {
        "variable": name,
        "memory": variable.memory.name,
        "address": f"{variable.address:#x}",
        "type": type_text(variable.region),
        "value": Shown(values, translate.format_value(values)),
    }
    numbers = values.astype(np.float64) if values.size and values.dtype.kind != "V" else None
    if numbers is not None:
        pairs |= {"min": float(numbers.min()), "mean": float(numbers.mean()), "max": float(numbers.max())}
    notes = ["" if variable.region.is_valid else "it is being written now"]
    notes += [f"of {variable.alike} of this name, {variable.choice}" if variable.alike > 1 else ""]
    return Answer(pairs, note="; ".join(filter(None, notes)))


def tiles(session: Session, rest: str) -> Answer:
    """List what the memories, or one of them, hold under a name: locals [MEMORY]."""
    words = words_of(rest, 0, 1)
    memories = [memory_of(session, words[0])] if words else session.description.memories
    rows = [
        (
            region.label,
            type_text(region),
            memory.name,
            f"{region.address:#x}",
            region.since,
            line_of(session.program.listing, region.instruction) or None,
            "" if region.is_valid else "being written",
            ", ".join(region.aliases),
        )
        for memory in memories
        for region in session.machine.regions(memory.id)
        if region.label
    ]
    more = f"{len(rows) - MOST_TILES} more are not listed" if len(rows) > MOST_TILES else ""
    note = more if rows else "the memories hold nothing that has a name"
    columns = ("name", "type", "memory", "address", "since", "written_by", "state", "also")
    return Answer(columns=columns, rows=tuple(rows[:MOST_TILES]), name="variables", note=note)


def _is_memory(session: Session, name: str) -> bool:
    try:
        memory_of(session, name)
    except UsageError:
        return False
    return True
