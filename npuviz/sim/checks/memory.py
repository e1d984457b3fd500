"""Reads and writes that nothing has ordered, reads of what nobody wrote, bounds, and what nobody reads."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.kernels import entries
from npuviz.sim.checks import order_kernels as ok
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.checks.trail import MemoryTrail
from npuviz.sim.machine import Findings, Hazard

MOST_OF_A_KIND = 64
"""Findings of one kind that are listed: what is wrong in a loop is wrong in each of its rounds."""
MOST_WORDS = 1 << 26
"""Words of clocks and cells: a larger run is not checked for order."""
SEATS = 24
"""Steps that belong to no thread, of which none is known to be over when another begins; of more some count
as over."""
_MOST_FOUND = 1 << 12
_MOST_PLAIN = 1 << 16
"""Clocks and cells to look at without compiled code; for more, compiling takes less time."""
_KINDS = {
    ok.EARLY_READ: "early-read",
    ok.EARLY_OVERWRITE: "early-overwrite",
    ok.UNORDERED_WRITES: "unordered-writes",
    ok.UNWRITTEN: "unwritten",
    ok.FOREIGN: "overwritten",
}


@dataclass(frozen=True)
class _Cells:
    """Cuts of each memory: between two of them all accesses touch all bytes or none."""

    banks: list[np.ndarray]
    bytes: list[np.ndarray]
    first: np.ndarray

    def rows(self, accesses: np.ndarray) -> np.ndarray:
        """(m, 6) int64 as `order_kernels.walk` takes them."""
        found = np.zeros((len(accesses), 6), np.int64)
        found[:, 0], found[:, 1] = accesses["is_write"], accesses["is_dense"]
        for memory in range(len(self.banks)):
            mine = accesses["memory"] == memory
            rows, banks, cuts = accesses[mine], self.banks[memory], self.bytes[memory]
            top = np.searchsorted(banks, rows["bank"])
            low = np.searchsorted(cuts, rows["low"])
            width = max(1, len(cuts) - 1)
            found[mine, 2] = self.first[memory] + top * width + low
            found[mine, 3] = np.searchsorted(banks, rows["bank"] + rows["banks"]) - top
            found[mine, 4] = width
            found[mine, 5] = np.searchsorted(cuts, rows["high"]) - low
        return found

    def place(self, cell: int) -> tuple[int, int, int, int]:
        """Memory, bank, and the bytes of a cell."""
        memory = int(np.searchsorted(self.first, cell, side="right")) - 1
        bank, low = divmod(cell - int(self.first[memory]), max(1, len(self.bytes[memory]) - 1))
        cuts = self.bytes[memory]
        return memory, int(self.banks[memory][bank]), int(cuts[low]), int(cuts[low + 1])


def memory_hazards(trail: MemoryTrail) -> Findings:
    """What is wrong in the order of a run's reads and writes; at most MOST_OF_A_KIND of a kind.

    It does not matter whether the run happened to read the right bytes: what counts is whether anything made
    it wait.
    """
    inside = _is_inside(trail)
    found = list(_out_of_bounds(trail, trail.accesses[~inside]))
    trail_accesses = trail.accesses[inside]
    cells = _cut(trail, trail_accesses)
    words = int(cells.first[-1]) * ok.READERS + len(trail.thread) * _num_threads(trail)
    if words > MOST_WORDS:
        return _bounded(found, f"the order of {len(trail.thread)} steps: a run too large ({words} words)")
    found += _Walk(trail, trail_accesses, cells).hazards()
    return _bounded(found)


def with_faults(faults: Sequence[Hazard], findings: Findings) -> Findings:
    """Findings with those of another check, which go first where both say something of an instruction."""
    bounded = _bounded(faults)
    return Findings(
        tuple(merged(bounded.hazards, findings.hazards)), (*bounded.not_checked, *findings.not_checked)
    )


def merged(*lists: Sequence[Hazard]) -> list[Hazard]:
    """Findings of several checks by cycle; what several say of one instruction is said once."""
    seen: set[tuple[str, int]] = set()
    found: list[Hazard] = []
    for hazards in lists:
        new = [each for each in hazards if each.instruction < 0 or (each.kind, each.instruction) not in seen]
        found += new
        seen |= {(each.kind, each.instruction) for each in hazards}
    return sorted(found, key=lambda hazard: hazard.cycle)


def _num_threads(trail: MemoryTrail) -> int:
    return int(trail.thread.max(initial=-1)) + 1 + SEATS


def _is_inside(trail: MemoryTrail) -> np.ndarray:
    """Which accesses lie in their memory."""
    rows = trail.accesses
    sizes = np.array(trail.sizes, dtype=np.int64).reshape(-1, 2)
    is_known = (rows["memory"] >= 0) & (rows["memory"] < len(sizes))
    mine = sizes[np.where(is_known, rows["memory"], 0)]
    fits = (rows["low"] >= 0) & (rows["high"] <= mine[:, 1])
    return is_known & fits & (rows["bank"] >= 0) & (rows["bank"] + rows["banks"] <= mine[:, 0])


def _out_of_bounds(trail: MemoryTrail, rows: np.ndarray) -> Iterator[Hazard]:
    for row in rows:
        step, memory = int(row["step"]), int(row["memory"])
        index = int(trail.instruction[step])
        name = trail.names[memory] if 0 <= memory < len(trail.names) else f"memory {memory}"
        place = _place(name, int(row["bank"]), int(row["low"]), int(row["high"]), int(row["banks"]))
        verb = "writes" if row["is_write"] else "reads"
        room = f"; it has {trail.sizes[memory][1]:#x} bytes" if 0 <= memory < len(trail.sizes) else ""
        text = f"{trail.text(index)} {verb} {place}, outside of it{room}"
        yield hazard_of("out-of-bounds", int(trail.cycle[step]), trail.unit(index), index, text, place)


def _bounded(found: Sequence[Hazard], *not_checked: str) -> Findings:
    counts: Counter[str] = Counter()
    listed: list[Hazard] = []
    for hazard in sorted(found, key=lambda each: each.cycle):
        counts[hazard.kind] += 1
        if counts[hazard.kind] <= MOST_OF_A_KIND:
            listed.append(hazard)
    more = [f"{n - MOST_OF_A_KIND} more of {kind}" for kind, n in counts.items() if n > MOST_OF_A_KIND]
    return Findings(tuple(listed), (*not_checked, *more))


def _cut(trail: MemoryTrail, accesses: np.ndarray) -> _Cells:
    banks: list[np.ndarray] = []
    cuts: list[np.ndarray] = []
    first = [0]
    others = [trail.given, *([trail.kept] if trail.kept is not None else []), *trail.results.values()]
    every = np.concatenate([accesses, *others])
    for memory in range(len(trail.sizes)):
        rows = every[every["memory"] == memory]
        banks.append(np.unique(np.concatenate([rows["bank"], rows["bank"] + rows["banks"]])))
        cuts.append(np.unique(np.concatenate([rows["low"], rows["high"]])))
        first.append(first[-1] + max(0, len(banks[-1]) - 1) * max(0, len(cuts[-1]) - 1))
    return _Cells(banks, cuts, np.array(first, dtype=np.int64))


class _Walk:
    """One walk over a trail, and its findings in words."""

    def __init__(self, trail: MemoryTrail, accesses: np.ndarray, cells: _Cells) -> None:
        self._trail, self._accesses, self._cells = trail, accesses, cells
        num_cells, num_steps = int(cells.first[-1]), len(trail.thread)
        self._writer = np.full(num_cells, -1, np.int64)
        self._readers = np.full((num_cells, ok.READERS), -1, np.int64)
        self._given = np.zeros(num_cells, np.bool_)
        self._used = np.zeros(num_steps, np.bool_)
        for cell in self._each(trail.given):
            self._given[cell] = True

    def _each(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Cells of each bank of each row."""
        for _, _, start, banks, pitch, count in self._cells.rows(rows).tolist():
            yield (start + np.arange(banks)[:, None] * pitch + np.arange(count)).reshape(-1)

    def hazards(self) -> Iterator[Hazard]:
        """Everything found, in no order."""
        trail = self._trail
        place, previous = _places(trail.thread)
        threads = _num_threads(trail)
        count = len(trail.thread)
        clocks = np.zeros((count, threads), np.int64)
        numbers = np.arange(count + 1)
        order_first = np.searchsorted(trail.orders[:, 1], numbers)
        rows_first = np.searchsorted(self._accesses["step"], numbers)
        found = np.zeros((_MOST_FOUND, 4), np.int64)
        rows = self._cells.rows(self._accesses)
        origin = (trail.node if len(trail.sources[1]) else np.full(count, -1), *trail.sources)
        walked = (
            (trail.thread.copy(), place, previous, clocks, np.zeros(threads, np.int64), SEATS),
            (order_first, np.ascontiguousarray(trail.orders[:, 0])),
            (rows_first, rows),
            (self._writer, self._readers, self._given, self._used, origin),
            found,
        )
        work = count * threads + int((rows[:, 3] * rows[:, 5]).sum())
        if work > _MOST_PLAIN and entries.compiles():
            ok.walk.await_ready(*walked)
        number = ok.walk(*walked)
        for kind, step, other, cell in found[:number].tolist():
            if other < 0 or trail.shares(step, other):
                yield self._hazard(kind, step, other, cell)
        if trail.kept is not None:
            yield from self._dead(trail.kept)
            yield from self._missing()

    def _hazard(self, kind: int, step: int, other: int, cell: int) -> Hazard:
        trail = self._trail
        memory, bank, low, high = self._cells.place(cell)
        place = _place(trail.names[memory], bank, low, high)
        index = int(trail.instruction[step])
        second = int(trail.instruction[other]) if other >= 0 else -1
        name = trail.text(index)
        them = f"{trail.text(second)} of {trail.unit(second)}" if second >= 0 else ""
        text = {
            ok.EARLY_READ: f"{name} reads {place}, and nothing makes it wait until {them} has written it",
            ok.EARLY_OVERWRITE: f"{name} overwrites {place}, and {them} may not have read it yet",
            ok.UNORDERED_WRITES: f"{name} and {them} both write {place}, and nothing orders them",
            ok.UNWRITTEN: f"{name} reads {place}, which nobody has written",
            ok.FOREIGN: f"{name} reads {place}, where {them} has put what its operator does not use",
        }[kind]
        cycle = int(trail.cycle[step])
        return hazard_of(_KINDS[kind], cycle, trail.unit(index), index, text, place, second)

    def _missing(self) -> Iterator[Hazard]:
        """Results of the program of which bytes were never written."""
        trail = self._trail
        end = int(trail.cycle.max(initial=0))
        for name, rows in trail.results.items():
            cells = np.concatenate([*self._each(rows)])
            missing = cells[(self._writer[cells] < 0) & ~self._given[cells]]
            if len(missing):
                memory, bank, low, high = self._cells.place(int(missing[0]))
                place = _place(trail.names[memory], bank, low, high)
                text = f"output {name} is not written as a whole: nobody has written {place}"
                yield hazard_of("incomplete", end, "", -1, text, place)

    def _dead(self, kept: np.ndarray) -> Iterator[Hazard]:
        """Steps that write, and nothing of it was read before it was overwritten or the run ended."""
        trail, used = self._trail, self._used
        for cell in self._each(kept):
            writers = self._writer[cell]
            used[writers[writers >= 0]] = True
        rows = self._accesses[self._accesses["is_write"]]
        for step in np.unique(rows["step"][~used[rows["step"]]]).tolist():
            row = rows[np.searchsorted(rows["step"], step)]
            index = int(trail.instruction[step])
            memory = int(row["memory"])
            place = _place(trail.names[memory], int(row["bank"]), int(row["low"]), int(row["high"]),
                           int(row["banks"]))  # fmt: skip
            kind = "dead-transfer" if len(trail.is_moved) and trail.is_moved[step] else "dead-store"
            text = f"{trail.text(index)} writes {place}, and nobody reads it"
            yield hazard_of(kind, int(trail.cycle[step]), trail.unit(index), index, text, place)


def _places(thread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place of each step in its thread (from 1), and the step before it there (-1)."""
    place, previous = np.zeros(len(thread), np.int64), np.full(len(thread), -1, np.int64)
    for each in np.unique(thread[thread >= 0]).tolist():
        mine = np.flatnonzero(thread == each)
        place[mine] = np.arange(1, len(mine) + 1)
        previous[mine[1:]] = mine[:-1]
    return place, previous


def _place(name: str, bank: int, low: int, high: int, banks: int = 1) -> str:
    where = f"{name} {low:#x}..{high - 1:#x}"
    if banks > 1:
        return f"{where} of banks {bank}..{bank + banks - 1}"
    return f"{where} of bank {bank}" if bank else where
