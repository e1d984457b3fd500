"""Parse CSL text to a syntax tree with Lark's LALR parser and contextual lexing.

The tables of the parser come with the package, or are made once per computer.
"""

from __future__ import annotations

import hashlib
import os
import threading
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark import __version__ as lark_version
from lark.exceptions import VisitError

from npuviz.base.kernels.helper import CACHE_VARIABLE
from npuviz.base.kernels.sources import FOLDER
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.builder import TreeBuilder
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import Span

MAX_TEXT = 4_000_000
"""Most characters of a file; longer ones are refused."""
QUOTED = 60
"""Most characters of a line that an error shows."""

TABLES_FILE = "csl-grammar.tables"
"""Name of the file, beside the compiled kernels, with the tables that Lark made from the grammar."""

_OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": "contextual",
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}
_lock = threading.Lock()

_WORDS = {
    "ASSIGN": "=",
    "SEMICOLON": ";",
    "COLON": ":",
    "COMMA": ",",
    "LPAR": "(",
    "RPAR": ")",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "RSQB": "]",
    "VBAR": "|",
    "NAME": "a name",
    "INTEGER": "a number",
    "DOT": ".",
    "__ANON_0": "=>",
    "__ANON_1": "->",
    "$END": "the end of the file",
    "VARIABLE_KIND": "const, var or param",
    "FUNCTION_KIND": "fn or task",
}
_SHOWN = ("SEMICOLON", "RPAR", "RBRACE", "RSQB", "COMMA", "COLON", "LBRACE", "LPAR", "ASSIGN", "VBAR", "NAME")


@lru_cache(maxsize=1)
def _parser() -> tuple[Lark, TreeBuilder]:
    """Return the parser and the builder that it calls; use them under `_lock` only."""
    builder = TreeBuilder()
    # Making the tables takes longer than compiling most programs. Lark makes them again if they are damaged
    # or of another grammar.
    kept = str(Path(os.environ[CACHE_VARIABLE]) / TABLES_FILE)
    return _shipped(builder) or _made(builder, cache=kept), builder


def _made(builder: TreeBuilder, **options: Any) -> Lark:
    return Lark(_grammar(), transformer=cast(Any, builder), **_OPTIONS, **options)


def _grammar() -> str:
    return resources.files(__package__ or "").joinpath("csl.lark").read_text("utf-8")


def tables_file(folder: Path) -> Path:
    """Return the path of the tables that come with the package; its name depends on the grammar and on
    Lark."""
    made_of = f"{_grammar()} {_OPTIONS} {lark_version}"
    return folder / f"csl-grammar-{hashlib.blake2b(made_of.encode(), digest_size=8).hexdigest()}.tables"


def write_tables(path: Path) -> None:
    """Make the tables that come with the package. Raises OSError."""
    with path.open("wb") as file:
        _made(TreeBuilder()).save(file, exclude_options={"transformer"})


def _shipped(builder: TreeBuilder) -> Lark | None:
    """Return the parser from the tables that came with the package; None if there are none of this
    grammar."""
    try:
        with tables_file(FOLDER).open("rb") as file:
            return Lark.__new__(Lark)._load(file, transformer=builder)  # noqa: SLF001
    except Exception:
        return None  # a damaged pickle raises whatever it likes


def parse(text: str, path: str, index: int) -> tree.SourceFile:
    """Parse the text of a file; `index` goes into every span. Raises CslError."""
    start = Span(index, 1, 1, 1, 1)
    if len(text) > MAX_TEXT:
        raise CslError(start, f"the file has {len(text)} characters, at most {MAX_TEXT} are read")
    with _lock:
        lark, builder = _parser()
        builder.file = index
        try:
            declarations = cast("tuple[tree.Declaration, ...]", lark.parse(text))
        except VisitError as error:
            if isinstance(error.orig_exc, CslError):
                raise error.orig_exc from None
            raise
        except UnexpectedInput as error:
            raise _syntax_error(error, index, text) from None
    return tree.SourceFile(index, path, text, declarations)


def _syntax_error(error: UnexpectedInput, index: int, text: str) -> CslError:
    line, column = int(error.line), int(error.column)
    at = Span(index, line, column, line, column + 1)
    if isinstance(error, UnexpectedCharacters):
        rest = text.splitlines()[line - 1][column - 1 :] if line <= text.count("\n") + 1 else ""
        if rest.startswith(('"', "'")):
            return CslError(at, "a string or character literal without its end")
        if rest.startswith("/*"):
            return CslError(at, "block comments do not exist in CSL", "use // on every line")
        return CslError(at, f"unexpected character {error.char!r}", _quoted(text, line))
    if isinstance(error, UnexpectedToken):
        return _unexpected_token(error, index, text)
    return CslError(at, "this is not CSL")


def _unexpected_token(error: UnexpectedToken, index: int, text: str) -> CslError:
    token = cast(Token, error.token)
    expected = set(error.accepts or error.expected)
    if token.type == "$END":
        lines = text.splitlines() or [""]
        at = Span(index, len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)
        return CslError(at, "the file ends too early", _hint(expected))
    at = Span(index, token.line or 1, token.column or 1, token.end_line or 1, token.end_column or 2)
    found = str(token)
    previous = cast("Token | None", (error.token_history or [None])[-1])
    if "SEMICOLON" in expected and previous is not None and (previous.end_line or 0) < at.line:
        line, column = previous.end_line or 1, previous.end_column or 1
        place = Span(index, line, column, line, column + 1)
        return CslError(place, f"expected ; at the end of the statement, found {found!r} on line {at.line}")
    after = f" after {str(previous)!r}" if previous is not None else ""
    hint = "; ".join(filter(None, (_hint(expected), _quoted(text, at.line))))
    return CslError(at, f"unexpected {found!r}{after}", hint)


def _quoted(text: str, line: int) -> str:
    """Return a line of the text, to show which construct is meant; "" if there is no such line."""
    lines = text.splitlines()
    words = " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
    return f"in: {words[:QUOTED]}{'..' if len(words) > QUOTED else ''}" if words else ""


def _hint(expected: set[str]) -> str:
    shown = [_WORDS[name] for name in _SHOWN if name in expected][:4]
    return f"expected {' or '.join(shown)}" if shown and len(expected) < 24 else ""
