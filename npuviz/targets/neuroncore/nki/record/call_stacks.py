"""Where a kernel's Python is: the functions under way, and the loops around the line of each."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from npuviz.targets.neuroncore.nki.record.variable_names import OWN_FOLDER, text_of, users_frame

Heads = tuple[tuple[int, str, str], ...]
"""Line, variable and called function ("" if it is another expression) of each loop around a line, outermost
first."""
Stack = tuple[tuple[str, str, int, tuple[int | None, ...]], ...]
"""File, function and line of each function under way, innermost first, with what the variables of the loops
around that line are now, None for what is no integer."""


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """A loop under way: line of its head, its variable and what that is now, and what it loops over."""

    line: int
    variable: str
    value: int
    over: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A function under way: its name, the line that runs, loops around that line, outermost first."""

    file: str
    line: int
    function: str
    loops: tuple[LoopTurn, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of a kernel: its instance on the grid, and functions under way, innermost first."""

    program: tuple[int, ...]
    calls: tuple[Call, ...]


def stack_now() -> Stack:
    """Where the user's text is, by hashable values that are cheap to make."""
    frame = users_frame()
    found: list[tuple[str, str, int, tuple[int | None, ...]]] = []
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file.startswith(OWN_FOLDER):
            if code.co_name != "__call__":  # of a kernel that a kernel calls, whose loops are under way too
                break
            frame = frame.f_back
            continue
        line = frame.f_lineno
        heads = _loops_of(file).get(line)
        values: tuple[int | None, ...] = ()
        if heads:
            variables = frame.f_locals
            values = tuple([_index(variables.get(variable)) for _, variable, _ in heads])
        found.append((file, code.co_name, line, values))
        frame = frame.f_back
    return tuple(found)


def _index(value: Any) -> int | None:
    return int(value) if hasattr(value, "__index__") else None


def moment_of(program: tuple[int, ...], stack: Stack) -> Moment:
    """The moment of an instance of the grid whose text is at a place."""
    return Moment(
        program, tuple(Call(file, line, name, _turns(file, line, at)) for file, name, line, at in stack)
    )


def forget_loops() -> None:
    """Read texts again: files change between two kernels."""
    _loops_of.cache_clear()


def _turns(file: str, line: int, values: Sequence[int | None]) -> tuple[LoopTurn, ...]:
    heads = _loops_of(file).get(line, ())
    return tuple(
        LoopTurn(head, variable, value, over)
        for (head, variable, over), value in zip(heads, values, strict=True)
        if value is not None
    )


@lru_cache(maxsize=256)
def _loops_of(filename: str) -> dict[int, Heads]:
    """Each line inside of loops -> their heads; {} for what is no readable Python."""
    return _loops_of_text(text_of(filename))


@lru_cache(maxsize=64)
def _loops_of_text(text: bytes) -> dict[int, Heads]:
    found: dict[int, Heads] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return found
    waiting: list[tuple[ast.AST, Heads]] = [(tree, ())]
    while waiting:
        node, heads = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            heads = ()
        is_loop = isinstance(node, ast.For)
        inner = (*heads, (node.lineno, _variable(node.target), _called(node.iter))) if is_loop else heads
        body = set(map(id, node.body)) if is_loop else set[int]()
        for child in ast.iter_child_nodes(node):
            around = inner if id(child) in body else heads
            if isinstance(child, ast.stmt) and around:
                for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                    if len(around) >= len(found.get(line, ())):
                        found[line] = around
            waiting.append((child, around))
    return found


def _called(value: ast.expr) -> str:
    """The function whose call a loop goes over, without its module."""
    if not isinstance(value, ast.Call):
        return ""
    name = value.func
    return name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""


def _variable(target: ast.expr) -> str:
    """The variable of a loop, the first one where there are several."""
    names = (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
    return next(names, "")


def turn_counts(moments: Sequence[Moment]) -> list[list[list[tuple[int, int]]]]:
    """Of each moment, of each call, of each loop: which turn this is (from 1), and how many there are."""
    seen: dict[tuple[object, ...], dict[int, int]] = {}
    ranks: list[list[list[tuple[dict[int, int], int]]]] = []
    for moment in moments:
        path: list[object] = [moment.program]
        calls: list[list[tuple[dict[int, int], int]]] = []
        for call in reversed(moment.calls):
            turns: list[tuple[dict[int, int], int]] = []
            for loop in call.loops:
                values = seen.setdefault((*path, call.file, loop.line), {})
                turns.append((values, values.setdefault(loop.value, len(values) + 1)))
                path.append((loop.line, loop.value))
            calls.append(turns)
            path.append((call.file, call.line))
        ranks.append(calls[::-1])
    return [[[(rank, len(values)) for values, rank in turns] for turns in calls] for calls in ranks]
