"""Loops that cannot end, or that no program can hold: told with their line after a few turns.

Whether a loop ends cannot be known of all of them. Here are those where it is certain: nothing that a turn
does changes what the condition depends on, or the text of the loop has no way out. All others go on.
"""

import ast
from collections.abc import Iterator, Sequence

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.variable_names import statements_around

TURNS = 64
"""Turns of a loop before it is judged: Python of the kernel's own may still end it in one of the first."""
MAX_STEPS = 1 << 22
"""Calls that a recording may have. # Assumed: a few KB each; Python records fewer within its time."""
_EXITS = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)


class Conditions:
    """Counts for each loop the turns in a row that have left its condition as it was."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[int, object, int]] = {}
        self._away: dict[object, tuple[int, int]] = {}

    def is_same(self, loop: object, value: int, source: object) -> bool:
        """Return whether a loop's condition has been this value of the same `source` for TURNS turns.

        source  what gave the value, another object as soon as another value could have come of it
        """
        before, maker, count = self._last.get(loop, (0, None, 0))
        count = count + 1 if value and before == value and maker is source else 0
        self._last[loop] = (value, source, count)
        return count >= TURNS

    def moves_away(self, loop: object, value: int) -> bool:
        """Return whether a loop's condition has come further from 0 in so many turns in a row that it looks
        like a counter that goes the wrong way; `kernel_away_turns` of the machine is how many."""
        before, count = self._away.get(loop, (0, 0))
        count = count + 1 if before and abs(value) > abs(before) else 0
        self._away[loop] = (value, count)
        return 0 < spec_in_use().kernel_away_turns <= count


def unlikely_end(value: int) -> KernelError:
    """The error of a loop whose condition has moved away from 0 for long."""
    turns = spec_in_use().kernel_away_turns
    return KernelError(
        f"the loop does not seem to end: its condition is {value}, further from 0 than before in each of "
        f"{turns} turns, and a loop on a register ends at 0; if it does end, allow more with "
        "--set kernel_away_turns=N (0: any number)"
    )


def endless_condition(value: int) -> KernelError:
    """The error of a loop on a value of the chip whose turns do not change that value."""
    return KernelError(
        f"the loop does not end: its condition is {value}, and nothing in {TURNS} turns has written what it "
        "depends on; write it in the body, with nisa.register_load of the new value for a register"
    )


def check_length(turns: int, steps: int) -> None:
    """Raise KernelError if a loop of so many turns, with so many calls each, is longer than a program."""
    if turns * max(1, steps) > MAX_STEPS:
        raise KernelError(
            f"a loop of {turns} turns with {steps} calls of nki each: npuviz unrolls loops, and records at "
            f"most {MAX_STEPS} calls; give it fewer turns"
        )


def while_without_exit(places: Sequence[tuple[str, int]]) -> tuple[str, int] | None:
    """Return file and line of a `while` under way that nothing in its text can end; None if there is none.

    Its condition is a true constant, nothing in it leaves it, and no `try` around it takes an exception.

    places  (file, line) of the calls under way in the user's text, innermost first
    """
    for number, (file, line) in enumerate(places):
        around = statements_around(file, line)
        for depth, each in enumerate(around):
            if not isinstance(each, ast.While) or not _is_in(each.body, line) or has_exit(each):
                continue
            outer = [
                (around[:depth], line),
                *((statements_around(*at), at[1]) for at in places[number + 1 :]),
            ]
            is_true = isinstance(each.test, ast.Constant) and bool(each.test.value)
            if is_true and not any(_catches(statements, at) for statements, at in outer):
                return file, each.lineno
    return None


def has_exit(loop: ast.While) -> bool:
    """Return whether the body of a loop may leave it."""
    return any(isinstance(each, _EXITS) for statement in loop.body for each in _own_nodes(statement))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what it holds, without the bodies of functions that it defines."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        for each in ast.iter_child_nodes(node):
            yield from _own_nodes(each)


def _is_in(body: Sequence[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or line)


def _catches(statements: Sequence[ast.stmt], line: int) -> bool:
    """Return whether a `try` among the statements around a line takes exceptions of that line."""
    return any(isinstance(each, ast.Try) and each.handlers and _is_in(each.body, line) for each in statements)
