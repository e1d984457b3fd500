"""Keep of an event only what happens in some turns of the loops around it: `line 42 if block == 2`."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from npuviz.debug.condition.expression import (
    Arithmetic,
    Both,
    Compare,
    Either,
    Event,
    Expression,
    Moment,
    Not,
    Number,
)
from npuviz.debug.condition.tokens import COMPARISONS
from npuviz.program.instruction import Listing
from npuviz.program.source import HasCalls

Turns = dict[str, int]
"""Variable of a loop -> its value; of two loops over one name that of the inner one."""


class TurnValue(Expression):
    """The variable of a loop around an event; `chosen` puts its values in its place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self, moment: Moment) -> Any:
        """Return None: a machine does not know it."""
        return None


def turns_of(listing: Listing, event: Event) -> list[Turns]:
    """Return the variables of the loops around each row of an event; {} where none are known."""
    found: list[Turns] = []
    for instruction in event.instructions:
        turns: Turns = {}
        if isinstance(listing, HasCalls) and instruction >= 0:
            # From the outside in, so that the inner one of a name stays.
            for call in reversed(listing.calls_of(instruction)):
                turns |= {loop.variable: loop.value for loop in call.loops}
        found.append(turns)
    return found


def chosen(event: Event, turns: Sequence[Turns], condition: Expression) -> Expression | None:
    """Return the event where the condition holds, None if it holds in no turn."""
    used = sorted({part.name for part in condition.parts() if isinstance(part, TurnValue)})
    groups: dict[tuple[int | None, ...], list[int]] = {}
    for number, values in enumerate(turns):
        groups.setdefault(tuple(values.get(name) for name in used), []).append(number)
    always: list[int] = []
    found: list[Expression] = []
    for key, numbers in groups.items():
        known = {name: value for name, value in zip(used, key, strict=True) if value is not None}
        rest = _of_known(_with(condition, known))
        truth = _constant(rest) if rest is not None else False
        if truth is True:
            always += numbers
        elif truth is None and rest is not None:
            found.append(Both(event.only(numbers), rest))
    if always:
        found.insert(0, event.only(sorted(always)))
    whole = found[0] if found else None
    for each in found[1:]:
        assert whole is not None
        whole = Either(whole, each)
    return whole


def _with(expression: Expression, values: Turns) -> Expression:
    """Return an expression with numbers in place of variables of loops."""
    if isinstance(expression, TurnValue):
        return Number(values[expression.name]) if expression.name in values else expression
    if not any(isinstance(part, TurnValue) for part in expression.parts()):
        return expression
    made = copy(expression)
    made.children = tuple(_with(child, values) for child in expression.children)
    return made


def _of_known(expression: Expression) -> Expression | None:
    """Return the part of a condition that holds without variables of loops that are not around an event.

    What such a variable decides does not hold, nor does its opposite; None if nothing can hold.
    """
    if not any(isinstance(part, TurnValue) for part in expression.parts()):
        return expression
    if not isinstance(expression, Both | Either):
        return None
    parts = [_of_known(child) for child in expression.children]
    if isinstance(expression, Either) and None in parts:
        return next((part for part in parts if part is not None), None)
    if None in parts:
        return None
    made = copy(expression)
    made.children = tuple(part for part in parts if part is not None)
    return made


def _constant(expression: Expression) -> Any:
    """Return the number or truth that an expression always is; None for what a machine has to tell."""
    if isinstance(expression, Number):
        return expression.number
    if not isinstance(expression, Arithmetic | Compare | Not | Both | Either):
        return None
    parts = [_constant(child) for child in expression.children]
    if isinstance(expression, Both | Either):
        decides = isinstance(expression, Either)
        if decides in parts:
            return decides
        return None if None in parts else not decides
    if None in parts:
        return None
    if isinstance(expression, Not):
        return not parts[0]
    if isinstance(expression, Compare):
        return bool(COMPARISONS[expression.comparison][1](*parts))
    return None if expression.operator in "/%" and parts[1] == 0 else expression.apply(*parts)
