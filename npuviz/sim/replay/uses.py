"""Find uses: for each piece of work of a run, who made what it reads, and who reads what it makes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.sim.access_order import DENSE, READS, WRITES, AccessTable, ExactAccesses
from npuviz.sim.replay.uses_kernels import FULL, follow_uses, number_uses
from npuviz.sim.replay.versions import Cells, cells_of

PRODUCER, CONSUMER, ROW, SURE = range(4)
"""Columns of a use."""
_NO_ROWS = np.zeros(0, np.int64), np.zeros((4, 0), np.int64)
NOBODY = -1
"""Value of a use's producer for memory as it was when the run began."""
LINK = -1
"""Value of a use's row for data on the chip that has no row."""
MOST_CELLS = 1 << 27
MOST_TOUCHED = 1 << 32
"""Most cells, and most accesses of cells, of a run whose uses can be followed."""
MOST_ASKED = 1 << 11
"""Most pairs of rows with gaps that are compared byte by byte to answer one question."""


@dataclass(frozen=True)
class Uses:
    """Which pieces of work of a run use what others made. Places are rows of `order`.

    table, order  as HasAccessOrder returns them; at the end of the order one more entry for each name of
                  `ends`, which reads what is left at the end of the run
    rows          (k, 4) int64, by consumer: PRODUCER or NOBODY, CONSUMER, ROW of the table or LINK, and
                  whether it is SURE: both sides touch every byte of their rows
    """

    table: AccessTable
    order: np.ndarray
    rows: np.ndarray
    ends: tuple[str, ...] = ()

    def reached(self, places: Sequence[int]) -> np.ndarray:
        """Return the places that depend on the work at some places, and those places themselves,
        (n,) bool."""
        reached = np.zeros(len(self.order), np.bool_)
        reached[list(places)] = True
        follow_uses(np.ascontiguousarray(self.rows), reached)
        return reached

    @property
    def num_steps(self) -> int:
        """Number of places of the order that are work, not ends."""
        return len(self.order) - len(self.ends)

    def instruction(self, place: int) -> int:
        """Return the listing index of the work at a place, -1 for an end."""
        return int(self.table.instructions[self.order[place, 0]]) if place < self.num_steps else -1

    def sources(self, place: int) -> np.ndarray:
        """Return the uses in which the work at a place is the consumer, without those that share no byte."""
        first, end = np.searchsorted(self.rows[:, CONSUMER], [place, place + 1])
        return self._real(self.rows[first:end])

    def users(self, place: int) -> np.ndarray:
        """Return the uses in which the work at a place is the producer, by consumer,
        without those that share no byte."""
        by_producer, producers = self._by_producer
        first, end = np.searchsorted(producers, [place, place + 1])
        return self._real(self.rows[by_producer[first:end]])

    def ends_reached(self, *places: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the ends that depend on the work at some places,
        and of those that may depend on it.

        An end may depend if over MOST_ASKED uses through rows with gaps lie on the way: not all are compared.
        """
        begin = list(places)
        may = self._reached(begin, self.rows)
        surely = self._reached(begin, self.rows[self.rows[:, SURE] > 0])
        doubtful = may & ~surely
        if doubtful.any():
            compared, is_whole = self._reached_by_bytes(begin)
            surely |= compared
            doubtful = doubtful & ~surely if not is_whole else np.zeros_like(doubtful)
        return self._names(surely), self._names(doubtful)

    def _reached(self, places: list[int], rows: np.ndarray) -> np.ndarray:
        reached = np.zeros(len(self.order), np.bool_)
        reached[places] = True
        follow_uses(np.ascontiguousarray(rows), reached)
        return reached[self.num_steps :]

    def _reached_by_bytes(self, places: list[int]) -> tuple[np.ndarray, bool]:
        """Return the ends reached through uses that share bytes, and whether all such uses were compared."""
        reached = np.zeros(len(self.order), np.bool_)
        reached[places] = True
        todo, asked = places.copy(), len(self._shared)
        while todo and not reached[self.num_steps :].all() and len(self._shared) - asked < MOST_ASKED:
            for consumer in self.users(todo.pop())[:, CONSUMER].tolist():
                if not reached[consumer]:
                    reached[consumer] = True
                    todo.append(consumer)
        return reached[self.num_steps :], not todo

    def _names(self, marks: np.ndarray) -> tuple[str, ...]:
        return tuple(name for name, is_marked in zip(self.ends, marks.tolist(), strict=True) if is_marked)

    def _real(self, rows: np.ndarray) -> np.ndarray:
        """Drop the uses through rows with gaps that share no byte."""
        exact = self.table.exact
        if exact is None or rows[:, SURE].all():
            return rows
        keeps = [
            is_sure or producer < 0 or consumer >= self.num_steps or self._shares(exact, producer, consumer)
            for producer, consumer, _, is_sure in rows.tolist()
        ]
        return rows[np.array(keeps, np.bool_)]

    def _shares(self, exact: ExactAccesses, producer: int, consumer: int) -> bool:
        pair = int(self.order[producer, 0]), int(self.order[consumer, 0])
        if pair not in self._shared:
            self._shared[pair] = exact.shares(*pair)
        return self._shared[pair]

    @cached_property
    def _shared(self) -> dict[tuple[int, int], bool]:
        """Whether two entries, producer and consumer, share a byte, for the pairs compared so far."""
        return {}

    def places_of(self, instruction: int) -> np.ndarray:
        """Return the places of an instruction in the order, rising: one or more for each time that it ran."""
        entries = np.flatnonzero(self.table.instructions == instruction)
        return np.flatnonzero(np.isin(self.order[: self.num_steps, 0], entries))

    def tells_of(self, memory: int) -> bool:
        """Whether the table has rows about a memory."""
        return memory in self._rows_of_memory

    def accesses(self, memory: int, address: int, bank_bytes: int) -> list[tuple[int, int]]:
        """Return (place, phase) of each access of a byte of a memory, READS before WRITES at one place."""
        asked = memory, address, bank_bytes
        if asked not in self._accesses:
            # Questions about one byte come together (who made it, who uses it, who overwrites it): keep one
            # answer.
            self._accesses.clear()
            self._accesses[asked] = list(self._find_accesses(*asked))
        return self._accesses[asked]

    @cached_property
    def _accesses(self) -> dict[tuple[int, int, int], list[tuple[int, int]]]:
        """The accesses of the byte that was last asked for."""
        return {}

    def _find_accesses(self, memory: int, address: int, bank_bytes: int) -> Iterator[tuple[int, int]]:
        bank, offset = divmod(address, bank_bytes)
        exact = self.table.exact
        mine, (first, banks, low, high) = self._rows_of_memory.get(memory, _NO_ROWS)
        holds = np.flatnonzero((low <= offset) & (offset < high))
        holds = holds[(first[holds] <= bank) & (bank < first[holds] + banks[holds])]
        found = mine[holds]
        rows = self.table.rows
        owner = np.searchsorted(self.table.first, found, side="right") - 1
        phases = np.zeros(len(self.table.first) - 1, np.int64)
        kinds = self.table.traits[0]
        for row, entry in zip(found.tolist(), owner.tolist(), strict=True):
            is_write = bool(rows[row, 1])
            has_gaps = kinds[row] != DENSE and exact is not None
            if not has_gaps or (exact and exact.touches(entry, memory, address, is_write=is_write)):
                phases[entry] |= WRITES if is_write else READS
        order = self.order[: self.num_steps]
        for place in np.flatnonzero(phases[order[:, 0]] & order[:, 1]).tolist():
            entry, phase = order[place, :2].tolist()
            for each in (READS, WRITES):
                if phases[entry] & phase & each:
                    yield place, each

    @cached_property
    def _rows_of_memory(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """For each memory: the numbers of its rows, rising, and (4, n) their first banks, banks,
        low and high."""
        memories = self.table.rows[:, 0]
        order = np.argsort(memories, kind="stable")
        found, begins = np.unique(memories[order], return_index=True)
        parts = np.split(order, begins[1:]) if len(order) else []
        return {
            memory: (mine, np.ascontiguousarray(self.table.rows[mine, 2:6].T))
            for memory, mine in zip(found.tolist(), parts, strict=True)
        }

    @cached_property
    def _by_producer(self) -> tuple[np.ndarray, np.ndarray]:
        by_producer = np.argsort(self.rows[:, PRODUCER], kind="stable")
        return by_producer, self.rows[by_producer, PRODUCER]


def uses_of(table: AccessTable, order: np.ndarray, ends: Mapping[str, np.ndarray]) -> Uses:
    """Find the uses of a run.

    order  as `HasAccessOrder.access_order` returns it
    ends   name -> (n, 7) rows that are read at the end of the run, as `AccessTable.rows`
    Raises TargetError for a run that is too large.
    """
    table, order = _with_ends(table, np.ascontiguousarray(order), ends)
    cells = cells_of(table)
    _check_size(table, cells, order)
    found = np.empty((4 * len(order) + 64, 4), np.int64)
    room, count = 2 * len(order) + 64, FULL
    while count == FULL or count > len(found):
        if count == FULL:
            room *= 2
        else:
            found = np.empty((count, 4), np.int64)
        memory = (
            np.full(cells.count, -1, np.int64),
            np.empty((room, 4), np.int64),
            np.zeros(len(order), np.int64),
        )
        count = number_uses(order, (table.first, cells.rows), table.traits, memory, found)
    rows = np.concatenate([found[:count], _linked(table, order)])
    rows = rows[np.argsort(rows[:, CONSUMER], kind="stable")]
    return Uses(table, order, rows, tuple(ends))


def _with_ends(
    table: AccessTable, order: np.ndarray, ends: Mapping[str, np.ndarray]
) -> tuple[AccessTable, np.ndarray]:
    """Append an entry for each end, placed last in the order."""
    count = len(table.first) - 1
    lengths = [len(rows) for rows in ends.values()]
    first = np.concatenate([table.first, table.first[-1] + np.cumsum(lengths, dtype=np.int64)])
    cycle = int(order[-1, 2]) if len(order) else 0
    last = np.array([(count + i, READS, cycle) for i in range(len(ends))], np.int64).reshape(-1, 3)
    kinds, patterns = table.traits
    more = sum(lengths)
    made = replace(
        table,
        first=first.astype(np.int64),
        rows=np.concatenate([table.rows, *ends.values()]),
        kinds=np.concatenate([kinds, np.full(more, DENSE)]),
        patterns=np.concatenate([patterns, np.full(more, -1)]),
        instructions=np.concatenate([table.instructions, np.full(len(ends), -1)]),
    )
    return made, np.concatenate([order, last])


def _check_size(table: AccessTable, cells: Cells, order: np.ndarray) -> None:
    touched = np.concatenate([[0], np.cumsum(cells.rows[:, 2] * cells.rows[:, 3])])
    of_entry = touched[table.first[1:]] - touched[table.first[:-1]]
    total = int(of_entry[order[:, 0]].sum())
    if cells.count > MOST_CELLS or total > MOST_TOUCHED:
        raise TargetError(
            f"the run is too large to follow who made what: {cells.count} ranges, read and written {total} "
            f"times; expected at most {MOST_CELLS} and {MOST_TOUCHED}: ask earlier in the run"
        )


def _linked(table: AccessTable, order: np.ndarray) -> np.ndarray:
    """Return the uses of the table's links whose two entries have both run. Work with links runs once."""
    place = np.full(len(table.first) - 1, -1, np.int64)
    place[order[:, 0]] = np.arange(len(order))
    found = place[table.links]
    found = found[(found >= 0).all(axis=1)]
    return np.column_stack([found, np.full(len(found), LINK, np.int64), np.ones(len(found), np.int64)])
