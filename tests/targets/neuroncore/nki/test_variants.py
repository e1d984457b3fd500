"""How variants of an operator are compared with published times."""

from benchmarks.nki_variants import Variant, clear_pairs, summary


def test_pairs_that_are_clearly_apart_are_counted_by_their_order_here() -> None:
    found = [Variant("a", 1.0, 5.0), Variant("b", 1.04, 4.0), Variant("c", 2.0, 6.0), Variant("d", 3.0, 1.0)]
    # a and b are near; of a-c, a-d, b-c, b-d and c-d two are in order here
    assert clear_pairs(found) == (6, 1, 5, 2)
    assert "6 pairs, 1 within 5 %; 5 more than 10 % apart, 2 of them in order here" in summary(
        [Variant("x", 4, 4), *found]
    )
