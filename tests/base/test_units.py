"""Numbers as people read them."""

import pytest

from npuviz.base.units import format_share


@pytest.mark.parametrize(
    ("part", "digits", "text"),
    [(0.065, 1, "6.5\u202f%"), (1, 0, "100\u202f%"), (0, 1, "0.0\u202f%"), (0.00123, 2, "0.12\u202f%")],
)
def test_a_share_is_percent_that_does_not_break(part: float, digits: int, text: str) -> None:
    assert format_share(part, digits) == text
