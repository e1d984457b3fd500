"""Names that a kernel's text gives to what its calls return, and conditions that name them."""

import ast
import sys
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Protocol

Span = tuple[int, int, int, int]
"""First line, its column, last line, the column after the last one; columns in bytes of UTF-8."""
_RETURNED = "<returned>"
OWN_FOLDER = str(Path(__file__).parents[1])


def assigned_name(frame: FrameType | None) -> str:
    """The variable that gets what the call under way in a frame returns, there or in a function around it;
    "" where none does."""
    while frame is not None:
        name = _name_at(frame.f_code, frame.f_lasti)
        if name != _RETURNED:
            return name
        frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
            return ""  # who called the kernel
    return ""


def users_frame() -> FrameType | None:
    """The innermost frame that runs the user's text."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's line
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    return frame


def running_statement() -> ast.stmt | None:
    """The innermost statement of the user's text that runs."""
    frame = users_frame()
    return _statements(frame.f_code.co_filename).get(frame.f_lineno) if frame is not None else None


def statement_at(filename: str, line: int) -> ast.stmt | None:
    """The innermost statement at a line of a text."""
    return _statements(filename).get(line)


def statements_around(filename: str, line: int) -> list[ast.stmt]:
    """The statements that a line of a text is part of, outermost first."""
    try:
        tree = ast.parse(text_of(filename))
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or each.lineno)
    ]


def forget_texts() -> None:
    """Read texts again: files change between two kernels."""
    _name_at.cache_clear()
    _statements.cache_clear()


@lru_cache(maxsize=65536)
def _name_at(code: CodeType, instruction: int) -> str:
    """What gets the value of an expression: a variable, _RETURNED, or "" for anything else."""
    span = next(islice(code.co_positions(), instruction // 2, None), None)
    if span is None:
        return ""
    first, last, column, end = span
    if first is None or last is None or column is None or end is None:
        return ""
    statement = _statements(code.co_filename).get(first)
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        return ""
    place = (first, column, last, end)
    if isinstance(statement, ast.Return):
        return _RETURNED if _span(value) == place else ""
    if isinstance(statement, ast.Expr):
        return _appended_to(value, place)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _matching(statement.targets[0], value, place)
    if isinstance(statement, ast.AnnAssign):
        return _matching(statement.target, value, place)
    return ""


def _span(node: ast.expr) -> Span:
    return (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


def _matching(target: ast.expr, value: ast.expr, place: Span) -> str:
    """The part of a target that gets the expression at a place."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return next((_plain(name) for name, part in pairs if _span(part) == place), "")
    value = value.elt if isinstance(value, ast.ListComp) else value
    return _plain(target) if _span(value) == place else ""


def _appended_to(value: ast.expr, place: Span) -> str:
    """The list that an expression at a place is appended to."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return ""
    is_append = value.func.attr == "append" and any(_span(argument) == place for argument in value.args)
    return _plain(value.func.value) if is_append else ""


def _plain(target: ast.expr) -> str:
    """A variable's name, without its subscripts and owners."""
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else ""


@lru_cache(maxsize=256)
def _statements(filename: str) -> dict[int, ast.stmt]:
    """Each line of a file -> the innermost statement there; {} for what is no readable Python."""
    return _statements_of(text_of(filename))


def text_of(filename: str) -> bytes:
    """What a file holds now, nothing where it cannot be read."""
    try:
        return Path(filename).read_bytes()
    except (OSError, ValueError):
        return b""


@lru_cache(maxsize=64)
def _statements_of(text: bytes) -> dict[int, ast.stmt]:
    """The same of a text, which many kernels of a library share."""
    found: dict[int, ast.stmt] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):  # outer statements come first
        if isinstance(node, ast.stmt):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                found[line] = node
    return found


class Recorder(Protocol):
    """Who records the kernel."""

    version: int

    def note(self, text: str) -> None:
        """Tell the user something once."""
        ...


class Tile(Protocol):
    """A tensor on the chip."""

    @property
    def recording(self) -> Recorder:
        """Who records it."""
        ...

    @property
    def size(self) -> int:
        """Its elements."""
        ...


def is_asked_for(tile: Tile) -> bool:
    """Whether a condition about a tile on the chip asks only whether it is there; says so once.

    That is so in generation 2 for a tile of several elements in a variable or attribute that `if`, `and`,
    `or` or `not` names. A single element, or what is computed in the condition, is taken for a value.
    """
    # Ref: nki-library, core/mlp/mlp_tkg/mlp_tkg_constants.py asks so for the indices of experts in SBUF
    if tile.recording.version == 1 or tile.size == 1 or not _is_named(tile):
        return False
    tile.recording.note(f"{tile!r} as a condition is true because it is there, whatever it holds (assumed)")
    return True


def _is_named(tile: Tile) -> bool:
    frame, statement = users_frame(), running_statement()
    if frame is None or statement is None or isinstance(statement, ast.While):
        return False
    asked: list[ast.expr] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.If | ast.IfExp | ast.Assert):
            asked.append(node.test)
        elif isinstance(node, ast.BoolOp):
            asked += node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            asked.append(node.operand)
    return any(_held(frame, each) is tile for each in asked)


def _held(frame: FrameType, expression: ast.expr) -> object:
    """What a name or an attribute of it holds in a frame; None for other expressions."""
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id))
    if isinstance(expression, ast.Attribute):
        return getattr(_held(frame, expression.value), expression.attr, None)
    return None
