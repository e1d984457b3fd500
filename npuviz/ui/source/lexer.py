"""Split lines of a program text into pieces to be coloured, by patterns and lists of words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PieceKind = Literal["keyword", "type", "builtin", "number", "string", "comment", "name", "other"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters [start, end) of a line."""

    start: int
    end: int
    kind: PieceKind


@dataclass(frozen=True, slots=True)
class Language:
    """What the lexer knows of a language.

    keywords, types  words
    comment          text that begins a comment up to the end of the line
    builtin          pattern of built-in names, "" for none
    """

    keywords: frozenset[str]
    types: frozenset[str] = frozenset()
    comment: str = "//"
    builtin: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN = Language(frozenset())
_LANGUAGES: Mapping[str, Language] = {
    "csl": Language(
        _words("""
            align and break comptime const continue else enum export extern false fn for if inline layout
            linkname linksection null or param pub return struct switch task true undefined unreachable var
            while
        """),
        _words("""
            anyopaque anytype bf16 bool cb16 color comptime_float comptime_int comptime_string
            comptime_struct control_task_id data_task_id direction dsr_dest dsr_fifo dsr_src0 dsr_src1 f16
            f32 fabin_dsd fabout_dsd function i16 i32 i64 i8 imported_module input_queue local_task_id
            mem1d_dsd mem4d_dsd output_queue type u16 u32 u64 u8 ut_id void NORTH EAST SOUTH WEST RAMP
        """),
        "//",
        r"@[A-Za-z_]\w*",
    ),
    "python": Language(
        _words("""
            and as assert async await break class continue def del elif else except False finally for from
            global if import in is lambda None nonlocal not or pass raise return True try while with yield
        """),
        frozenset(),
        "#",
        r"@[A-Za-z_][\w.]*",
    ),
    "c": Language(
        _words("""
            break case const continue default do else enum extern for goto if inline return sizeof static
            struct switch typedef union volatile while
        """),
        _words("bool char double float int long short signed unsigned void"),
        "//",
        r"#\s*[a-z]+",
    ),
}
_SUFFIXES = {".py": "python", ".c": "c", ".h": "c", ".cpp": "c", ".csl": "csl"}
_NUMBER = r"0[xX][0-9a-fA-F_]+|0b[01_]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_STRING = r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?"


class Lexer:
    """Splits lines of one language."""

    def __init__(self, language: str, file_name: str = "") -> None:
        suffix = f".{file_name.rpartition('.')[2]}"
        self._language = _LANGUAGES.get(language) or _LANGUAGES.get(_SUFFIXES.get(suffix, ""), _PLAIN)
        parts = [
            f"(?P<comment>{re.escape(self._language.comment)}.*)",
            f"(?P<string>{_STRING})",
            *([f"(?P<builtin>{self._language.builtin})"] if self._language.builtin else []),
            r"(?P<name>[A-Za-z_]\w*)",
            f"(?P<number>{_NUMBER})",
        ]
        self._pattern = re.compile("|".join(parts))

    def pieces(self, line: str) -> list[Piece]:
        """Return the pieces of a line that are coloured or are names, from left to right."""
        found: list[Piece] = []
        for match in self._pattern.finditer(line):
            kind = match.lastgroup or "other"
            if kind == "name":
                word = match.group()
                kind = (
                    "keyword" if word in self._language.keywords
                    else "type" if word in self._language.types else "name"
                )  # fmt: skip
            found.append(Piece(match.start(), match.end(), kind))  # pyright: ignore[reportArgumentType]
        return found

    def name_at(self, line: str, column: int) -> str:
        """Return the name at a character of a line, "" for none, as in a comment."""
        for piece in self.pieces(line):
            if piece.start <= column < piece.end:
                return line[piece.start : piece.end] if piece.kind == "name" else ""
        return ""
