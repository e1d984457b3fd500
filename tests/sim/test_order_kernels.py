"""The walk over a run's accesses: many bytes at once are found out as each byte by itself."""

import numpy as np
import pytest

from npuviz.sim.checks import order_kernels as ok
from npuviz.sim.checks.cells import cut

STEPS, THREADS, SEATS = 40, 3, 2
BANKS, BYTES = 6, 40
Found = tuple[set[tuple[int, ...]], list[bool], list[int]]


def accesses(random: np.random.Generator, steps: np.ndarray) -> np.ndarray:
    """Dense accesses of random boxes, one for each of these steps."""
    rows = np.zeros((len(steps), 8), np.int64)
    rows[:, ok.STEP], rows[:, ok.WRITE] = steps, random.integers(0, 2, len(steps))
    rows[:, ok.DENSE] = ok.DENSE_BYTES
    rows[:, ok.BANK] = random.integers(0, BANKS, len(steps))
    rows[:, ok.BANKS] = 1 + random.integers(0, BANKS - rows[:, ok.BANK])
    rows[:, ok.LOW] = random.integers(0, BYTES, len(steps))
    rows[:, ok.HIGH] = rows[:, ok.LOW] + 1 + random.integers(0, 20, len(steps))
    return rows


def byte_by_byte(rows: np.ndarray) -> np.ndarray:
    """The same accesses, each cut into those of one byte of one bank."""
    found: list[np.ndarray] = []
    for row in rows:
        for bank in range(row[ok.BANK], row[ok.BANK] + row[ok.BANKS]):
            for low in range(row[ok.LOW], row[ok.HIGH]):
                part = row.copy()
                part[[ok.BANK, ok.BANKS, ok.LOW, ok.HIGH]] = bank, 1, low, low + 1
                found.append(part)
    return np.array(found)


def walked(thread: np.ndarray, orders: np.ndarray, rows: np.ndarray, given: np.ndarray) -> Found:
    """What a walk finds, which steps were of use to somebody, and who overwrote each."""
    cells = cut(np.concatenate([rows, given]), 1)
    used, over = np.zeros(STEPS, np.bool_), np.full(STEPS, -1)
    threads = THREADS + SEATS
    found = np.zeros((4096, 4), np.int64)
    number = ok.walk(
        (
            thread.copy(),
            np.zeros(STEPS, np.int64),
            np.zeros((STEPS, threads), np.int64),
            np.zeros(threads, np.int64),
            np.full(threads, -1),
            SEATS,
        ),
        orders,
        (np.concatenate([rows, given]), cells.rows, len(rows), len(given), 0),
        (
            np.full(cells.first[-1], ok.BLANK, np.int32),
            used,
            (np.arange(STEPS) % 4, np.array([0, 1, 3, 4, 4]), np.array([3, 0, 2, 1])),
            over,
        ),
        (found, np.zeros(0, np.int64)),
    )
    return {tuple(row[:3]) for row in found[:number].tolist()}, used.tolist(), over.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_boxes_are_found_out_as_their_bytes(seed: int) -> None:
    random = np.random.default_rng(seed)
    thread = random.integers(-2, THREADS, STEPS)
    later = np.sort(random.integers(1, STEPS, 60))
    orders = np.stack([random.integers(0, later), later], axis=1)
    rows = accesses(random, np.sort(random.integers(0, STEPS, 2 * STEPS)))
    given = accesses(random, np.zeros(2, np.int64))
    together = walked(thread, orders, rows, given)
    assert together == walked(thread, orders, byte_by_byte(rows), given)
    assert {kind for kind, *_ in together[0]} >= {ok.EARLY_READ, ok.EARLY_OVERWRITE}
