"""Parse arguments of text commands: words, numbers, names; mistakes raise UsageError."""

import shlex

from npuviz.base.errors import UsageError
from npuviz.base.names import echo, named
from npuviz.base.units import format_cycles_as_time
from npuviz.debug.session import Session
from npuviz.debug.unit_steps import unit_of_stop
from npuviz.sim.description import Memory


def words_of(rest: str, least: int, most: int) -> list[str]:
    """Split the rest of a command's line into `least` to `most` words."""
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"{echo(rest)}: {error}") from None
    if not least <= len(words) <= most:
        wanted = str(least) if least == most else f"{least} to {most}" if most < 1000 else f"at least {least}"
        noun = "argument" if wanted == "1" else "arguments"
        raise UsageError(f"expected {wanted} {noun}, found {len(words)}")
    return words


def count_of(rest: str) -> int:
    """Parse a number of cycles, 1 if there is none."""
    words = words_of(rest, 0, 1)
    return number_of(words[0], "a number of cycles", 1) if words else 1


def number_of(text: str, what: str, least: int = 0) -> int:
    """Parse an integer, decimal or 0x..., of at least `least`."""
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"{echo(text)!r}: expected {what}") from None
    if not least <= value < 1 << 62:
        raise UsageError(f"{echo(text)}: expected {what} from {least} to 2^62")
    return value


def unit_of(session: Session, text: str) -> int:
    """Return the id of the unit of this name, or of the only one whose name ends in it: PE for Core[0].PE.

    Without a name, the unit that the last stop was about. Raises UsageError.
    """
    if not text.strip() and (stopped := unit_of_stop(session)) >= 0:
        return stopped
    name = words_of(text, 1, 1)[0]
    units = session.description.units
    found = session.description.unit_named(named(name, (unit.name for unit in units)) or name)
    if found is None:
        names = ", ".join(unit.name for unit in units[:8])
        raise UsageError(f"no unit {echo(name)!r}; known: {names}")
    return found.id


def memory_of(session: Session, name: str) -> Memory:
    """Return the memory of this name, or the only one whose name ends in it: SBUF for Core[0].SBUF."""
    memories = session.description.memories
    found = session.description.memory_named(named(name, (memory.name for memory in memories)) or name)
    if found is None:
        names = ", ".join(memory.name for memory in memories[:8])
        raise UsageError(f"no memory {echo(name)!r}; known: {names}")
    return found


def time_of(session: Session, cycle: int) -> str:
    """Return a cycle as a time of the base clock."""
    return format_cycles_as_time(cycle, session.description.base_clock.frequency_hz)
