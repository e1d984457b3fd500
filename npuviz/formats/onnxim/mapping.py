"""Read ONNXim's mapping files, which tell how a layer of a given shape is cut into tiles.

One layer per line: `[T] N1 C64 M128 P28 Q28 S3 R3 - [O] C2 M8 P2 Q2 - [I] C51 M16 P23 Q22 S3 R3`.
T is the total count of each loop (the key), O the number of tiles per loop, I the tile size.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from operator import mul
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_text

MAPPING_LIMIT_BYTES = 1 << 20
MAX_LOOP = 1 << 31

_LOOP = re.compile(r"([NCMPQSR])([0-9]{1,10})([XY]?)")
_TAG = re.compile(r"\[\w+\]")


@dataclass(frozen=True, slots=True)
class Loops:
    """A count per loop: batch, input channels, output channels, output rows and columns, kernel rows and
    columns."""

    n: int = 1
    c: int = 1
    m: int = 1
    p: int = 1
    q: int = 1
    s: int = 1
    r: int = 1

    def times(self, other: "Loops") -> "Loops":
        """Return the product loop by loop."""
        return Loops(*map(mul, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class LayerMapping:
    """One line: total loops, tiles per loop, tile size."""

    total: Loops
    outer: Loops
    inner: Loops


def read_mapping(path: Path) -> Mapping[Loops, LayerMapping]:
    """Read a mapping file: total loops -> mapping; if totals are equal, the last line counts.

    Raises FormatError.
    """
    found: dict[Loops, LayerMapping] = {}
    for number, line in enumerate(read_text(path, MAPPING_LIMIT_BYTES).splitlines(), start=1):
        if line.strip():
            mapping = _parse_line(path, number, line)
            found[mapping.total] = mapping
    return found


def _parse_line(path: Path, number: int, line: str) -> LayerMapping:
    where = f"line {number}"
    sections = [section.split() for section in line.split("-")]
    tags = [tokens[0] if tokens else "" for tokens in sections]
    if tags[:3] != ["[T]", "[O]", "[I]"]:
        found = " - ".join(tags[:3])[:60] or "nothing"
        raise FormatError(path, field=where, expected="[T] ... - [O] ... - [I] ...", found=found)
    total, outer, inner = (_parse_loops(path, where, tokens[1:]) for tokens in sections[:3])
    for tokens in sections[3:]:
        rest = tokens[1:] if tokens and _TAG.fullmatch(tokens[0]) else tokens
        inner = inner.times(_parse_loops(path, where, rest))
    return LayerMapping(total, outer, inner)


def _parse_loops(path: Path, where: str, tokens: Iterable[str]) -> Loops:
    loops = Loops()
    seen: set[str] = set()
    for token in tokens:
        match = _LOOP.fullmatch(token)
        if match is None:
            found = repr(token[:40])
            raise FormatError(path, field=where, expected="loops such as M64 or C8Y", found=found)
        letter, count = match[1].lower(), int(match[2])
        if letter in seen:
            raise FormatError(
                path, field=where, expected=f"loop {match[1]} once per section", found="it twice"
            )
        if not 1 <= count < MAX_LOOP:
            expected = f"a count from 1 to {MAX_LOOP - 1}"
            raise FormatError(path, field=where, expected=expected, found=token[:40])
        seen.add(letter)
        loops = replace(loops, **{letter: count})
    return loops
