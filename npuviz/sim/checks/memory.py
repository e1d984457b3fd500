"""Find reads and writes that nothing orders, reads of unwritten bytes,
accesses out of bounds and unread writes."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from npuviz.base.kernels import entries
from npuviz.sim.checks import order_kernels as ok
from npuviz.sim.checks.cells import Cells, cut
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.checks.order_kernels import BANK, BANKS, HIGH, LOW, MEMORY, STEP, WRITE
from npuviz.sim.checks.trail import MemoryTrail
from npuviz.sim.machine import Findings, Hazard

MOST_OF_A_KIND = 64
"""Findings of one kind that are listed: an error in a loop is found again in each round."""
MOST_WORDS = 1 << 26
"""Most words of clocks and cells; the order of a larger run is not checked."""
SEATS = 24
"""Number of clock entries for steps that belong to no thread. If more of them overlap, some wrongly count as
ordered, so that a hazard may be missed."""
_MOST_FOUND = 1 << 12
_MOST_PLAIN = 1 << 16
"""Most clocks and cells to walk without compiled code; for more, compiling takes less time."""
_KINDS = {
    ok.EARLY_READ: "early-read",
    ok.EARLY_OVERWRITE: "early-overwrite",
    ok.UNORDERED_WRITES: "unordered-writes",
    ok.UNWRITTEN: "unwritten",
    ok.FOREIGN: "overwritten",
}


def memory_hazards(trail: MemoryTrail) -> Findings:
    """Return what is wrong in the order of a run's reads and writes,
    at most MOST_OF_A_KIND hazards of a kind.

    Whether the run happened to read the right bytes does not matter: what counts is whether anything made
    the reader or writer wait.
    """
    inside = _is_inside(trail)
    accesses, outside = trail.accesses, list[Hazard]()
    if not inside.all():
        accesses, outside = accesses[inside], [*_out_of_bounds(trail, accesses[~inside])]
    kept = trail.kept if trail.kept is not None else accesses[:0]
    rows = np.concatenate([accesses, trail.given, kept, *trail.results.values()])
    cells = cut(rows, len(trail.sizes))
    words = int(cells.first[-1]) + len(trail.thread) * _num_threads(trail)
    if words > MOST_WORDS:
        return _bounded(outside, f"the order of {len(trail.thread)} steps: a run too large ({words} words)")
    return _bounded([*outside, *_Walk(trail, accesses, rows, cells).hazards()])


def with_faults(faults: Sequence[Hazard], findings: Findings) -> Findings:
    """Put another check's hazards before these findings;
    where both concern one instruction, the former are kept."""
    bounded = _bounded(faults)
    return Findings(
        tuple(merged(bounded.hazards, findings.hazards)), (*bounded.not_checked, *findings.not_checked)
    )


def merged(*lists: Sequence[Hazard]) -> list[Hazard]:
    """Merge hazards of several checks, sorted by cycle;
    of equal kinds at one instruction the first list's is kept."""
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
    """Return a bool for each access: whether it lies inside its memory."""
    rows = trail.accesses
    sizes = np.array(trail.sizes, dtype=np.int64).reshape(-1, 2)
    memory = rows[:, MEMORY]
    mine = sizes.take(memory, axis=0, mode="clip")
    is_known = (memory >= 0) & (memory < len(sizes))
    fits = (rows[:, LOW] >= 0) & (rows[:, HIGH] <= mine[:, 1])
    return is_known & fits & (rows[:, BANK] >= 0) & (rows[:, BANK] + rows[:, BANKS] <= mine[:, 0])


def _out_of_bounds(trail: MemoryTrail, rows: np.ndarray) -> Iterator[Hazard]:
    for row in rows.tolist():
        step, memory = int(row[STEP]), int(row[MEMORY])
        index = int(trail.instruction[step])
        name = trail.names[memory] if 0 <= memory < len(trail.names) else f"memory {memory}"
        place = _place(name, row[BANK], row[LOW], row[HIGH], row[BANKS])
        verb = "writes" if row[WRITE] else "reads"
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


class _Walk:
    """One walk over a trail with `order_kernels`, and its findings as hazards.

    rows  all rows of the trail: accesses, given, kept, then results
    """

    def __init__(self, trail: MemoryTrail, accesses: np.ndarray, rows: np.ndarray, cells: Cells) -> None:
        self._trail, self._accesses, self._rows, self._cells = trail, accesses, rows, cells
        self._used = np.zeros(len(trail.thread), np.bool_)
        self._over = np.full(len(trail.thread), -1, np.int64)
        count = sum(len(each) for each in trail.results.values())
        self._missing_cells = np.full(count, -1, np.int64)

    def hazards(self) -> Iterator[Hazard]:
        """Yield everything found, in no order."""
        trail = self._trail
        threads, count = _num_threads(trail), len(trail.thread)
        num_cells = int(self._cells.first[-1])
        found = np.empty((_MOST_FOUND, 4), np.int64)
        kept = trail.kept if trail.kept is not None else ()
        origin = (trail.node if len(trail.sources[1]) else np.full(count, -1), *trail.sources)
        walked = (
            (trail.thread.copy(), np.zeros(count, np.int64), np.zeros((count, threads), np.int64),
             np.zeros(threads, np.int64), np.full(threads, -1), SEATS),
            trail.orders,
            (self._rows, self._cells.rows, len(self._accesses), len(trail.given), len(kept)),
            (np.full(num_cells, ok.BLANK, np.int32), self._used, origin, self._over),
            (found, self._missing_cells),
        )  # fmt: skip
        mine = self._cells.rows[: len(self._accesses)]
        work = count * threads + int(mine[:, 1] @ mine[:, 3])
        if work > _MOST_PLAIN and entries.compiles():
            ok.walk.await_ready(*walked)
        number = ok.walk(*walked)
        for kind, step, other, cell in found[:number].tolist():
            if other < 0 or trail.shares(step, other):
                yield self._hazard(kind, step, other, cell)
        if trail.kept is not None:
            yield from self._dead()
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
        """Yield the outputs of the program of which some bytes were never written."""
        trail = self._trail
        end, row = int(trail.cycle.max(initial=0)), 0
        for name, rows in trail.results.items():
            missing = self._missing_cells[row : row + len(rows)]
            row += len(rows)
            if missing.max(initial=-1) >= 0:
                memory, bank, low, high = self._cells.place(int(missing[missing >= 0][0]))
                place = _place(trail.names[memory], bank, low, high)
                text = f"output {name} is not written as a whole: nobody has written {place}"
                yield hazard_of("incomplete", end, "", -1, text, place)

    def _dead(self) -> Iterator[Hazard]:
        """Yield the steps whose writes were not read before they were overwritten or the run ended."""
        trail, rows = self._trail, self._accesses
        rows = rows[(rows[:, WRITE] > 0) & ~self._used[rows[:, STEP]]]
        if not len(rows):
            return
        useful = self._useful_lines()
        for row in rows[np.unique(rows[:, STEP], return_index=True)[1]].tolist():
            step, memory = int(row[STEP]), int(row[MEMORY])
            index, over = int(trail.instruction[step]), int(self._over[step])
            line = trail.line(index)
            if line in useful and (over < 0 or trail.line(int(trail.instruction[over])) != line):
                continue  # the last round of a loop makes what the next one would read
            place = _place(trail.names[memory], row[BANK], row[LOW], row[HIGH], row[BANKS])
            kind = "dead-transfer" if len(trail.is_moved) and trail.is_moved[step] else "dead-store"
            text = f"{trail.text(index)} writes {place}, and nobody reads it"
            yield hazard_of(kind, int(trail.cycle[step]), trail.unit(index), index, text, place)

    def _useful_lines(self) -> set[str]:
        """Return the source lines that have an instruction whose result was read."""
        steps = np.flatnonzero(self._used)
        return {self._trail.line(index) for index in self._trail.instruction[steps].tolist()} - {""}


def _place(name: str, bank: int, low: int, high: int, banks: int = 1) -> str:
    where = f"{name} {low:#x}..{high - 1:#x}"
    if banks > 1:
        return f"{where} of banks {bank}..{bank + banks - 1}"
    return f"{where} of bank {bank}" if bank else where
