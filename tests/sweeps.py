"""What `make check` runs of a long list of cases, and what is left to longer runs.

    (no mark)   always: `make check`
    sweep       repeats at length what a quicker test checks: `make sweeps`, and CI after the check
    slow        takes minutes, or thousands of seeds: only `make check-all`

A rule never leaves `make check` as a whole: what is marked has a quicker sibling, another case of the same
test (`quick` chooses) or a test named beside it.
"""

import fnmatch
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

IS_AT_LENGTH = os.environ.get("NPUVIZ_SWEEPS") == "1"
"""Whether this run draws as many random examples as a sweep: `make sweeps`, `check-all` and `fuzz` do."""


def seeds(always: int, in_sweeps: int, in_all: int) -> list[Any]:
    """Seeds 0, 1, ...: the first ones run always, then come those of a sweep, and at last the slow ones."""
    return [pytest.param(seed, marks=_marks(seed, always, in_sweeps)) for seed in range(in_all)]


def _marks(seed: int, always: int, in_sweeps: int) -> tuple[Any, ...]:
    if seed < always:
        return ()
    return (pytest.mark.sweep if seed < in_sweeps else pytest.mark.slow,)


def quick(*names: str, first: int = 0, every: int = 0, but: Sequence[str] = ()) -> Any:
    """Decorate a test of many cases: these run always, the others become a sweep.

    names  of cases, as in brackets behind the test's name, with * for anything
    first  so many cases of the list
    every  each so manieth case, from the first on
    but    all cases except those of these names
    """
    return pytest.mark.quick(*names, first=first, every=every, but=tuple(but))


def examples(always: int, in_sweeps: int, **others: Any) -> Callable[[Any], Any]:
    """Decorate a property test: `make check` draws `always` examples, and a sweep runs it again at length."""
    count = in_sweeps if IS_AT_LENGTH else always
    setting = settings(max_examples=count, deadline=None, **others)

    def decorated(test: Any) -> Any:
        found = setting(test)
        return pytest.mark.sweep(found) if IS_AT_LENGTH else found

    return decorated


def mark_sweeps(items: Iterable[Any]) -> None:
    """Give the cases that `quick` does not choose the mark `sweep`; a choice that finds none is an error."""
    seen: Counter[str] = Counter()
    chosen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("quick")
        if mark is None:
            continue
        test, _, case = item.nodeid.partition("[")
        is_quick = _is_quick(mark, seen[test], case.removesuffix("]"))
        seen[test] += 1
        chosen[test] += is_quick
        if not is_quick:
            item.add_marker(pytest.mark.sweep)
    for test in seen:
        if not chosen[test]:
            raise pytest.UsageError(f"{test}: quick chooses none of its {seen[test]} cases")


def _is_quick(mark: Any, number: int, case: str) -> bool:
    first, every, but = (mark.kwargs[name] for name in ("first", "every", "but"))
    if but:
        return not _is_one_of(case, but)
    return number < first or (every > 0 and number % every == 0) or _is_one_of(case, mark.args)


def _is_one_of(case: str, names: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(case, name.replace("[", "[[]")) for name in names)
