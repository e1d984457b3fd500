"""Split conditions into words, which are taken one by one;
each mistake is reported with its place in the text."""

import difflib
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from npuviz.base.errors import ConditionError
from npuviz.base.names import named
from npuviz.sim.stop import CMP_EQ, CMP_GE, CMP_GT, CMP_LE, CMP_LT, CMP_NE

COMPARISONS: dict[str, tuple[int, Callable[[Any, Any], bool]]] = {
    ">=": (CMP_GE, operator.ge),
    ">": (CMP_GT, operator.gt),
    "<=": (CMP_LE, operator.le),
    "<": (CMP_LT, operator.lt),
    "==": (CMP_EQ, operator.eq),
    "=": (CMP_EQ, operator.eq),
    "!=": (CMP_NE, operator.ne),
}
LARGEST_CYCLE = 1 << 62

OPERATORS = "+-*/%"
FUNCTIONS = ("max", "min", "absmax", "mean", "sum", "count")
_TOKEN = re.compile(r'"[^"]*"?|>=|<=|==|!=|[<>=]|[^\s"<>=!]+|!')
_CALL = re.compile(
    rf"({'|'.join((*FUNCTIONS, 'not', 'and', 'or', 'changed', 'rises', 'falls'))})(?=\()", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word and the position where it begins."""

    text: str
    start: int

    @property
    def span(self) -> tuple[int, int]:
        """Begin and end of the word in the text."""
        return self.start, self.start + len(self.text)

    @property
    def name(self) -> str:
        """The word without its quotes."""
        return self.text.strip('"')


class TokenReader:
    """Reads the words of a text in one pass; every `take...` moves on or raises ConditionError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [part for m in _TOKEN.finditer(text) for part in _parts(Token(m.group(), m.start()))]
        self.next = 0
        self.offered: list[str] = []
        self._left_out: list[tuple[int, str]] = []

    def peek(self) -> Token | None:
        """Return the next word without moving on, or None at the end."""
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def follows(self, *words: str) -> str:
        """If the next word is one of these, move on and return it in lower case; else return ""."""
        token = self.peek()
        if token is None:
            self.offered.extend(words)
            return ""
        word = token.text.lower()
        if word not in words:
            return ""
        self.next += 1
        return word

    def split(self, length: int) -> None:
        """Split the next word into two, the first of them `length` long."""
        token = self.tokens[self.next]
        rest = Token(token.text[length:], token.start + length)
        self.tokens[self.next : self.next + 1] = [Token(token.text[:length], token.start), *_parts(rest)]

    def put_before_taken(self, word: str) -> None:
        """Take the word taken last again, behind a word that was left out before it."""
        self.next -= 1
        self._left_out.append((self.tokens[self.next].start, word))

    @property
    def full_text(self) -> str:
        """The text with the words that were left out."""
        text = self.text
        for start, word in sorted(self._left_out, reverse=True):
            text = f"{text[:start]}{word} {text[start:]}"
        return text

    def take(self, expected: str, names: Iterable[str] = ()) -> Token:
        """Take the next word. names  words that may stand there,
        offered for completion at the end of a text"""
        token = self.peek()
        if token is None:
            self.offered.extend(names)
            end = len(self.text)
            raise ConditionError(self.text, (end, end), f"expected {expected}")
        self.next += 1
        if token.text.startswith('"') and (len(token.text) < 2 or not token.text.endswith('"')):
            raise self.error(token, "the quote is not closed")
        return token

    def take_comparison(self) -> str:
        """Take one of >= > <= < == !=."""
        token = self.take("a comparison: >= > <= < == !=", (">=", ">", "<=", "<", "==", "!="))
        if token.text not in COMPARISONS:
            raise self.error(token, "expected a comparison: >= > <= < == !=")
        return token.text

    def take_integer(self, expected: str) -> int:
        """Take an integer from 0, decimal or 0x...."""
        token = self.take(expected)
        return self.integer(token, token.text, expected)

    def take_number(self) -> float:
        """Take any number."""
        token = self.take("a number")
        try:
            return (
                int(token.text, 0) if not re.search(r"[.]|\d[eE]|inf|nan", token.text) else float(token.text)
            )
        except ValueError:
            raise self.error(token, "expected a number") from None

    def take_range(self, expected: str, limit: int) -> tuple[int, int]:
        """Take `a..b`, with or without spaces, or `a`; within 0..limit. Returns (low, end excluded)."""
        start = self.next
        text = self.take(expected).text
        following = self.peek()
        if not text.endswith("..") and following is not None and following.text.startswith(".."):
            text += following.text
            self.next += 1
        if text.endswith(".."):
            text += self.take("the end of the range").text
        first, last = self.tokens[start], self.tokens[self.next - 1]
        whole = Token(self.text[first.start : last.span[1]], first.start)
        low_text, dots, high_text = text.partition("..")
        low = self.integer(whole, low_text, expected)
        high = self.integer(whole, high_text, expected) if dots else low + 1
        if high <= low:
            raise self.error(whole, f"an empty range: the end {high} is excluded")
        if high > limit:
            raise self.error(whole, f"outside 0..{limit}")
        return low, high

    def integer(self, token: Token, text: str, expected: str) -> int:
        """Return the integer value of a text that is (a part of) a word."""
        try:
            value = int(text, 0)
        except ValueError:
            raise self.error(token, f"expected {expected}") from None
        if not 0 <= value <= LARGEST_CYCLE:
            raise self.error(token, f"expected {expected} from 0 to 2^62")
        return value

    def lookup(self, token: Token, known: dict[str, Any], what: str) -> Any:
        """Return what a name stands for."""
        name = token.text.strip('"')
        found = named(name, known)
        if found is None:
            raise self.error(token, f"no {what} of this name" + self.hint(name, known))
        return known[found]

    def hint(self, name: str, known: Iterable[str]) -> str:
        """Return a hint at names that may have been meant, for the end of an error."""
        names = list(known)
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        if close:
            return f"; did you mean {', '.join(close)}?"
        shown = ", ".join(names[:6])
        return f"; known: {shown}{', ...' if len(names) > 6 else ''}" if names else "; this machine has none"

    def error(self, token: Token, reason: str) -> ConditionError:
        """Return an error about a word."""
        return ConditionError(self.text, token.span, reason)


def _parts(token: Token) -> list[Token]:
    """Split off the brackets around and in front of a word, which are words of their own.

    Brackets that belong to a name, as in `PE(2,0).in2`, stay.
    """
    found: list[Token] = []
    text, start = token.text, token.start
    while text:
        length = _length_of_part(text)
        found.append(Token(text[:length], start))
        text, start = text[length:], start + length
    return found


def _length_of_part(text: str) -> int:
    """Return the length of the first word of a text without spaces."""
    if text.startswith('"'):
        return len(text)
    if text[0] in "()":
        return 1
    if called := _CALL.match(text):
        return called.end()
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return index
    return len(text)


def quoted(name: str) -> str:
    """Return a name as a condition writes it: in quotes if it is not one plain word."""
    return (
        f'"{name}"'
        if not name or _parts(Token(name, 0)) != [Token(name, 0)] or re.search(r"[\s<>=!]", name)
        else name
    )
