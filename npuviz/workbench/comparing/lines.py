"""Pairs the source lines of two programs, so that two versions of a kernel are compared line by line."""

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

from npuviz.program.source import HasSource, SourceFile

SIMILAR = 0.6
"""Least similarity of two lines of which one may have been made from the other, from 0 to 1."""

Lines = dict[str, str]
"""Name of a line ("kernel.py:12") -> its text, without the spaces around it."""


def paired_lines(a: object, b: object, names: tuple[Iterable[str], Iterable[str]]) -> dict[str, str]:
    """Return name of a line in B -> name of the line in A that it was, for listings of two programs.

    names  of the lines of A and of B that count
    Lines of the same text are paired in the order of the files, then those that were moved, then lines that
    are similar. Each is paired once. {} where a program has no text.
    """
    if not isinstance(a, HasSource) or not isinstance(b, HasSource):
        return {}
    mine, other = _texts(a.sources, names[0]), _texts(b.sources, names[1])
    found: dict[str, str] = {}
    one, another = [*mine], [*other]
    matcher = SequenceMatcher(None, [*mine.values()], [*other.values()], autojunk=False)
    for match in matcher.get_matching_blocks():
        found.update((another[match.b + step], one[match.a + step]) for step in range(match.size))
    left = _left(mine, found.values())
    for name, text in _left(other, found).items():
        same = next((each for each, known in left.items() if known == text), "")
        if same:
            found[name] = same
            del left[same]
    _pair_similar(left, _left(other, found), found)
    return found


def _texts(sources: Iterable[SourceFile], names: Iterable[str]) -> Lines:
    """Return the texts of the lines that count, in the order of the files."""
    wanted = set(names)
    return {
        name: line.strip()
        for source in sources
        for number, line in enumerate(source.text.splitlines(), start=1)
        if (name := f"{source.name}:{number}") in wanted
    }


def _left(lines: Lines, paired: Iterable[str]) -> Lines:
    gone = set(paired)
    return {name: text for name, text in lines.items() if name not in gone}


def _pair_similar(mine: Lines, other: Lines, found: dict[str, str]) -> None:
    likeness = sorted(
        ((SequenceMatcher(None, text, known, autojunk=False).ratio(), one, another)
         for one, text in mine.items() for another, known in other.items()),
        key=lambda each: -each[0],
    )  # fmt: skip
    taken: set[str] = set()
    for ratio, one, another in likeness:
        if ratio >= SIMILAR and one not in taken and another not in found:
            found[another] = one
            taken.add(one)


def renamed(values: Mapping[str, float], pairs: Mapping[str, str], names: Iterable[str]) -> dict[str, float]:
    """Return values of B's lines by the names that these lines have in A.

    names  of A's lines: one of B's that has such a name, but is another line, gets " (B)" behind it
    """
    known = set(names)

    def name_of(name: str) -> str:
        is_line = name.rpartition(":")[2].isdecimal()
        return pairs.get(name, f"{name} (B)" if is_line and name in known else name)

    return {name_of(name): value for name, value in values.items()}
