"""Finds races on machines whose accesses are only known from a run.

Results are compared first: the values that leave the machine, and how the run ends. If they differ, both runs
are repeated with recorded accesses, and the first read that sees another value is the race. Values that
depend on a timer may differ in any run and are ignored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.access_order import WRITES, RecordedAccesses, RecordsAccesses
from npuviz.sim.latencies import VariesLatencies, with_latency_seed
from npuviz.sim.machine import Machine
from npuviz.sim.replay.uses import PRODUCER, ROW, Uses, uses_of
from npuviz.sim.stop import NO_STOPS, StopReason
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.races.runs import (
    LEAST_CYCLES,
    LONGER,
    Access,
    Race,
    Racer,
    SeedResult,
    load_target,
    other_end,
)

Followed = tuple[RecordedAccesses, Uses]
"""The accesses of a run, and which work used the results of which."""
MOST_CHECKED = 4096
"""Most differing results of a run that are checked for dependence on a timer."""
_BANK = 1 << 62
_LEFT_OUT = ("reads of runs whose results are equal",)


@dataclass
class RecordedRun:
    """A run that has ended. accesses  its accesses and uses, None until they are recorded"""

    machine: Machine
    stop: StopReason
    results: np.ndarray
    accesses: Followed | None = None


class RecordedRacer:
    """Runs one program under seeds, as Racer does."""

    def __init__(self, target: VariesLatencies, spec: Any, program: Program) -> None:
        self.target, self.program = target, program
        self.spec = with_latency_seed(spec, 0)

    @cached_property
    def nominal(self) -> RecordedRun:
        """The run with the nominal latencies."""
        return self._run(0, None)

    @property
    def num_reads(self) -> int:
        """Number of results that are compared; reads are compared only where results differ."""
        return len(self.nominal.results)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what is not compared."""
        return _LEFT_OUT

    def write_cycles(self, seed: int, accesses: tuple[Access, ...]) -> list[int]:
        """Return -1 for each access: races of this class already have the cycles in `come_at`."""
        return [-1 for _ in accesses]

    def at(self, seed: int) -> SeedResult:
        """Run under a seed and compare with the nominal run."""
        nominal = self.nominal
        other = self._run(seed, max(LEAST_CYCLES, LONGER * nominal.stop.cycle))
        stop = other_end(nominal.stop, other.stop)
        same = nominal.results.shape == other.results.shape and np.array_equal(nominal.results, other.results)
        if same and not stop:
            return SeedResult(seed, other.stop.cycle)
        if not stop:
            differs, left = self._differs(seed, nominal, other)
            if not differs:
                return SeedResult(seed, other.stop.cycle, left=left)
        race = self._first_read(self._followed(0, nominal), self._followed(seed, other))
        if race is None and not stop:
            race = self._first_result(seed, nominal, other)
            if race is None:
                stop = "with other results, which no read of another value explains"
        return SeedResult(seed, other.stop.cycle, stop, changed=int(race is not None), race=race)

    # ---- inside

    def _build(self, seed: int) -> Machine:
        return self.target.build(with_latency_seed(self.spec, seed), self.program)

    def _run(self, seed: int, until: int | None) -> RecordedRun:
        machine = self._build(seed)
        assert isinstance(machine, RecordsAccesses)
        stop = machine.advance(until or 1 << 62, NO_STOPS, None)
        results = machine.results()
        return RecordedRun(machine, stop, results)

    def _followed(self, seed: int, run: RecordedRun) -> Followed:
        if run.accesses is None:
            machine = self._build(seed)
            assert isinstance(machine, RecordsAccesses)
            found = machine.record_accesses(run.stop.cycle)
            run.accesses = found, uses_of(found.table, found.order, {})
        return run.accesses

    def _differs(self, seed: int, nominal: RecordedRun, other: RecordedRun) -> tuple[bool, int]:
        """Return whether a result differs that does not depend on a timer, and how many differing ones were
        not checked.

        If more than MOST_CHECKED results differ, a sample of that size, spread evenly over them, is checked.
        """
        if nominal.results.shape != other.results.shape:
            return True, 0
        rows = np.flatnonzero((nominal.results != other.results).any(axis=1))
        chosen = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_CHECKED)).astype(np.int64)]
        runs = [
            (found, uses, uses.reached(found.timed.tolist()))
            for found, uses in (self._followed(0, nominal), self._followed(seed, other))
        ]
        differs = any(
            not any(self._is_made_of(*run, result) for run in runs)
            for result in nominal.results[chosen].tolist()
        )
        return differs, 0 if differs else len(rows) - len(chosen)

    def _is_made_of(
        self, found: RecordedAccesses, uses: Uses, reached: np.ndarray, result: Sequence[int]
    ) -> bool:
        """Return whether the work that made a result of a run is marked in `reached`."""
        place = self._maker(uses, _part(found, result), result[2])
        return place >= 0 and bool(reached[place])

    def _maker(self, uses: Uses, leaves: np.ndarray, number: int) -> int:
        """Return the position in the run of the work that made a word of a result, -1 if there is none."""
        if len(leaves) > 1:  # one piece of work a word
            return int(leaves[number, 0]) if number < len(leaves) else -1
        if not len(leaves):
            return -1
        place, _, _, memory, low, size = leaves[0].tolist()
        maker = -1
        for at, phase in uses.accesses(memory, low + number * size, _BANK):
            if at >= place:
                break
            if phase == WRITES:
                maker = at
        return maker

    def _first_read(self, before: Followed, behind: Followed) -> Race | None:
        """Return the first read of the other run that sees another value than in the nominal one, None if
        none does.

        If all reads see the same values, the first word that is taken out of turn counts.
        """
        for reads in ("reads", "turns"):
            mine, theirs = (_untimed(*run, getattr(run[0], reads)) for run in (before, behind))
            first = _first_change(mine, theirs)
            if first is not None:
                return self._race(before, mine[first[0]], behind, theirs[first[1]])
        return None

    def _first_result(self, seed: int, nominal: RecordedRun, other: RecordedRun) -> Race | None:
        """Return the first word of a result that differs although no read does, as a race of writes."""
        if nominal.results.shape != other.results.shape:
            return None
        runs = self._followed(0, nominal), self._followed(seed, other)
        timed = [uses.reached(found.timed.tolist()) for found, uses in runs]
        rows = np.flatnonzero((nominal.results != other.results).any(axis=1))
        for row in rows[:MOST_CHECKED].tolist():
            result = nominal.results[row].tolist()
            made = [self._is_made_of(*run, mark, result) for run, mark in zip(runs, timed, strict=True)]
            parts = [_part(found, result) for found, _ in runs]
            if not any(made) and all(len(part) for part in parts):
                return self._race_of_writes(runs, parts, result, int(other.results[row, 3]))
        return None

    def _race_of_writes(
        self, runs: tuple[Followed, Followed], parts: list[np.ndarray], result: Sequence[int], value: int
    ) -> Race:
        """Describe the race of writes for a word of a result. parts  rows of `leaves` of this result in both
        runs"""
        number = result[2]
        places = [part[number if len(part) > 1 else 0].tolist() for part in parts]
        makers = [self._maker(uses, part, number) for (_, uses), part in zip(runs, parts, strict=True)]
        _, _, _, memory, low, size = places[0]
        begin = low if len(parts[0]) > 1 else low + number * size
        names = runs[0][0].table.names
        assert names is not None
        wrote = [
            (_access(run, maker),) if maker >= 0 else () for run, maker in zip(runs, makers, strict=True)
        ]
        return Race(
            _access(runs[0], places[0][0]),
            _access(runs[1], places[1][0]),
            memory,
            begin,
            size,
            wrote[0],
            wrote[1],
            place=names.place(memory, begin, begin + size),
            values=(_value_text(result[3]), _value_text(value)),
            come_at=tuple(_comes(runs[1], access) for access in wrote[0]),
        )

    def _race(
        self,
        before: Followed,
        nominal: np.ndarray,
        behind: Followed,
        other: np.ndarray,
    ) -> Race:
        wrote = _writers(before, nominal), _writers(behind, other)
        names = before[0].table.names
        row = before[0].table.rows[int(nominal[2])].tolist()
        assert names is not None
        come = tuple(_comes(behind, access) for access in wrote[0])
        return Race(
            _access(before, int(nominal[0])),
            _access(behind, int(other[0])),
            row[0],
            row[4],
            row[5] - row[4],
            *wrote,
            place=names.place(row[0], row[4], row[5]),
            values=(_value_text(int(nominal[3]) & 0xFFFFFFFF), _value_text(int(other[3]) & 0xFFFFFFFF)),
            come_at=come,
        )


def _part(found: RecordedAccesses, result: Sequence[int]) -> np.ndarray:
    """Return the rows of `leaves` that belong to the command and PE of a result."""
    return found.leaves[(found.leaves[:, 1] == result[0]) & (found.leaves[:, 2] == result[1])]


def _untimed(found: RecordedAccesses, uses: Uses, reads: np.ndarray) -> np.ndarray:
    """Return the reads of a run that do not depend on a timer."""
    reached = uses.reached(found.timed.tolist())
    return reads[~reached[reads[:, 0]]]


def _first_change(mine: np.ndarray, theirs: np.ndarray) -> tuple[int, int] | None:
    """Return the rows, in both runs, of the first read of the other run that sees another value; None if
    none does."""
    order, starts = _by_key(mine)
    other_order, other_starts = _by_key(theirs)
    first: tuple[int, int] | None = None
    for key, (begin, end) in other_starts.items():
        known = starts.get(key)
        if known is None:
            continue
        count = min(end - begin, known[1] - known[0])
        here, there = order[known[0] :][:count], other_order[begin:][:count]
        changed = np.flatnonzero(mine[here, 3] != theirs[there, 3])
        if len(changed):
            at = int(changed[0])
            if first is None or theirs[there[at], 0] < theirs[first[1], 0]:
                first = int(here[at]), int(there[at])
    return first


def _by_key(reads: np.ndarray) -> tuple[np.ndarray, dict[int, tuple[int, int]]]:
    """Sort rows by key, then by order of the run. Returns the order, and key -> (begin, end) of its rows in
    it."""
    order = np.argsort(reads[:, 1], kind="stable")
    if not len(order):
        return order, {}
    keys, begins = np.unique(reads[order, 1], return_index=True)
    ends = [*begins[1:].tolist(), len(order)]
    return order, dict(zip(keys.tolist(), zip(begins.tolist(), ends, strict=True), strict=True))


def _access(run: Followed, place: int) -> Access:
    found = run[0]
    assert found.table.names is not None
    instruction, unit = found.table.names.work(int(found.order[place, 0]))
    return Access(instruction.index, int(found.order[place, 2]), unit, instruction.text)


def _writers(run: Followed, read: np.ndarray) -> tuple[Access, ...]:
    """Return the work whose writes a read saw."""
    sources: Sequence[Sequence[int]] = run[1].sources(int(read[0])).tolist()
    places = [use[PRODUCER] for use in sources if use[ROW] == int(read[2]) and use[PRODUCER] >= 0]
    return tuple(_access(run, place) for place in places)


def _comes(run: Followed, access: Access) -> int:
    """Return the last cycle at which the instruction of an access ran on the same unit in a run, -1 if
    never."""
    places = run[1].places_of(access.instruction) if access.instruction >= 0 else np.zeros(0, np.int64)
    cycles = [found.cycle for place in places.tolist() if (found := _access(run, place)).unit == access.unit]
    return max(cycles, default=-1)


def _value_text(bits: int) -> str:
    number = float(np.array([bits], np.uint32).view(np.float32)[0])
    return f"{bits:#x} ({number:g} as f32)" if 1e-30 < abs(number) < 1e30 else f"{bits:#x}"


def load_racer(path: Path, options: OpenOptions) -> Racer | RecordedRacer:
    """Read and compile a program. Raises NpuvizError, or OSError from reading."""
    target, spec, program = load_target(path, options)
    is_recorded = isinstance(target.build(spec, program), RecordsAccesses)
    return RecordedRacer(target, spec, program) if is_recorded else Racer(target, spec, program)
