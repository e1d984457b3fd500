"""What `make check` leaves to longer runs: never a whole test of many cases."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.sweeps import IS_AT_LENGTH, examples, mark_sweeps, quick, seeds


class Item:
    """As much of a case as `mark_sweeps` asks for."""

    def __init__(self, test: str, case: str, decorator: Any) -> None:
        self.nodeid = f"{test}[{case}]"
        self.quick = decorator.mark if decorator else None
        self.marks: list[str] = []

    def get_closest_marker(self, name: str) -> Any:
        return self.quick if name == "quick" else None

    def add_marker(self, marker: Any) -> None:
        self.marks.append(marker.name)


def left(decorator: Any, *cases: str) -> list[str]:
    items = [Item("a.py::test", case, decorator) for case in cases]
    mark_sweeps(items)
    return [case for case, item in zip(cases, items, strict=True) if item.marks == ["sweep"]]


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        (None, []),
        (quick("b"), ["a", "c*d", "c[1]"]),
        (quick("c*"), ["a", "b"]),
        (quick("c[1]"), ["a", "b", "c*d"]),
        (quick(first=1), ["b", "c*d", "c[1]"]),
        (quick(every=2), ["b", "c[1]"]),
        (quick("c[1]", first=1), ["b", "c*d"]),
        (quick(but=["a", "b"]), ["a", "b"]),
    ],
)
def test_what_quick_does_not_choose_is_a_sweep(decorator: Any, expected: list[str]) -> None:
    assert left(decorator, "a", "b", "c*d", "c[1]") == expected


def test_a_rule_never_leaves_the_check_as_a_whole() -> None:
    with pytest.raises(pytest.UsageError, match=r"test: quick chooses none of its 2 cases"):
        left(quick("z"), "a", "b")


def test_seeds_come_in_three_kinds() -> None:
    marks = [[mark.name for mark in each.marks] for each in seeds(1, 3, 4)]
    assert marks == [[], ["sweep"], ["sweep"], ["slow"]]


@pytest.mark.skipif(IS_AT_LENGTH, reason="is at length")
def test_a_sweep_draws_more_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted() -> SimpleNamespace:
        def test() -> None: ...

        return examples(5, 50)(test)

    def drawn(test: Any) -> int:
        return test._hypothesis_internal_use_settings.max_examples

    assert drawn(counted()) == 5
    monkeypatch.setattr("tests.sweeps.IS_AT_LENGTH", True)
    assert drawn(counted()) == 50
    assert [mark.name for mark in counted().pytestmark] == ["sweep"]
