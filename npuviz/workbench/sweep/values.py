"""Computes the columns of a sweep: numbers at paths of a run's summary, and expressions of other columns."""

import ast
import math
import operator
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

from npuviz.base.errors import UsageError

_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "units": ("busy_cycles", "waiting_cycles", "idle_cycles", "utilization"),
    "queues": ("peak", "capacity"),
    "memories": ("peak_bytes", "bytes"),
}
_PLAIN = ("cycles", "events")
_TABLES: Mapping[str, tuple[str, ...] | None] = {
    "seconds": ("load", "compile", "simulate", "uncompiled", "warm_up"),
    "counters": None,
    "check": ("tensors", "failed", "max_abs_err", "max_rel_err"),
}
_FOLDS: Mapping[str, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "sum": sum,
    "max": max,
    "min": min,
}
_OPERATORS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "log2": math.log2,
}
_MAX_EXPRESSION = 500
_MAX_POWER = 64


def check_path(path: str) -> None:
    """Check that a summary can have a path. Raises UsageError that lists the possible ones."""
    _, section, name, field = _split(path)
    if section in _PLAIN and not name:
        return
    if section in _SECTIONS and name and field in _SECTIONS[section]:
        return
    if section in _TABLES and name:
        fields = _TABLES[section]
        if fields is None or name in fields:
            return
    known = [*_PLAIN, "counters.NAME"]
    known += [f"{key}.NAME.{'|'.join(fields)}" for key, fields in _SECTIONS.items()]
    known += [f"{key}.{'|'.join(fields)}" for key, fields in _TABLES.items() if fields]
    raise UsageError(f"no metric {path[:80]!r}; there are {', '.join(known)}, NAME with * as wildcard")


def metric(summary: Mapping[str, Any], path: str) -> float | None:
    """Return the number at a path of a summary, None if this run has none.

    The numbers of all names that a wildcard matches are folded: by the word before the path (mean, sum, max,
    min), else to their mean.
    """
    fold, section, name, field = _split(path)
    part = summary.get(section)
    if section in _PLAIN:
        return _number(part)
    if part is None:
        return None
    is_list = section in _SECTIONS
    values = {str(item["name"]): item.get(field) for item in part} if is_list else dict(part)
    found = [
        number for key, value in values.items() if _fits(name, key) and (number := _number(value)) is not None
    ]
    return _FOLDS[fold](found) if found else None


def _fits(pattern: str, text: str) -> bool:
    """Return whether the text matches the pattern, in which `*` stands for any text; linear in time."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    if not text.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(text) - at >= len(others[-1]) and text.endswith(others[-1])


def _number(value: Any) -> float | None:
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def _split(path: str) -> tuple[str, str, str, str]:
    """Split a path to (fold, section, name, field); name and field are "" if absent."""
    words = path.split(None, 1)
    fold, rest = (words[0], words[1]) if len(words) == 2 and words[0] in _FOLDS else ("mean", path.strip())
    section, _, name = rest.partition(".")
    if section in _SECTIONS:
        name, _, field = name.rpartition(".")
        return fold, section, name, field
    return fold, section, name, ""


def check_expression(text: str, names: Collection[str]) -> None:
    """Check that a text is an expression of numbers and known names. Raises UsageError."""
    _check(_parse(text), names)


def evaluate(text: str, values: Mapping[str, float | None]) -> float | None:
    """Evaluate an expression; None if a name has no value, or the result is not a finite real number."""
    try:
        result = _evaluate(_parse(text), values)
        # A power of a negative number may be complex: isfinite then raises TypeError.
        return result if math.isfinite(result) else None
    except (ArithmeticError, ValueError, TypeError):
        return None


def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_EXPRESSION:
        raise UsageError(f"an expression of {len(text)} characters; at most {_MAX_EXPRESSION}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{text[:60]!r} is no expression; names, numbers, + - * / ** ( ) and min, max, "
                         "sqrt, log2 make one") from None  # fmt: skip


def _check(node: ast.expr, names: Collection[str]) -> None:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise UsageError(f"no column {node.id!r}; there are {', '.join(sorted(names))}")
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        _check(node.left, names)
        _check(node.right, names)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check(node.operand, names)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        if node.keywords or not node.args:
            raise UsageError(f"{node.func.id}() takes numbers")
        for argument in node.args:
            _check(argument, names)
    else:
        raise UsageError(f"{ast.unparse(node)[:60]!r} is neither a number, a name nor an operation on them")


def _evaluate(node: ast.expr, values: Mapping[str, float | None]) -> float:
    if isinstance(node, ast.Constant):
        return node.value  # pyright: ignore[reportReturnType]
    if isinstance(node, ast.Name):
        value = values.get(node.id)
        if value is None:
            raise ValueError(node.id)
        return value
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, values), _evaluate(node.right, values)
        if isinstance(node.op, ast.Pow) and abs(right) > _MAX_POWER:
            raise ValueError("power")
        return _OPERATORS[type(node.op)](float(left), float(right))
    if isinstance(node, ast.UnaryOp):
        return -_evaluate(node.operand, values)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*(_evaluate(argument, values) for argument in node.args))
