"""Bytes of strided accesses as runs: whether two accesses meet."""

import random

import numpy as np

from npuviz.targets.neuroncore.machine.program_accesses import Runs

Pattern = tuple[int, list[tuple[int, int]]]


def bytes_of(base: int, pairs: list[tuple[int, int]]) -> set[int]:
    found = np.array([base])
    for size, step in pairs:
        found = (found[:, None] + np.arange(size) * step).reshape(-1)
    return set(found.tolist())


def test_they_meet_where_their_bytes_do() -> None:
    draw = random.Random(1)

    def pattern() -> Pattern:
        steps = [1, 1, 0, 2, 3, 4, 8, -2, 16, 50]
        sizes = [0 if draw.random() < 0.02 else draw.randrange(1, 5) for _ in range(draw.randrange(1, 4))]
        return draw.randrange(200), [(size, draw.choice(steps)) for size in sizes]

    met = 0
    for _ in range(4000):
        one, other = pattern(), pattern()
        meets = bool(bytes_of(*one) & bytes_of(*other))
        assert Runs(*one).meet(Runs(*other)) == meets, (one, other)
        met += meets
    assert met > 200


def test_rows_of_all_partitions_are_a_run_each() -> None:
    """Not a number for each of 16 million bytes, of which thousands of pairs may have to be compared."""
    row = [(4, 1), (32768, 4), (128, 262144)]
    even, odd = Runs(0, row), Runs(131072, row)
    assert (len(even.starts), even.length) == (128, 131072)
    assert not even.meet(odd)
    assert even.meet(Runs(131068, row))
