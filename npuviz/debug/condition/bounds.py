"""Check before anything runs whether a condition can ever become true."""

import math
from collections.abc import Iterator

from npuviz.base.errors import ConditionError
from npuviz.debug.condition.expression import (
    Arithmetic,
    Both,
    Compare,
    Cycle,
    Either,
    Event,
    Expression,
    Not,
    Number,
    ProbeValue,
    QueueLevel,
)
from npuviz.debug.condition.history import Count
from npuviz.debug.condition.tokens import LARGEST_CYCLE

Limits = tuple[float, float]
ANY: Limits = (-math.inf, math.inf)
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


def check(expression: Expression, text: str) -> None:
    """Raise ConditionError if the expression can never become true, or holds from the beginning."""
    found = _truth(expression)
    if found is False:
        raise ConditionError(text, *_why_never(expression))
    starts_true = (
        isinstance(expression, Compare)
        and isinstance(expression.children[0], Cycle)
        and isinstance(expression.children[1], Number)
        and expression.comparison in ("<", "<=")
    )
    if found is True or starts_true:
        held = "from the first cycle" if starts_true else "always"
        raise ConditionError(text, expression.span, f"never becomes true: it holds {held}")


def limits(expression: Expression) -> Limits:
    """Return the smallest and the largest number that an expression can be."""
    if isinstance(expression, Number):
        return expression.number, expression.number
    if isinstance(expression, Cycle):
        return 0, LARGEST_CYCLE
    if isinstance(expression, QueueLevel):
        return 0, expression.capacity if expression.capacity > 0 else math.inf
    if isinstance(expression, Count):
        return 0, math.inf
    if isinstance(expression, ProbeValue):
        return _limits_of_probe(expression)
    if isinstance(expression, Arithmetic) and expression.operator in "+-*":
        left, right = map(limits, expression.children)
        ends = [expression.apply(a, b) for a in left for b in right]
        return ANY if any(math.isnan(end) for end in ends) else (min(ends), max(ends))
    return ANY


def _limits_of_probe(probe: ProbeValue) -> Limits:
    kind, bits = probe.dtype.kind, 8 * probe.dtype.itemsize
    if kind == "b":
        return 0, 1
    if kind == "u":
        return 0, (1 << bits) - 1
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "i" else ANY


def is_whole(expression: Expression) -> bool:
    """Whether an expression is always a whole number."""
    if isinstance(expression, Number):
        return isinstance(expression.number, int)
    if isinstance(expression, ProbeValue):
        return expression.dtype.kind in "iub"
    if isinstance(expression, Arithmetic):
        return expression.operator in "+-*" and all(map(is_whole, expression.children))
    return isinstance(expression, Cycle | QueueLevel | Count)


def shape(expression: Expression) -> tuple[object, ...]:
    """Return a key that is equal for expressions that always have the same value."""
    own = (
        getattr(expression, "number", None),
        getattr(expression, "operator", None),
        getattr(expression, "comparison", None),
        getattr(expression, "cycles", None),
        tuple(row for row, _ in expression.rows) if isinstance(expression, Event) else None,
        getattr(expression, "how", None),
    )
    return type(expression).__name__, expression.name, *own, *map(shape, expression.children)


def _truth(expression: Expression) -> bool | None:
    """Return what an expression always is, None if it can be either."""
    if isinstance(expression, Not):
        inner = _truth(expression.children[0])
        return None if inner is None else not inner
    if isinstance(expression, Both):
        parts = list(_conjuncts(expression))
        known = [_truth(part) for part in parts]
        if False in known or _contradiction(parts) is not None:
            return False
        return True if all(known) else None
    if isinstance(expression, Either):
        left, right = map(_truth, expression.children)
        return True if left or right else False if left is False and right is False else None
    if isinstance(expression, Compare):
        return _compared(expression)
    return None


def _compared(expression: Compare) -> bool | None:
    left, right = expression.children
    (low, high), (least, most) = limits(left), limits(right)
    comparison = expression.comparison
    if comparison in (">", ">="):
        low, high, least, most = least, most, low, high
        comparison = _MIRRORED[comparison]
    if comparison == "<":
        return True if high < least else False if low >= most else None
    if comparison == "<=":
        return True if high <= least else False if low > most else None
    is_apart = high < least or low > most
    if is_whole(left) and isinstance(right, Number) and right.number % 1:
        is_apart = True
    is_same = low == high == least == most
    if comparison == "!=":
        return True if is_apart else False if is_same else None
    return False if is_apart else True if is_same else None


def _conjuncts(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Both):
        for child in expression.children:
            yield from _conjuncts(child)
    else:
        yield expression


def _contradiction(parts: list[Expression]) -> Expression | None:
    """Return the first part that cannot hold together with those before it, None if there is none."""
    ranges: dict[tuple[object, ...], Limits] = {}
    held: set[tuple[bool, tuple[object, ...]]] = set()
    for part in parts:
        own = shape(part.children[0] if isinstance(part, Not) else part)
        if (not isinstance(part, Not), own) in held:
            return part
        held.add((isinstance(part, Not), own))
        if not isinstance(part, Compare) or not isinstance(part.children[1], Number):
            continue
        left, key = part.children[0], shape(part.children[0])
        low, high = _range_of(part.comparison, float(part.children[1].number), is_whole(left))
        before = ranges.get(key, ANY)
        ranges[key] = max(before[0], low), min(before[1], high)
        if ranges[key][0] > ranges[key][1]:
            return part
    return None


def _range_of(comparison: str, bound: float, whole: bool) -> Limits:
    if comparison in (">", ">="):
        least = (
            bound
            if comparison == ">="
            else math.floor(bound) + 1
            if whole
            else math.nextafter(bound, math.inf)
        )
        return least, math.inf
    if comparison in ("<", "<="):
        most = (
            bound
            if comparison == "<="
            else math.ceil(bound) - 1
            if whole
            else math.nextafter(bound, -math.inf)
        )
        return -math.inf, most
    return (bound, bound) if comparison in ("==", "=") else ANY


def _why_never(expression: Expression) -> tuple[tuple[int, int], str]:
    """Return the place and the reason of a part that is never true."""
    if isinstance(expression, Either):
        return _why_never(expression.children[0])
    if isinstance(expression, Both):
        parts = list(_conjuncts(expression))
        wrong = next((part for part in parts if _truth(part) is False), None)
        if wrong is not None:
            return _why_never(wrong)
        found = _contradiction(parts)
        return (found or expression).span, "never true together with what stands before it"
    if isinstance(expression, Compare):
        left, right = expression.children
        if isinstance(left, QueueLevel) and left.capacity > 0:
            return right.span, f"never true: the queue has room for {left.capacity} entries"
        if isinstance(left, Cycle):
            return right.span, "never true: cycles are whole numbers from 0 to 2^62"
        low, high = limits(left)
        if left.name and low > -math.inf:
            return expression.span, f"never true: {left.name} is from {low} to {high}"
    return expression.span, "never true"
