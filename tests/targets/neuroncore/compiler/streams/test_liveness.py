"""Work whose results nobody reads is found, and nothing else."""

import pytest

from npuviz.targets.neuroncore.compiler.patterns.tile import Box, Region
from npuviz.targets.neuroncore.compiler.streams.liveness import Work, is_dense, unread

WHOLE, LEFT, RIGHT, TOP = (0, 4, 0, 8), (0, 4, 0, 4), (0, 4, 4, 8), (0, 1, 0, 8)


def found(*steps: tuple[str, str, Box], whole: bool = True, needed: tuple[int, ...] = ()) -> set[int]:
    """Calls in vain of works (regions read, region written, box of all), of which "o" is an output."""
    regions: dict[str, Region] = {}

    def accesses(names: str, box: Box) -> list[tuple[Region, Box]]:
        return [(regions.setdefault(name, Region()), box) for name in names]

    works = [
        Work(number, accesses(reads, box), accesses(writes, box), whole, number in needed)
        for number, (reads, writes, box) in enumerate(steps)
    ]
    return set(unread([None, *works], {id(regions["o"])}))


def test_what_is_read_or_kept_is_needed() -> None:
    assert found(("", "a", WHOLE), ("a", "o", WHOLE)) == set()


def test_a_chain_that_ends_nowhere_is_in_vain() -> None:
    assert found(("", "a", WHOLE), ("a", "b", WHOLE), ("b", "c", LEFT), ("", "o", WHOLE)) == {0, 1, 2}


def test_what_others_together_overwrite_is_in_vain() -> None:
    assert found(("", "a", WHOLE), ("", "a", LEFT), ("", "a", RIGHT), ("a", "o", WHOLE)) == {0}


@pytest.mark.parametrize("part", [LEFT, RIGHT, TOP, (1, 3, 2, 6)])
def test_what_is_overwritten_in_part_is_needed(part: Box) -> None:
    assert found(("", "a", WHOLE), ("", "a", part), ("a", "o", WHOLE)) == set()


def test_what_leaves_bytes_as_they_were_needs_them() -> None:
    assert found(("", "a", WHOLE), ("", "a", WHOLE), ("a", "o", WHOLE), whole=False) == set()


def test_what_reads_its_own_target_needs_it() -> None:
    assert found(("", "a", WHOLE), ("a", "a", WHOLE), ("a", "o", WHOLE)) == set()


def test_what_people_look_at_is_needed_with_all_before_it() -> None:
    assert found(("", "a", WHOLE), ("a", "b", WHOLE), ("", "o", WHOLE), needed=(1,)) == set()


def test_work_that_writes_nothing_stays() -> None:
    assert found(("", "a", WHOLE), ("a", "", WHOLE), ("", "o", WHOLE)) == set()


def test_a_box_is_full_or_has_gaps() -> None:
    assert is_dense(WHOLE, 32)
    assert not is_dense(WHOLE, 16)
