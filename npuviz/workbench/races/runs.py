"""Runs one program under many latency seeds, and finds reads that see other values than in the nominal
run."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.progress import NoProgress
from npuviz.base.reading import reading
from npuviz.debug.session import Session
from npuviz.program.program import Program
from npuviz.sim.access_order import READS, WRITES, AccessTable, HasAccessOrder
from npuviz.sim.latencies import LATENCY_SEED, VariesLatencies, with_latency_seed
from npuviz.sim.machine import Machine
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.sim.replay import versions as vs
from npuviz.sim.stop import NO_STOPS, StopKind, StopReason
from npuviz.sim.target import Target
from npuviz.trace.recorder import Recorder
from npuviz.workbench.choosing import choose_target
from npuviz.workbench.opening import OpenOptions

MOST_COMPARED = 48
"""Changed reads of a run whose values are compared, in the order of the run."""
LONGER = 20
"""A run that takes this many times the nominal cycles counts as one that does not end."""
LEAST_CYCLES = 1_000_000


@dataclass(frozen=True, slots=True)
class Access:
    """A piece of work that reads or writes, at a cycle of a run; cycle -1 if it does not happen.

    unit  name of the unit, if the program does not say which of several it is; text  describes an instruction
    that the listing does not have
    """

    instruction: int
    cycle: int
    unit: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Race:
    """A read that sees another value than in the nominal run.

    nominal, other  the read in both runs; memory, address  beginning of the bytes it reads
    wrote_nominal, wrote_other  the last writers of these bytes in both runs, those that differ
    place     what is read, if the description has no memory for it; values  in both runs, as text
    come_at   cycles of the nominal writers in the other run, None if not computed yet
    """

    nominal: Access
    other: Access
    memory: int
    address: int
    size_bytes: int
    wrote_nominal: tuple[Access, ...]
    wrote_other: tuple[Access, ...]
    place: str = ""
    values: tuple[str, str] = ("", "")
    come_at: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SeedResult:
    """Differences of a run under one seed from the nominal run.

    stop      how it ended, if otherwise than the nominal run, else ""
    changed   reads that saw another version of their bytes; of these: equal  with equal values, unknown  with
    values that are not known, left  not compared
    """

    seed: int
    cycles: int
    stop: str = ""
    changed: int = 0
    equal: int = 0
    unknown: int = 0
    left: int = 0
    race: Race | None = None


@dataclass
class Run:
    """A finished run, and the versions of the bytes that it read."""

    machine: Machine
    stop: StopReason
    versions: vs.Versions
    _bytes: dict[int, bytes | None] = field(default_factory=dict[int, bytes | None])

    def values_at(self, position: int) -> bytes | None:
        """Return `HasAccessOrder.values_at` of a position, cached."""
        if position not in self._bytes:
            assert isinstance(self.machine, HasAccessOrder)
            self._bytes[position] = self.machine.values_at(position)
        return self._bytes[position]


def other_end(nominal: StopReason, other: StopReason) -> str:
    """Describe how a run ends if it ends otherwise than the nominal one, else return ""."""
    if other.kind == nominal.kind:
        return ""
    if other.kind is StopKind.UNTIL:
        return f"does not end in {other.cycle} cycles"
    return f"{other.kind}: {other.detail}"


class Racer:
    """Runs one program under seeds. Compiles once; `at` may be called for seeds in any order."""

    def __init__(self, target: Target, spec: Any, program: Program) -> None:
        if not isinstance(target, VariesLatencies):
            raise TargetError(f"{target.title}: its latencies cannot be varied")
        self.target: VariesLatencies = target
        self.spec = with_latency_seed(spec, 0)
        self.program = program

    @cached_property
    def nominal(self) -> Run:
        """The run with the nominal latencies."""
        return self._run(0, None)

    @property
    def num_reads(self) -> int:
        """Number of pieces of work whose reads are compared."""
        return len(self.nominal.versions.order)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what is not compared."""
        return self.table.left_out

    @cached_property
    def table(self) -> AccessTable:
        """The ranges that each piece of work of the program accesses. Raises TargetError if the machine has
        no table."""
        machine = self.target.build(self.spec, self.program)
        if not isinstance(machine, HasAccessOrder):
            raise TargetError(f"{self.target.title}: the order of accesses of a run is not known")
        return machine.access_table()

    @cached_property
    def cells(self) -> vs.Cells:
        """The cells of the table."""
        return vs.cells_of(self.table)

    def at(self, seed: int) -> SeedResult:
        """Run under a seed and compare with the nominal run."""
        nominal = self.nominal
        other = self._run(seed, max(LEAST_CYCLES, LONGER * nominal.stop.cycle))
        stop = other_end(nominal.stop, other.stop)
        changed = vs.changed_reads(nominal.versions, other.versions)
        equal = unknown = 0
        race = None
        for place in changed[:MOST_COMPARED].tolist():
            first = vs.place_of(nominal.versions, int(other.versions.keys[place]), READS)
            same = None if first < 0 else self._has_same_values(seed, nominal, first, other, place)
            if same is False:
                race = self._race(nominal, first, other, place)
                break
            equal, unknown = equal + (same is True), unknown + (same is None)
        compared = equal + unknown + (race is not None)
        left = 0 if race is not None else len(changed) - compared
        return SeedResult(seed, other.stop.cycle, stop, len(changed), equal, unknown, left, race)

    def _run(self, seed: int, until: int | None) -> Run:
        machine = self.target.build(with_latency_seed(self.spec, seed), self.program)
        assert isinstance(machine, HasAccessOrder)
        table = self.table
        if table.needs_trace:
            schema = schema_of(machine.description, self.program)
            resolver = ProgramResolver(self.program.listing, machine.description.memories)
            session = Session(machine, Recorder(schema, resolver, None, keeps_in_memory=True))
            stop, trace = session.run(until), session.trace
        else:
            stop, trace = machine.advance(until or 1 << 62, NO_STOPS, None), None
        return Run(machine, stop, vs.versions_of(table, self.cells, machine.access_order(trace)))

    def _has_same_values(self, seed: int, nominal: Run, first: int, other: Run, place: int) -> bool | None:
        """Return whether the work at these positions read the same values; None if that is not known."""
        if not self.table.needs_trace:
            values = nominal.values_at(first), other.values_at(place)
            return None if values[0] is None or values[1] is None else values[0] == values[1]
        if not self.table.has_values:
            return None
        rows = self.table.rows_of(int(nominal.versions.order[first, 0]), is_write=False)
        there = self._bytes_of(0, int(nominal.versions.order[first, 2]), rows)
        return there == self._bytes_of(seed, int(other.versions.order[place, 2]), rows)

    def _bytes_of(self, seed: int, cycle: int, rows: np.ndarray) -> bytes:
        """Return the bytes of ranges at the end of a cycle of a run; the program runs again up to there."""
        machine = self.target.build(with_latency_seed(self.spec, seed), self.program)
        # The effects of a cycle are visible when the machine stands at the next one.
        machine.advance(cycle + 1, NO_STOPS, None)
        return b"".join(
            machine.read_memory(memory, (bank + number) * pitch + low, high - low)
            for memory, _, bank, banks, low, high, pitch in rows.tolist()
            for number in range(banks)
        )

    def _race(self, nominal: Run, first: int, other: Run, place: int) -> Race:
        before = self._writers(nominal, first), self._writers(other, place)
        only = [
            {entry: at for entry, at in mine.items() if entry not in theirs}
            for mine, theirs in (before, before[::-1])
        ]
        if not any(only):
            only = list(before)
        entry = int(other.versions.order[place, 0])
        rows = self.table.rows_of(entry, is_write=False)
        row = self._touched(rows, {*only[0], *only[1]})
        return Race(
            self._access(nominal, first),
            self._access(other, place),
            int(row[0]),
            int(row[2] * row[6] + row[4]),
            int(row[5] - row[4]),
            self._named(nominal, only[0]),
            self._named(other, only[1]),
        )

    def _writers(self, run: Run, position: int) -> dict[int, int]:
        return vs.writers_before(self.table, self.cells, run.versions.order, position)

    def _touched(self, rows: np.ndarray, writers: set[int]) -> np.ndarray:
        """Return the first of the rows that overlaps a write of one of the writers."""
        for row in rows:
            for entry in sorted(writers - {-1}):
                for wrote in self.table.rows_of(entry, is_write=True):
                    is_shared = wrote[4] < row[5] and row[4] < wrote[5]
                    if (
                        wrote[0] == row[0]
                        and is_shared
                        and wrote[2] < row[2] + row[3]
                        and row[2] < wrote[2] + wrote[3]
                    ):
                        return row
        return rows[0] if len(rows) else np.array([-1, 0, 0, 0, 0, 0, 0])

    def _named(self, run: Run, writers: dict[int, int]) -> tuple[Access, ...]:
        return tuple(self._access(run, at) for entry, at in sorted(writers.items()) if entry >= 0)

    def _access(self, run: Run, position: int) -> Access:
        entry, _, cycle = run.versions.order[position].tolist()
        return Access(int(self.table.instructions[entry]), cycle)

    def write_cycles(self, seed: int, accesses: tuple[Access, ...]) -> list[int]:
        """Return the last cycle at which each of the accesses' instructions writes under a seed, -1 if it
        never does."""
        order = (self.nominal if not seed else self._run(seed, None)).versions.order
        found: list[int] = []
        for access in accesses:
            entries = np.flatnonzero(self.table.instructions == access.instruction)
            mine = np.isin(order[:, 0], entries) & ((order[:, 1] & WRITES) > 0)
            found.append(int(order[mine, 2].max()) if mine.any() else -1)
        return found


def load_target(path: Path, options: OpenOptions) -> tuple[VariesLatencies, Any, Program]:
    """Read and compile a program. Raises NpuvizError, or OSError from reading."""
    target = choose_target(path, options.target, options.preset)
    if not isinstance(target, VariesLatencies):
        raise TargetError(f"{target.title}: its latencies cannot be varied")
    if LATENCY_SEED in options.settings:
        raise UsageError(f"--set {LATENCY_SEED}: every run has its own; --seeds says how many there are")
    with reading(path):
        spec, program = target.load(options.request(path), NoProgress())
    target.warm_up(NoProgress())
    return target, spec, program
