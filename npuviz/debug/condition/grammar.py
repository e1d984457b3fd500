"""Parse conditions: how they are composed of numbers and truths."""

from npuviz.base.errors import ConditionError
from npuviz.debug.condition.atoms import Atoms, Scope, number_in
from npuviz.debug.condition.expression import (
    REDUCTIONS,
    Arithmetic,
    Both,
    Compare,
    Cycle,
    Either,
    Expression,
    Not,
    Number,
    QueueLevel,
)
from npuviz.debug.condition.history import Changed, Count, Lasting, Within
from npuviz.debug.condition.tokens import COMPARISONS, OPERATORS, TokenReader

CHANGES = ("changed", "rises", "falls")
OPPOSITE = {">=": "<", ">": "<=", "<=": ">", "<": ">=", "==": "!=", "=": "!=", "!=": "=="}
FIRST = "cycle, instr, op, queue, read, write, unit, value, any, a function of a tensor or a probe"
MOST_WORDS = 2000
"""Most words of a condition, which a person writes."""
DEEPEST = 50


class Grammar:
    """Parses the words in one pass; every method moves on or raises ConditionError."""

    def __init__(self, words: TokenReader, scope: Scope) -> None:
        self._words = words
        self._atoms = Atoms(words, scope, self.condition)
        self._depth = 0
        if len(words.tokens) > MOST_WORDS:
            raise words.error(words.tokens[MOST_WORDS], f"a condition has at most {MOST_WORDS} words")

    def takes_log(self) -> bool:
        """Parse `log`; return whether the condition only logs."""
        return bool(self._words.follows("log"))

    def shown(self) -> tuple[Expression, ...]:
        """Parse `show X, Y` if it follows."""
        found: list[Expression] = []
        if self._words.follows("show"):
            more = True
            while more:
                following = self._words.peek()
                more = following is not None and len(following.text) > 1 and following.text.endswith(",")
                if more and following is not None:
                    self._words.split(len(following.text) - 1)
                found.append(self.any_value())
                more = bool(self._words.follows(","))
        return tuple(found)

    def end(self) -> None:
        """Raise ConditionError if anything follows."""
        rest = self._words.peek()
        if rest is not None:
            hint = self._words.hint(rest.text, ("and", "or", "for", "within", "log"))
            near = hint if "did you mean" in hint else ""
            raise self._words.error(rest, f"expected `and`, `or`, or the end of the condition{near}")

    def condition(self) -> Expression:
        """Parse a truth."""
        return self._truth(self._either())

    def any_value(self) -> Expression:
        """Parse a truth or a number."""
        return self._either()

    # ---- truths

    def _either(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            place = self._words.tokens[min(self._words.next, len(self._words.tokens) - 1)]
            raise self._words.error(place, f"more than {DEEPEST} brackets in each other")
        start, left = self._place(), self._both()
        while self._words.follows("or"):
            left = self._at(start, Either(self._truth(left), self._truth(self._both())))
        self._depth -= 1
        return left

    def _both(self) -> Expression:
        start, left = self._place(), self._timed()
        while self._words.follows("and"):
            left = self._at(start, Both(self._truth(left), self._truth(self._timed())))
        return left

    def _timed(self) -> Expression:
        start, left = self._place(), self._maybe_not()
        while word := self._words.follows("for", "within"):
            cycles = self._cycles()
            self._words.follows("cycles", "cycle")
            if word == "for":
                left = Lasting(cycles, self._atoms.key(), self._truth(left))
            else:
                if not self._words.follows("after"):
                    raise self._words.error(self._words.take("`after`"), "expected `after`")
                left = Within(cycles, self._atoms.key(), self._truth(left), self._truth(self._maybe_not()))
            left = self._at(start, left)
        return left

    def _cycles(self) -> int:
        cycles = self._words.take_integer("a number of cycles")
        if not cycles:
            raise self._words.error(self._words.tokens[self._words.next - 1], "expected 1 cycle or more")
        return cycles

    def _maybe_not(self) -> Expression:
        start, inverted = self._place(), False
        while self._words.follows("not"):
            inverted = not inverted
        child = self._relation()
        if not inverted:
            return child
        opposite = negated(self._truth(child))
        opposite.span = start, child.span[1]
        return opposite

    def _relation(self) -> Expression:
        start = self._place()
        if self._atoms.is_line():
            return self._at(start, self._atoms.line())
        how = self._words.follows(*CHANGES)
        left = self._sum(FIRST if how else "")
        how = how or ("" if left.is_truth else self._words.follows(*CHANGES))
        if how:
            return self._at(start, Changed(how, self._atoms.key(), left))
        following = self._words.peek()
        if following is None and not left.is_truth:
            self._words.offered.extend((*COMPARISONS, *OPERATORS))
        if following is None or following.text not in COMPARISONS:
            return left
        if left.is_truth:
            raise self._words.error(following, "only numbers can be compared")
        comparison = self._words.take_comparison()
        kind = "a cycle" if isinstance(left, Cycle) else "a number"
        right = self._sum("a number of entries" if isinstance(left, QueueLevel) else kind)
        if right.is_truth:
            raise ConditionError(self._words.text, right.span, "only numbers can be compared")
        if isinstance(left, Number) and not isinstance(right, Number):
            mirrored = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
            left, right, comparison = right, left, mirrored.get(comparison, comparison)
        return self._at(start, Compare(comparison, left, right))

    # ---- numbers

    def _sum(self, expected: str) -> Expression:
        start, left = self._place(), self._product(expected)
        while operator := self._operator("+-"):
            left = self._combined(start, operator, left, self._product("a number"))
        return left

    def _product(self, expected: str) -> Expression:
        start, left = self._place(), self._factor(expected)
        while operator := self._operator("*/%"):
            left = self._combined(start, operator, left, self._factor("a number"))
        return left

    def _operator(self, operators: str) -> str:
        following = self._words.peek()
        if following is None or following.text[0] not in operators:
            return ""
        if len(following.text) > 1:
            self._words.split(1)
        self._words.next += 1
        return following.text[0]

    def _combined(self, start: int, operator: str, left: Expression, right: Expression) -> Expression:
        for side in (left, right):
            if side.is_truth:
                raise ConditionError(
                    self._words.text, side.span, "only numbers can be added, multiplied, ..."
                )
        if operator in "/%" and isinstance(right, Number) and right.number == 0:
            raise ConditionError(self._words.text, right.span, "division by zero")
        whole = Arithmetic(operator, left, right, self._words.text)
        self._at(start, whole)
        if isinstance(left, Number) and isinstance(right, Number):
            try:
                return self._at(start, Number(whole.constant()))
            except OverflowError:
                raise ConditionError(self._words.text, whole.span, "too large a number") from None
        return whole

    def _factor(self, expected: str) -> Expression:
        self._atoms.split_before_operator()
        start = self._place()
        names = (
            ("not", *CHANGES, *REDUCTIONS, "count", *self._atoms.names) if not expected else self._atoms.names
        )
        token = self._words.take(expected or FIRST, names)
        word = token.text.lower()
        if token.text == "(":
            inside = self._either()
            self._close()
            return inside
        following = self._words.peek()
        if following is not None and following.text == "(" and word in (*REDUCTIONS, "count"):
            self._words.next += 1
            if word == "count":
                inside = Count(self._atoms.key(), self.condition())
            else:
                inside = self._atoms.tensor(word)
            self._close()
            return self._at(start, inside)
        if (word in REDUCTIONS or word == "count") and not self._atoms.is_known(token.name):
            raise self._words.error(
                token, f"expected brackets, such as `{word}({'op conv1' if word == 'count' else 'conv1'})`"
            )
        if token.text == "-":
            return self._combined(start, "-", self._at(start, Number(0)), self._factor("a number"))
        number = None if token.text.startswith('"') else number_in(token.text)
        if number is not None:
            return self._at(start, Number(number))
        return self._at(start, self._atoms.atom(token, expected))

    # ---- inside

    def _close(self) -> None:
        if not self._words.follows(")"):
            raise self._words.error(self._words.take("`)`"), "expected `)`")

    def _place(self) -> int:
        following = self._words.peek()
        return len(self._words.text) if following is None else following.start

    def _at(self, start: int, expression: Expression) -> Expression:
        last = self._words.tokens[self._words.next - 1]
        if expression.span == (0, 0):
            expression.span = min(start, last.start), last.span[1]
        return expression

    def _truth(self, expression: Expression) -> Expression:
        if not expression.is_truth:
            following = self._words.peek()
            if following is None:
                end = len(self._words.text)
                raise ConditionError(self._words.text, (end, end), "expected a comparison: >= > <= < == !=")
            raise self._words.error(following, "expected a comparison: >= > <= < == !=")
        return expression


def negated(expression: Expression) -> Expression:
    """Return the opposite of a truth."""
    if isinstance(expression, Not):
        return expression.children[0]
    if isinstance(expression, Compare) and all(
        isinstance(c, Cycle | Number | QueueLevel) for c in expression.children
    ):
        opposite: Expression = Compare(OPPOSITE[expression.comparison], *expression.children)
    else:
        opposite = Not(expression)
    opposite.span = expression.span
    return opposite
