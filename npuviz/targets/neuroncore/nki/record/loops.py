"""Loops whose body the vendor's compiler of generation 1 runs once, whatever their number of turns.

The tracer of generation 1 runs the body of `affine_range` and `sequential_range` a single time, with a
symbol for the index, and only `static_range` turn by turn. What the body does to Python's own variables
happens once: each turn on the chip sees them as they were before the loop. Here every turn is run, with the
variables put back before each, which gives the same values.
# Ref: aws-neuron-sdk 49ee15c5, general/nki/api/nki/language/__init__.py: `static_range` is unrolled while
# tracing, the other two are not before the compiler's backend; nki-samples, allocated_attention.py adds to an
# address in such a body, and its tiles fit only if that happens once.
"""

import ast
import ctypes
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from npuviz.targets.neuroncore.nki.record.endless import TURNS, check_length
from npuviz.targets.neuroncore.nki.record.recording import Recording, current, is_recording
from npuviz.targets.neuroncore.nki.record.tensors import Tensor
from npuviz.targets.neuroncore.nki.record.variable_names import statement_at

TRACED_ONCE = "traced-once"
"""Name of the warnings."""
_GROWING = (list, dict, set)


class LoopIndex(int):
    """The index of a loop: an integer that knows whether its turn is the first."""

    is_first = True


def turns(values: range) -> Iterator[LoopIndex]:
    """The indices of a loop, one after the other. Raises KernelError for more than a program holds."""
    steps = current().steps if is_recording() and len(values) > TURNS else None
    before = len(steps) if steps is not None else 0
    for count, value in enumerate(values):
        if steps is not None and count == TURNS:
            check_length(len(values), (len(steps) - before) // TURNS)
        index = LoopIndex(value)
        index.is_first = count == 0
        yield index


class Turns:
    """The turns of a loop of `name`; a subscript of generation 2 takes it as the slice of its values."""

    def __init__(self, values: range, name: str) -> None:
        self.values = values
        self._name = name

    def __iter__(self) -> Iterator[LoopIndex]:
        return turns_traced_once(self.values, self._name)

    def __len__(self) -> int:
        return len(self.values)


def range_of_kernel(*bounds: int) -> Iterator[int]:
    """`range` of a loop in a kernel of generation 1."""
    return turns_traced_once(range(*bounds), "range")


def turns_traced_once(values: range, name: str) -> Iterator[LoopIndex]:
    """The indices of a loop; before each turn of generation 1 the function's variables are put back.

    Says which variables a turn would have taken from the turn before. `name`: of the loop's function.
    """
    frame = inspect.currentframe()
    frame = frame.f_back if frame is not None else None
    recording = current() if is_recording() else None
    if frame is None or recording is None or recording.version > 1 or not _has_variables(frame):
        yield from turns(values)
        return
    before = dict(frame.f_locals)
    sizes = {key: len(value) for key, value in before.items() if isinstance(value, _GROWING)}
    for index in turns(values):
        if not index.is_first:
            _put_back(frame, before, sizes, recording, name)
        yield index


def _has_variables(frame: FrameType) -> bool:
    """Whether a frame is one of a function, not of a module or a class."""
    return bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)


def _put_back(
    frame: FrameType, before: Mapping[str, Any], sizes: dict[str, int], recording: Recording, name: str
) -> None:
    now = frame.f_locals
    changed = {key: value for key, value in before.items() if key in now and now[key] is not value}
    if changed:
        carried = carried_names(frame.f_code.co_filename, frame.f_lineno)
        for key in sorted(set(changed) & carried.keys()):
            if not _is_same(changed[key], now[key]):
                head = f"{_place(frame, carried[key])}: {key} is changed in the body of a loop of {name}, "
                _say(recording, head, _consequence(key, changed[key]))
        now.update(changed)
        if sys.version_info < (3, 13):  # f_locals is a copy before
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    for key, size in list(sizes.items()):
        if len(before[key]) != size:
            del sizes[key]
            head = (
                f"{_place(frame, frame.f_lineno)}: {key} gets {len(before[key]) - size} more in each turn of "
            )
            rest = "whose body the vendor's compiler runs once; static_range runs it each turn"
            _say(recording, f"{head}a loop of {name}, ", rest)


def _say(recording: Recording, head: str, rest: str) -> None:
    """Warn, once for each place and variable."""
    if not any(text.startswith(f"{TRACED_ONCE}: {head}") for text in recording.notes):
        recording.note(f"{TRACED_ONCE}: {head}{rest}")


def _consequence(key: str, value: Any) -> str:
    """What becomes of a variable that a turn reads before it sets it."""
    if isinstance(value, Tensor):
        return (
            f"which shadows the tile from before the loop: each turn reads that one; {key}[...] = updates it"
        )
    return (
        f"which the vendor's compiler runs once: {key} is {_shown(value)} at the beginning of every turn, "
        "as before the loop; static_range runs the body each turn"
    )


def _place(frame: FrameType, line: int) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{line}"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, bool | int | float | str | None) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:40]}..."


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of Python are equal; of other kinds only the very same object is."""
    plain = bool | int | float | str | None
    return isinstance(one, plain) and isinstance(other, plain) and one == other


@lru_cache(maxsize=1024)
def carried_names(filename: str, line: int) -> Mapping[str, int]:
    """Variables that a turn of the loop at a line may read before it sets them -> a line that sets them."""
    loop = statement_at(filename, line)
    if not isinstance(loop, ast.For):
        return {}
    reading = _Reading()
    reading.block(loop.body, _named(loop.target, ast.Store))
    return {name: at for name, at in reading.set_at.items() if name in reading.early}


def _named(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Variables in an expression that are read, or set."""
    return {
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, context)
    }


class _Reading:
    """Walks statements in the order in which they run.

    early   variables read where no statement before has surely set them
    set_at  variables that are set -> the first line
    """

    def __init__(self) -> None:
        self.early: set[str] = set()
        self.set_at: dict[str, int] = {}

    def block(self, statements: Sequence[ast.stmt], known: set[str]) -> set[str]:
        """What is surely set behind these statements, where `known` is before."""
        for each in statements:
            known = self._statement(each, known)
        return known

    def _statement(self, each: ast.stmt, known: set[str]) -> set[str]:
        if isinstance(each, ast.If):
            self._reads(each.test, known)
            return known | (self.block(each.body, known) & self.block(each.orelse, known))
        if isinstance(each, ast.For | ast.While):
            self._reads(each.iter if isinstance(each, ast.For) else each.test, known)
            inner = known | (self._sets(each.target, each.lineno) if isinstance(each, ast.For) else set())
            self.block(each.orelse, self.block(each.body, inner))
            return known
        if isinstance(each, ast.With):
            for item in each.items:
                self._reads(item.context_expr, known)
                known = known | (self._sets(item.optional_vars, each.lineno) if item.optional_vars else set())
            return self.block(each.body, known)
        if isinstance(each, ast.Try):
            self.block(each.body, known)
            for part in (each.orelse, each.finalbody, *(handler.body for handler in each.handlers)):
                self.block(part, known)
            return known
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            return known | {each.name}
        self._reads(each, known)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
            self.early |= {each.target.id} - known
        return known | self._sets(each, each.lineno)

    def _reads(self, node: ast.AST, known: set[str]) -> None:
        self.early |= _named(node, ast.Load) - known

    def _sets(self, node: ast.AST, line: int) -> set[str]:
        found = _named(node, ast.Store)
        for name in found:
            self.set_at.setdefault(name, line)
        return found
