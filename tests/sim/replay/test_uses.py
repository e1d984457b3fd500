"""Uses of random runs, compared with a memory that remembers who wrote each of its bytes."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from npuviz.sim.access_order import ADDING, DENSE, READS, SPARSE, WRITES, AccessTable
from npuviz.sim.replay.uses import CONSUMER, NOBODY, PRODUCER, uses_of

BANKS, BYTES = 3, 12
Row = tuple[int, int, int, int, int, int]
"""Is write, first bank, banks, low, high, kind."""

rows = st.builds(
    lambda write, bank, banks, low, size, kind: (
        int(write), bank, min(banks, BANKS - bank), low, min(low + size, BYTES), kind
    ),
    st.booleans(), st.integers(0, BANKS - 1), st.integers(1, BANKS), st.integers(0, BYTES - 2),
    st.integers(1, BYTES), st.sampled_from((DENSE, DENSE, SPARSE, ADDING)),
)  # fmt: skip
entries = st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=5)


class _Bytes:
    """What entries really touch: of rows with gaps every second byte."""

    def __init__(self, made: list[list[Row]]) -> None:
        self.made = made

    def of(self, entry: int, is_write: bool) -> set[int]:
        found: set[int] = set()
        for write, bank, banks, low, high, kind in self.made[entry]:
            step = 2 if kind == SPARSE else 1
            if write == is_write:
                found |= {b * BYTES + i for b in range(bank, bank + banks) for i in range(low, high, step)}
        return found

    def shares(self, first: int, second: int) -> bool:
        return bool(self.of(first, True) & self.of(second, False))

    def touches(self, entry: int, memory: int, address: int, *, is_write: bool) -> bool:
        return memory == 0 and address in self.of(entry, is_write)


def _table(made: list[list[Row]]) -> AccessTable:
    flat = [row for entry in made for row in entry]
    kinds = np.array([DENSE if not row[0] and row[5] == ADDING else row[5] for row in flat], np.int64)
    numbers = {row: i for i, row in enumerate(dict.fromkeys(flat))}
    return AccessTable(
        np.cumsum([0, *(len(entry) for entry in made)]),
        np.array([(0, row[0], *row[1:5], BYTES) for row in flat], np.int64).reshape(-1, 7),
        np.arange(len(made)),
        kinds=kinds,
        patterns=np.array([numbers[row] for row in flat], np.int64),
        exact=_Bytes(made),
    )


def _expected(made: list[list[Row]], order: list[int]) -> list[set[int]]:
    """By place: whose bytes it reads; a write that adds leaves who wrote before."""
    held: list[set[int]] = [{NOBODY} for _ in range(BANKS * BYTES)]
    found: list[set[int]] = []
    exact = _Bytes(made)
    for at, entry in enumerate(order):
        found.append({who for byte in exact.of(entry, False) for who in held[byte]})
        for write, bank, banks, low, high, kind in made[entry]:
            for b in range(bank, bank + banks) if write else ():
                for i in range(low, high, 2 if kind == SPARSE else 1):
                    before = held[b * BYTES + i] if kind == ADDING else set[int]()
                    held[b * BYTES + i] = before | {at}
    return found


@given(entries, st.lists(st.integers(0, 4), max_size=40))
@example([[(1, 0, 1, 0, 4, SPARSE)], [(1, 0, 1, 1, 3, SPARSE)], [(0, 0, 1, 0, 4, DENSE)]], [0, 1, 2])
@example([[(1, 0, 1, 0, 4, ADDING)], [(0, 0, 1, 0, 4, DENSE)]], [0] * 39 + [1])
def test_no_producer_is_missed_and_none_is_named_that_shares_no_byte(
    made: list[list[Row]], turns: list[int]
) -> None:
    order = [turn % len(made) for turn in turns]
    uses = uses_of(_table(made), _order_of(order), {})
    is_exact = all(row[5] == DENSE for entry in made for row in entry)
    for at, wanted in enumerate(_expected(made, order)):
        found = set(uses.sources(at)[:, PRODUCER].tolist())
        assert wanted - {NOBODY} <= found
        assert all(_Bytes(made).shares(order[who], order[at]) for who in found - {NOBODY})
        if NOBODY in wanted:
            assert NOBODY in found
        if is_exact:
            assert found == wanted
    pairs = {(p, c) for at in range(len(order)) for p, c in uses.sources(at)[:, :2].tolist() if p >= 0}
    assert pairs == {(at, c) for at in range(len(order)) for c in uses.users(at)[:, CONSUMER].tolist()}


def _order_of(order: list[int]) -> np.ndarray:
    made = [(entry, READS | WRITES, at) for at, entry in enumerate(order)]
    return np.array(made, np.int64).reshape(-1, 3)


@given(entries, st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, BANKS * BYTES - 1))
def test_ends_are_reached_through_others(made: list[list[Row]], turns: list[int], byte: int) -> None:
    order = [turn % len(made) for turn in turns]
    bank, low = divmod(byte, BYTES)
    ends = {"end": np.array([(0, 0, bank, 1, low, low + 1, BYTES)], np.int64)}
    uses = uses_of(_table(made), _order_of(order), ends)
    expected = _expected([*made, [(0, bank, 1, low, low + 1, DENSE)]], [*order, len(made)])
    reached = {len(order)}
    for at in range(len(order), -1, -1):
        if at in reached:
            reached |= expected[at]
    for at in range(len(order)):
        surely, may = uses.ends_reached(at)
        assert (at in reached) <= bool(surely or may)  # never denied
        if all(row[5] == DENSE for entry in made for row in entry):
            assert (surely, may) == (("end",) if at in reached else (), ())


def test_a_byte_between_gaps_is_not_accessed() -> None:
    uses = uses_of(_table([[(1, 1, 1, 2, 8, SPARSE)]]), _order_of([0, 0]), {})
    assert list(uses.accesses(0, BYTES + 4, BYTES)) == [(0, WRITES), (1, WRITES)]
    assert list(uses.accesses(0, BYTES + 5, BYTES)) == []


def test_links_stand_for_what_no_row_tells() -> None:
    table = AccessTable(
        np.array([0, 1, 1, 2]), np.array([(0, 0, 0, 1, 0, 4, 0), (0, 1, 0, 1, 4, 8, 0)], np.int64),
        np.arange(3),
        links=np.array([(0, 1), (1, 2)]),
    )  # fmt: skip
    order = np.array([(0, READS, 1), (1, 0, 2), (2, WRITES, 3)], np.int64)
    uses = uses_of(table, order, {"out": np.array([(0, 0, 0, 1, 4, 8, 0)], np.int64)})
    assert uses.ends_reached(0) == (("out",), ())
    assert uses_of(table, order[:1], {}).users(0).tolist() == []  # who has not come uses nothing
