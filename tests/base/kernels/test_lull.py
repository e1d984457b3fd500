"""A lull: helpers are asked when it is over."""

import pytest

from npuviz.base.kernels import lull
from npuviz.base.kernels.helper import Helper


def test_requests_wait_for_its_end_and_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    own = lull.Lull()
    assert not own.keeps("machine", "a", lambda: made.append("a"))
    own.begin()
    monkeypatch.setattr(lull.time, "monotonic", lambda: 10.0)
    for name in ("a", "b", "a"):
        assert own.keeps("machine", name, lambda name=name: made.append(name))
    assert made == []
    assert (own.has("machine"), own.has("window")) == (True, False)
    own.end()
    assert made == ["a", "b"]
    assert not own.has("machine")
    assert not own.keeps("machine", "a", lambda: made.append("a"))


def test_it_does_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    own = lull.Lull()
    own.begin()
    clock = [100.0]
    monkeypatch.setattr(lull.time, "monotonic", lambda: clock[0])
    assert own.keeps("machine", "a", lambda: made.append("a"))
    clock[0] += lull.MOST_SECONDS
    assert not own.keeps("machine", "b", lambda: made.append("b"))
    assert made == ["a"]


def test_no_helper_starts_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    monkeypatch.setattr("npuviz.base.kernels.helper._start", lambda: starts.append(1))
    helper = Helper("nobody")
    lull.LULL.begin()
    assert helper.ask("module", "kernel", ())
    assert helper.is_at_work
    assert starts == []
    lull.LULL.end()
    assert starts == [1]
    assert not helper.is_at_work
