import pytest

from npuviz.base.errors import UsageError
from npuviz.workbench.finding.places import parse_cycle


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ("1200", 1200),
        ("1 204 511", 1_204_511),
        ("1,204,511", 1_204_511),
        ("1_000", 1000),
        ("1.5us", 1500),
        ("1.5 us", 1500),
        ("2ms", 2_000_000),
        ("40 %", 4000),
        ("150%", 10_000),
        ("end", 10_000),
        ("0", 0),
    ],
)
def test_cycles_times_and_shares(text: str, cycle: int) -> None:
    assert parse_cycle(text, 1e9, 10_000) == cycle


@pytest.mark.parametrize(
    "text", ["", "-1", "abc", "1.5", "9" * 30, "9" * 400 + "us", "10 parsecs", "%", "\u0663"]
)
def test_everything_else_says_what_was_expected(text: str) -> None:
    with pytest.raises(UsageError):
        parse_cycle(text, 1e9, 10_000)


def test_shares_need_a_known_end() -> None:
    with pytest.raises(UsageError):
        parse_cycle("40%", 1e9, None)
