from npuviz.workbench.finding.fuzzy import best, score


def test_letters_must_come_in_order() -> None:
    assert score("sb", "Step Back") is not None
    assert score("bs", "Step Back") is None
    assert score("", "anything") == 0


def test_contiguous_beats_scattered_and_starts_beat_middles() -> None:
    contiguous, scattered = score("core", "Core[0].LD"), score("core", "conv of a large encoder")
    assert contiguous is not None
    assert scattered is not None
    assert contiguous > scattered
    at_start, inside = score("ld", "LD of core"), score("ld", "child")
    assert at_start is not None
    assert inside is not None
    assert at_start > inside


def test_best_keeps_the_order_of_equals_and_the_limit() -> None:
    names = ["b1", "b2", "a", "b3"]
    assert best("b", names, str, 2) == ["b1", "b2"]
    assert best("", names, str, 10) == names
    assert best("zz", names, str, 10) == []
