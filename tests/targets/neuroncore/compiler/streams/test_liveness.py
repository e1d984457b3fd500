"""Work whose results nobody reads is found, and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.integers(0, 1 << 32))
def test_many_boxes_are_read_as_few_are(seed: int) -> None:
    """Of more than 64 boxes what is overwritten stays wanted; which bytes are read is exact all the same."""
    rng = np.random.default_rng(seed)
    region, out = Region(), Region()

    def box() -> Box:
        p0, b0 = (int(number) for number in rng.integers(0, (4, 500)))
        return p0, p0 + int(rng.integers(1, 3)), b0, b0 + int(rng.integers(1, 5))

    writes, reads = [box() for _ in range(60)], [box() for _ in range(150)]
    works = [Work(number, [], [(region, each)], True) for number, each in enumerate(writes)]
    works += [Work(60 + number, [(region, each)], [(out, WHOLE)], False) for number, each in enumerate(reads)]
    read = np.zeros((8, 600), bool)
    for p0, p1, b0, b1 in reads:
        read[p0:p1, b0:b1] = True
    in_vain = {n for n, (p0, p1, b0, b1) in enumerate(writes) if not read[p0:p1, b0:b1].any()}
    assert len(set(reads)) > 64
    assert set(unread(works, {id(out)})) == in_vain
