"""List the kinds of findings that every machine may have: how bad they are, and how to mend them."""

from dataclasses import dataclass
from typing import Literal

from npuviz.sim.machine import Hazard


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding. level  as in Hazard; what  one sentence for people;
    mend  what to change in the program"""

    level: Literal["error", "warning"]
    what: str
    mend: str


KINDS = {
    "unwritten": Kind(
        "error",
        "bytes are read that nobody has written",
        "write them before (a load, a memset), or read what was written",
    ),
    "early-read": Kind(
        "error",
        "bytes are read, and nothing makes the reader wait for the write",
        "let the reader wait for the writer: a semaphore, an edge between layers, a later job",
    ),
    "early-overwrite": Kind(
        "error",
        "bytes are overwritten, and nothing makes the writer wait for the last reader",
        "let the writer wait for the reader, or give it a buffer of its own",
    ),
    "unordered-writes": Kind(
        "error",
        "two write the same bytes, and nothing orders them",
        "let one wait for the other, or give each a buffer of its own",
    ),
    "overwritten": Kind(
        "error",
        "bytes are read that another operator has overwritten, in whatever order",
        "give the tensor a buffer of its own until it has been read, or correct the address",
    ),
    "overlap": Kind(
        "error",
        "an instruction overwrites what it still has to read",
        "let the result begin where its operand does, or give it a buffer of its own",
    ),
    "incomplete": Kind(
        "warning",
        "a result is not written as a whole",
        "write all of it, or make it smaller",
    ),
    "out-of-bounds": Kind(
        "error",
        "an access lies outside of its memory",
        "make the address or the shape smaller",
    ),
    "index-range": Kind(
        "error",
        "the number of a row is given that there is not",
        "correct the numbers, or make the table larger",
    ),
    "capacity": Kind(
        "error",
        "something is larger than its place",
        "make the tile smaller, or the memory larger",
    ),
    "nan": Kind(
        "warning",
        "an operator made a NaN of finite numbers, and an output depends on it",
        "keep the operator's inputs where it is defined, or compute it in a wider type",
    ),
    "infinity": Kind(
        "warning",
        "an operator made an infinity of finite numbers, and an output depends on it",
        "keep the operator's inputs in range, or compute it in a wider type",
    ),
    "overflow": Kind(
        "warning",
        "an operator computed integers that its result's type does not hold",
        "compute in a wider type, or clip the operands before",
    ),
    "dead-store": Kind(
        "warning",
        "what is written is never read",
        "leave the instruction out, or read its result",
    ),
    "dead-transfer": Kind(
        "warning",
        "what is moved is never read",
        "leave the transfer out, or read what it brings",
    ),
}


def hazard_of(
    kind: str, cycle: int, unit: str, instruction: int, text: str, place: str = "", other: int = -1
) -> Hazard:
    """Return a hazard of a kind of KINDS, with that kind's level and remedy."""
    known = KINDS[kind]
    return Hazard(cycle, unit, instruction, kind, text, known.level, other, place, known.mend)
