"""Where a kernel's Python is: the functions under way, and the loops around the line of each."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

from npuviz.targets.neuroncore.nki.record.variable_names import OWN_FOLDER, text_of, users_frame

Head = tuple[int, str, str, int]
"""Line and variable of a loop, called function ("" if it is another expression), and by how much the variable
has grown already where a turn has changed it."""
Heads = tuple[Head, ...]
"""Loops around a line, outermost first."""
Value = int | tuple[int, int] | None
"""What a loop's variable is now; of a loop on a value of the chip that value, and the number of the turn;
None for what is no integer."""
Passed = tuple[tuple[str, Value], ...]
"""Variable and value of the loop that a function of NKI makes of a line (`nl.fori_loop`); () elsewhere."""
Stack = tuple[tuple[str, str, int, tuple[Value, ...], Passed], ...]
"""File, function and line of each function under way, innermost first, with what the variables of the loops
around that line are now."""
ON_THE_CHIP = "while"
"""What a loop on a register loops over."""
_SUMS = ast.Add | ast.Sub
_STEPS = _SUMS | ast.Mult | ast.FloorDiv | ast.LShift | ast.RShift
"""Operators with which a variable has another value in each turn."""
_LOOPS = {"fori_loop": "index", "while_loop": "turn"}
"""Functions of NKI that call a body in each turn -> their variable with its value."""


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """A loop under way: line of its head, its variable and what that is now, and what it loops over.

    serial  number of the turn where the same value may come again, else -1
    """

    line: int
    variable: str
    value: int
    over: str = ""
    serial: int = -1


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


Turns = dict[tuple[FrameType, int], tuple[int, int]]
"""Frame and line of the head of each loop on a value of the chip -> that value, and its turn's number."""


def stack_now(chip_turns: Turns) -> Stack:
    """Where the user's text is, by hashable values that are cheap to make."""
    frame = users_frame()
    found: list[tuple[str, str, int, tuple[Value, ...], Passed]] = []
    passed: Passed = ()
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file.startswith(OWN_FOLDER):
            if code.co_name in _LOOPS:
                passed = _turn_of_body(frame, found[-1][1] if found else "")
            # A kernel called by a kernel, whose loops are under way too; what is around a loop's function.
            elif code.co_name != "__call__" and not passed:
                break
            frame = frame.f_back
            continue
        line = frame.f_lineno
        heads = _loops_of(file).get(line)
        values: tuple[Value, ...] = ()
        if heads:
            variables = frame.f_locals
            values = tuple(
                [
                    chip_turns.get((frame, head))
                    if over == ON_THE_CHIP
                    else _index(variables.get(variable), grown)
                    for head, variable, over, grown in heads
                ]
            )
        found.append((file, code.co_name, line, values, passed))
        passed = ()
        frame = frame.f_back
    return tuple(found)


def _turn_of_body(frame: FrameType, body: str) -> Passed:
    """The variable of the loop that a function of NKI makes, and its value."""
    value = frame.f_locals.get(_LOOPS[frame.f_code.co_name])
    function = frame.f_locals.get("body_fun")
    names = getattr(getattr(function, "__code__", None), "co_varnames", ())
    known = value if isinstance(value, tuple) else _index(value)
    return ((names[0] if names else body, known),)


def _index(value: Any, grown: int = 0) -> int | None:
    return int(value) - grown if hasattr(value, "__index__") else None


def moment_of(program: tuple[int, ...], stack: Stack) -> Moment:
    """The moment of an instance of the grid whose text is at a place."""
    return Moment(
        program,
        tuple(
            Call(file, line, name, (*_turns(file, line, at), *_passed_turns(line, passed)))
            for file, name, line, at, passed in stack
        ),
    )


def forget_loops() -> None:
    """Read texts again: files change between two kernels."""
    _loops_of.cache_clear()


def _turns(file: str, line: int, values: Sequence[Value]) -> tuple[LoopTurn, ...]:
    heads = _loops_of(file).get(line, ())
    return tuple(
        _turn(head, variable, value, over)
        for (head, variable, over, _grown), value in zip(heads, values, strict=True)
        if value is not None
    )


def _passed_turns(line: int, passed: Passed) -> tuple[LoopTurn, ...]:
    return tuple(_turn(line, variable, value, ON_THE_CHIP) for variable, value in passed if value is not None)


def _turn(line: int, variable: str, value: int | tuple[int, int], over: str) -> LoopTurn:
    if isinstance(value, tuple):
        return LoopTurn(line, variable, value[0], over, value[1])
    return LoopTurn(line, variable, value, over)


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
        head = _head_of(node)
        inner = (*heads, head) if head is not None else heads
        body = set(map(id, node.body)) if isinstance(node, ast.For | ast.While) else set[int]()
        counting = _counting(node) if head is not None and isinstance(node, ast.While) else None
        for child in ast.iter_child_nodes(node):
            around = inner if id(child) in body else heads
            if child is counting and head is not None:
                inner = (*heads, (*head[:3], _growth(counting)))
            if isinstance(child, ast.stmt) and around:
                for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                    if len(around) >= len(found.get(line, ())):
                        found[line] = around
            waiting.append((child, around))
    return found


def _head_of(node: ast.AST) -> Head | None:
    """The head of a loop with a variable; None for anything else."""
    if isinstance(node, ast.For):
        return node.lineno, _variable(node.target), _called(node.iter), 0
    if isinstance(node, ast.While):
        if variable := _plain_name(node.test):
            return node.lineno, variable, ON_THE_CHIP, 0
        if (counting := _counting(node)) is not None:
            return node.lineno, _variable(counting.target), "", 0
    return None


def _counting(loop: ast.While) -> ast.AugAssign | None:
    """The statement that changes a variable of a loop's condition by the same in each turn (`i += 1`).

    None where a turn may change the variable elsewhere too, so that its value does not tell turns apart.
    In the midst of a turn it must be a sum, so that the value before it is known behind it.
    """
    if isinstance(loop.test, ast.Name | ast.Attribute):
        return None
    tested = {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)}
    inside = [node for part in loop.body for node in ast.walk(part)]
    changed = [n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)]
    for part in loop.body:
        if not isinstance(part, ast.AugAssign) or not isinstance(part.target, ast.Name):
            continue
        is_alone = part.target.id in tested and changed.count(part.target.id) == 1
        is_same = isinstance(part.value, ast.Constant) and type(part.value.value) is int
        if is_alone and is_same and isinstance(part.op, _SUMS if part is not loop.body[-1] else _STEPS):
            return part
    return None


def _growth(counting: ast.AugAssign | None) -> int:
    """By how much a sum changes its variable; 0 behind any other statement, where no line of the turn is."""
    if counting is None or not isinstance(counting.op, _SUMS) or not isinstance(counting.value, ast.Constant):
        return 0
    change = counting.value.value if type(counting.value.value) is int else 0
    return change if isinstance(counting.op, ast.Add) else -change


def _plain_name(test: ast.expr) -> str:
    """The variable that a condition is, "" for any other expression."""
    return test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""


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
    seen: dict[tuple[object, ...], dict[object, int]] = {}
    ranks: list[list[list[tuple[dict[object, int], int]]]] = []
    for moment in moments:
        path: list[object] = [moment.program]
        calls: list[list[tuple[dict[object, int], int]]] = []
        for call in reversed(moment.calls):
            turns: list[tuple[dict[object, int], int]] = []
            for loop in call.loops:
                key = loop.value if loop.serial < 0 else (loop.value, loop.serial)
                values = seen.setdefault((*path, call.file, loop.line), {})
                turns.append((values, values.setdefault(key, len(values) + 1)))
                path.append((loop.line, key))
            calls.append(turns)
            path.append((call.file, call.line))
        ranks.append(calls[::-1])
    return [[[(rank, len(values)) for values, rank in turns] for turns in calls] for calls in ranks]
