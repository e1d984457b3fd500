"""Parse conditions about processing elements: lines, tasks and functions of their program,
words they receive."""

import struct
from collections.abc import Callable
from pathlib import PurePath

from npuviz.debug.condition.tokens import COMPARISONS, Token, TokenReader, quoted
from npuviz.program.instruction import Listing
from npuviz.program.source import HasSource
from npuviz.sim.fabric import FabricShape
from npuviz.sim.stop import (
    CMP_EQ,
    STOP_INSTRUCTION,
    STOP_WORD,
    WORD_ANY,
    WORD_CONTROL,
    WORD_DATA,
    WORD_FLOAT,
    WORD_HALF,
    WORD_INDEX,
)

Row = tuple[int, int, int, int, int]
ANYWHERE = 0
LIMITS = {"data": (WORD_DATA, 1 << 32), "index": (WORD_INDEX, 1 << 16), "half": (WORD_HALF, 1 << 16)}
"""Parts of a word that can be compared, with the limit that integers must be below."""


def _files_of(source: HasSource, name: str) -> list[int]:
    """The files of a name, or of the end of a path ("kernels/norm.py", "./norm.py", "../norm.py")."""
    parts = tuple(part for part in PurePath(name).parts if part not in (".", ".."))
    names = (name, parts[0]) if len(parts) == 1 else (name,)
    exact = [number for number, file in enumerate(source.sources) if file.name in names]
    if exact or len(parts) < 2:
        return exact
    return [n for n, file in enumerate(source.sources) if PurePath(file.path).parts[-len(parts) :] == parts]


class ElementWords:
    """The part of the language that needs a fabric or program texts; other machines have no such words."""

    def __init__(self, words: TokenReader, listing: Listing, fabric: FabricShape | None) -> None:
        self._words = words
        self._source = listing if isinstance(listing, HasSource) else None
        self._fabric = fabric

    @property
    def parsers(self) -> dict[str, Callable[[], list[Row]]]:
        """First word of a condition -> function that parses the rest into stop rows."""
        found: dict[str, Callable[[], list[Row]]] = {}
        if self._source is not None:
            found |= {
                "line": self._line,
                "task": lambda: self._entry("task"),
                "function": lambda: self._entry("function"),
            }
        if self._fabric is not None:
            found["word"] = self._word
            found[self._fabric.word.lower()] = self._word
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of tasks and functions."""
        return tuple(entry.name for entry in self._source.entries) if self._source is not None else ()

    def kind_of(self, name: str) -> str:
        """Return the word that a name may stand without: "line" for `pe.csl:42`, "function", "task"; else "".

        As in other debuggers, `break pe.csl:42` and `break compute` need no more words.
        """
        if self._source is None:
            return ""
        file, colon, line = name.rpartition(":")
        if colon and line.isdecimal() and _files_of(self._source, file):
            return "line"
        return next((entry.kind for entry in self._source.entries if entry.name == name), "")

    def take_at(self) -> int:
        """Parse `at COLUMN,ROW` if it follows, and return 1 + the element; ANYWHERE without it."""
        fabric = self._fabric
        if fabric is None or not self._follows("at"):
            return ANYWHERE
        expected = f"a {fabric.element}, such as `at 0,0`"
        first = self._words.take(expected)
        text = first.text
        if text.endswith(",") or "," not in text:
            text += self._words.take(expected).text
        end = self._words.tokens[self._words.next - 1].span[1]
        whole = Token(self._words.text[first.start : end], first.start)
        column_text, _, row_text = text.partition(",")
        column = self._words.integer(whole, column_text, expected)
        row = self._words.integer(whole, row_text, expected)
        program = fabric.program
        if column >= program.columns or row >= program.rows:
            reason = f"the program has {program.columns} x {program.rows} {fabric.element}s"
            raise self._words.error(whole, reason)
        return 1 + (program.row + row) * fabric.columns + program.column + column

    # ---- inside

    def _line(self) -> list[Row]:
        source = self._source
        assert source is not None
        place = self._words.take(
            "a line, such as `line pe.csl:42`",
            (f"{file.name}:" for file in source.sources if not file.library),
        )
        name, colon, number = place.name.rpartition(":")
        line = self._words.integer(place, number, "a line, such as `line pe.csl:42`")
        wanted = (
            _files_of(source, name) if colon else [i for i, f in enumerate(source.sources) if not f.library]
        )
        if not wanted:
            hint = self._words.hint(name, [file.name for file in source.sources])
            raise self._words.error(place, f"no file {name}{hint}")
        ranges = [found for file in wanted for found in source.ranges_of_line(file, line)]
        if not ranges:
            near = [n for file in wanted for n in source.lines_with_code(file)]
            closest = min(near, key=lambda n: (abs(n - line), n), default=None)
            hint = f"; the nearest line with code is {closest}" if closest is not None else ""
            raise self._words.error(place, f"no instruction comes from line {line}{hint}")
        element = self.take_at()
        # Only where the line begins, so that it stops once and not at each instruction of the line.
        return [(STOP_INSTRUCTION, element, low, low + 1, 0) for low, _ in ranges]

    def _entry(self, kind: str) -> list[Row]:
        source = self._source
        assert source is not None
        entries = {entry.name: entry for entry in source.entries if entry.kind == kind}
        entry = self._words.lookup(
            self._words.take(f"the name of a {kind}", map(quoted, entries)), entries, kind
        )
        element = self.take_at()
        return [(STOP_INSTRUCTION, element, index, index + 1, 0) for index in entry.instructions]

    def _word(self) -> list[Row]:
        fabric = self._fabric
        assert fabric is not None
        color = -1
        if self._follows("color"):
            names = {c.name: c.id for c in fabric.colors if c.name} | {str(c.id): c.id for c in fabric.colors}
            color = self._words.lookup(self._words.take("a color", map(quoted, names)), names, "color")
        element = self.take_at()
        code, bound = WORD_ANY * 8 + CMP_EQ, 0
        if self._follows("control"):
            code = WORD_CONTROL * 8 + CMP_EQ
        elif self._follows("f32"):
            comparison = COMPARISONS[self._words.take_comparison()][0]
            code = WORD_FLOAT * 8 + comparison
            bound = struct.unpack("<q", struct.pack("<d", float(self._words.take_number())))[0]
        else:
            for name, (part, limit) in LIMITS.items():
                if self._follows(name):
                    comparison = COMPARISONS[self._words.take_comparison()][0]
                    token = self._words.take("a number")
                    bound = self._words.integer(token, token.text, "a number")
                    if bound >= limit:
                        raise self._words.error(token, f"`{name}` is below {limit:#x}")
                    code = part * 8 + comparison
        return [(STOP_WORD, color, element or self.take_at(), bound, code)]

    def _follows(self, word: str) -> bool:
        return bool(self._words.follows(word))
