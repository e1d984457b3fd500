"""Functions of a kernel's text as places to stop at: where each of their calls begins."""

import ast
from collections.abc import Sequence
from functools import cache

import numpy as np

from npuviz.program.source import CallSite, Entry, Place, SourceFile


def called_functions(
    moments: Sequence[Sequence[CallSite]], moment_of: np.ndarray, sources: Sequence[SourceFile]
) -> tuple[Entry, ...]:
    """Return an entry for each function that the kernel ran, with the first instruction of each call.

    moments    calls under way, innermost first, in the order in which the kernel's Python ran
    moment_of  (n,) index into `moments` of each instruction, -1 for none

    Of a call, the instruction whose line ran first counts, whatever engine executes it. Calls from one line
    in the same iteration of its loops are one. Entries are sorted by name; functions of one name in several
    files are "file.py:name".
    """
    used, first_of = np.unique(moment_of, return_index=True)
    calls: dict[tuple[int, str], dict[tuple[CallSite, ...], int]] = {}
    lines: dict[tuple[int, str], int] = {}
    for moment, instruction in zip(used.tolist(), first_of.tolist(), strict=True):
        under_way = tuple(moments[moment]) if 0 <= moment < len(moments) else ()
        for depth, call in enumerate(under_way):
            function = call.place.file, call.function
            calls.setdefault(function, {}).setdefault(under_way[depth + 1 :], instruction)
            lines.setdefault(function, call.place.line)
    names = [name for _, name in calls]
    found: list[Entry] = []
    for (file, name), firsts in calls.items():
        place = Place(file, _line_of_definition(sources[file].text, name, lines[file, name]))
        shown = name if names.count(name) == 1 else f"{sources[file].name}:{name}"
        found.append(Entry(shown, "function", tuple(sorted(set(firsts.values()))), place))
    return tuple(sorted(found, key=lambda entry: entry.name))


def calls_of_lines(
    moments: Sequence[Sequence[CallSite]], moment_of: np.ndarray
) -> dict[tuple[int, int], list[int]]:
    """Return the first instruction of each call that a line made, rising, by file and line.

    What counts as first and as one call is as in `called_functions`.
    """
    used, first_of = np.unique(moment_of, return_index=True)
    calls: dict[tuple[int, int], dict[tuple[CallSite, ...], int]] = {}
    for moment, instruction in zip(used.tolist(), first_of.tolist(), strict=True):
        under_way = tuple(moments[moment]) if 0 <= moment < len(moments) else ()
        for depth, call in enumerate(under_way[1:], 1):
            line = call.place.file, call.place.line
            calls.setdefault(line, {}).setdefault(under_way[depth:], instruction)
    return {line: sorted(set(firsts.values())) for line, firsts in calls.items()}


def _line_of_definition(text: str, name: str, line: int) -> int:
    """Return the line of the `def` of the innermost function of this name around a line, else the line."""
    around = [first for first, last, known in _definitions(text) if known == name and first <= line <= last]
    return max(around, default=line)


@cache
def _definitions(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return (first line, last line, name) of each function of a text, () for a text that is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return tuple((node.lineno, node.end_lineno or node.lineno, node.name) for node in nodes)
