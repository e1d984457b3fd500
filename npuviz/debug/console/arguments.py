"""Parse arguments of text commands: words, numbers, names; mistakes raise UsageError."""

import shlex

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.base.units import format_cycles_as_time
from npuviz.debug.session import Session
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
    """Return the id of the unit of this name."""
    name = words_of(text, 1, 1)[0]
    unit = session.description.unit_named(name)
    if unit is None:
        names = ", ".join(unit.name for unit in session.description.units[:8])
        raise UsageError(f"no unit {echo(name)!r}; known: {names}")
    return unit.id


def memory_of(session: Session, name: str) -> Memory:
    """Return the memory of this name, or the only one whose name ends in it: SBUF for Core[0].SBUF."""
    memory = session.description.memory_named(name)
    if memory is None:
        ending = [each for each in session.description.memories if each.name.endswith(f".{name}")]
        if len(ending) == 1:
            return ending[0]
        names = ", ".join(memory.name for memory in session.description.memories[:8])
        raise UsageError(f"no memory {echo(name)!r}; known: {names}")
    return memory


def time_of(session: Session, cycle: int) -> str:
    """Return a cycle as a time of the base clock."""
    return format_cycles_as_time(cycle, session.description.base_clock.frequency_hz)
