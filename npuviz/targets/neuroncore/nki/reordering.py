"""The order in which engines take instructions that do not depend on each other.

The vendor's compiler of generation 1 lets turns of an `affine_range` overlap: while Scalar works on what
Vector needs next, Vector begins with the next turn.
# Ref: SDK226 api/nki/language/__init__.py, affine_range: turns may be pipelined on different engines, as data
# dependencies allow.
# Assumed: how. Each engine takes the oldest instruction that is ready, by estimated times: on trn1 and inf2
# of a turn and the one after it, from trn2 on (a later compiler) of the next `kernel_lookahead`, as far as
# places allow: what a line makes in a turn takes the place of what it made some turns before (`buffers.py`),
# which has to have ended. The profile of adamw on trn1 (BENCH) has Vector at work for 90 % of the time, which
# the kernel's own order does not allow: it waits for Scalar twice in each turn. On trn2 (KDA) PE works for
# 93 % of the time of a kernel that transposes on Vector (rmsnorm_matmul_probe_nctranspose_vector_v2): Vector
# does not wait there until all products of a turn but the last ones are under way. What Scalar and Vector can
both run goes to the one that would end it first (`kernel_plan_engines`).

In generation 2 the same holds for all instructions outside of `no_reorder`, as its loops are unrolled, and
in generation 1 for what stands outside of such turns, static_range among it, but not across turns of a
sequential loop.
# Ref: SDK226 api/nki/compiler, no_reorder: the compiler may reorder what is not in its scope.
# Ref: SDK nki/guides/how-to-scheduling-apis.rst: the automatic scheduler may reorder what neither a data
# dependency nor an added edge orders.
# Assumed: among how many instructions it chooses; tiles have to fit. 64 and 1024 give the same times as 256
# for the matmul that this was looked at with.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, groupby
from math import prod

import numpy as np

from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Engine
from npuviz.targets.neuroncore.nki.buffers import INDEPENDENT, Limits, num_places, sequential_turn
from npuviz.targets.neuroncore.nki.engine_choice import engine_for
from npuviz.targets.neuroncore.nki.record.call_stacks import Moment
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Site, Storage
from npuviz.targets.neuroncore.spec import NeuronSpec

LOADS, STORES = "loads", "stores"
EITHER = "Scalar or Vector"
_BOTH = (Engine.ACTIVATION, Engine.DVE)
_LOADS = frozenset(("load", "gather"))
_STORES = frozenset(("store", "scatter", "dma_copy"))
_ON_PE = frozenset(("matmul", "matmul_mx"))
_WORD_BYTES = 4
_FIXED, _UNROLLED, _LOOPED = "fixed", "unrolled", "looped"
Unit = Engine | str
"""What runs a step: an engine, or a queue."""


def reordered(recording: Recording, steps: Sequence[Step], spec: NeuronSpec, capacity: int) -> list[Step]:
    """The steps in the order in which engines take them; SBUF holds `capacity` bytes of a partition."""
    found: list[Step] = []
    memory = _Memory(steps, {SBUF: capacity, PSUM: spec.num_psum_banks}, spec)
    keys: dict[int, tuple[str, object]] = {}

    def key_of(step: Step) -> tuple[str, object]:
        if step.is_fixed or step.moment < 0:
            return _FIXED, ()
        if recording.version > 1:
            return _UNROLLED, ()
        known = keys.get(step.moment)
        if known is None:
            known = keys[step.moment] = _key(recording.moments[step.moment], spec)
        return known

    for (kind, _), group in groupby(steps, key_of):
        if kind == _UNROLLED:
            found += _Schedule([[step] for step in group], spec, memory, spec.kernel_lookahead).run()
        elif kind == _LOOPED:
            turns = [
                list(turn) for _, turn in groupby(group, lambda step: _turn(recording.moments[step.moment]))
            ]
            found += _Schedule(turns, spec, memory, spec.kernel_turns).run()
        else:
            for step in group:
                memory.issue(step)
                found.append(step)
    return found


def as_asked(recording: Recording, steps: list[Step]) -> list[Step]:
    """The steps in the kernel's order, but each after those that the kernel asks it to wait for. Raises
    KernelError if that contradicts what its data needs.
    """
    seen: set[int] = set()
    last = {step.key: number for number, step in enumerate(steps) if step.key}
    for number, step in enumerate(steps):
        seen.update(key for key in step.after if last.get(key, -1) >= number)
    if not seen:
        return steps
    after, missing = _dependences(steps)
    ready = [number for number, count in enumerate(missing) if not count]
    found: list[Step] = []
    while ready:
        number = heappop(ready)
        found.append(steps[number])
        for later in after[number]:
            missing[later] -= 1
            if not missing[later]:
                heappush(ready, later)
    if len(found) < len(steps):
        stuck = next(step for number, step in enumerate(steps) if missing[number] and step.after)
        text = "depends_on or with_schedule lets it wait for an instruction that waits for it"
        raise KernelError(f"{stuck.op}: {text}").at(recording.where(stuck.place))
    return found


def _key(moment: Moment, spec: NeuronSpec) -> tuple[str, object]:
    """Whether engines look at turns around a moment, and the turn of a sequential loop that holds them."""
    is_looped = spec.kernel_turns > 0 and any(
        loop.over == INDEPENDENT for call in moment.calls for loop in call.loops
    )
    return _LOOPED if is_looped else _UNROLLED, sequential_turn(moment)


def _turn(moment: Moment) -> object:
    return tuple((call.file, loop.line, loop.value) for call in moment.calls for loop in call.loops)


class _Memory:
    """What lives on the chip after each step that was issued.

    limits  space -> bytes of a partition, or banks
    """

    def __init__(self, steps: Iterable[Step], limits: dict[str, int], spec: NeuronSpec) -> None:
        self._limits = limits
        self._bank_bytes = spec.psum_bank_bytes
        self._left: dict[int, int] = defaultdict(int)
        self._live: set[int] = set()
        self._used = dict.fromkeys(limits, 0)
        self._previous: dict[int, int] = {}
        places = Limits(0, False) if spec.kernel_turns else Limits.of(spec)
        sites: dict[Site, list[int]] = defaultdict(list)
        for step in steps:
            for storage in storages_of(step):
                if storage.id not in self._left and storage.site is not None:
                    limit, made = num_places(storage, places), sites[storage.site]
                    if 0 < limit <= len(made):
                        self._previous[storage.id] = made[-limit]
                    made.append(storage.id)
                self._left[storage.id] += 1

    def has_place(self, step: Step) -> bool:
        """Whether the tiles whose places a step takes over have ended."""
        return not any(
            storage.id not in self._live and self._left[self._previous[storage.id]]
            for storage in storages_of(step)
            if storage.id in self._previous
        )

    def has_room(self, step: Step, before: dict[str, np.ndarray]) -> bool:
        """Whether what a step makes fits beside what lives, now and while the steps `before` it run."""
        return all(
            max(self._used[space], before[space].max(initial=0)) + count <= self._limits[space]
            for space, count in self.made_by(step).items()
        )

    def levels(self, steps: Sequence[Step]) -> dict[str, np.ndarray]:
        """What lives while each of the next steps runs, if they go on in this order."""
        left, live, used = dict(self._left), set(self._live), dict(self._used)
        found = {space: np.zeros(len(steps), np.int64) for space in used}
        for number, step in enumerate(steps):
            touched = [each for each in storages_of(step) if each.space in used]
            for storage in touched:
                if storage.id not in live:
                    live.add(storage.id)
                    used[storage.space] += self.size_of(storage)
            for space, level in found.items():
                level[number] = used[space]
            for storage in touched:
                left[storage.id] -= 1
                if not left[storage.id]:
                    used[storage.space] -= self.size_of(storage)
        return found

    def made_by(self, step: Step) -> dict[str, int]:
        """What a step needs that does not live yet, by space; nothing for spaces where that is nothing."""
        found: dict[str, int] = {}
        for storage in {each.id: each for each in storages_of(step)}.values():
            if storage.id not in self._live and storage.space in self._used:
                found[storage.space] = found.get(storage.space, 0) + self.size_of(storage)
        return found

    def issue(self, step: Step) -> list[Storage]:
        """A step is next; the tiles that have ended with it."""
        ended: list[Storage] = []
        for storage in storages_of(step):
            if storage.space not in self._used:
                continue
            if storage.id not in self._live:
                self._live.add(storage.id)
                self._used[storage.space] += self.size_of(storage)
            self._left[storage.id] -= 1
            if not self._left[storage.id]:
                self._used[storage.space] -= self.size_of(storage)
                ended.append(storage)
        return ended

    def size_of(self, storage: Storage) -> int:
        """Bytes of a partition, or banks."""
        size = storage.shape[1] * storage.dtype.itemsize
        return -(-size // self._bank_bytes) if storage.space == PSUM else size


@dataclass
class _Queue:
    """Steps that wait for one unit: (cycle, number) of those whose data comes later, numbers of others."""

    free: int = 0
    later: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    ready: list[int] = field(default_factory=list[int])

    def start(self) -> int | None:
        """When the unit begins with its next step."""
        while self.later and self.later[0][0] <= self.free:
            heappush(self.ready, heappop(self.later)[1])
        if self.ready:
            return self.free
        return self.later[0][0] if self.later else None

    def take(self) -> int:
        """The step that `start` is about."""
        return heappop(self.ready) if self.ready else heappop(self.later)[1]


class _Schedule:
    """The order of the steps of turns that follow each other."""

    def __init__(
        self, turns: Sequence[Sequence[Step]], spec: NeuronSpec, memory: _Memory, open_turns: int
    ) -> None:
        self._spec = spec
        self._memory = memory
        self._steps = [step for turn in turns for step in turn]
        self._turn_of = [number for number, turn in enumerate(turns) for _ in turn]
        self._counts = [len(turn) for turn in turns]
        self._works = [any(_unit(step, spec) not in (LOADS, STORES) for step in turn) for turn in turns]
        self._after, self._missing = _dependences(self._steps)
        self._at = [0] * len(self._steps)
        self._is_issued = [False] * len(self._steps)
        self._queues: dict[Unit, _Queue] = defaultdict(_Queue)
        self._blocked: list[tuple[int, int]] = []
        self._open = 0
        self._open_turns = open_turns
        self._worked = list(accumulate(self._works, initial=0))
        self._first = list(accumulate(self._counts, initial=0))
        self._levels = memory.levels(self._steps)
        self._oldest = 0

    def run(self) -> list[Step]:
        """All steps."""
        found: list[Step] = []
        turn = 0
        self._open_until(turn)
        while len(found) < len(self._steps):
            while self._is_issued[self._oldest]:
                self._oldest += 1
            number, start = self._next(self._oldest)
            step = self._steps[number]
            found.append(step)
            self._issue(number, start)
            self._counts[self._turn_of[number]] -= 1
            while turn < len(self._counts) and not self._counts[turn]:
                turn += 1
            self._open_until(turn)
        return found

    def _open_until(self, turn: int) -> None:
        """Let the steps of a turn wait for their units, and those of the next one that computes."""
        working = self._worked[self._open] - self._worked[turn] if self._open > turn else 0
        while self._open < len(self._counts) and (
            working + self._works[self._open] <= self._open_turns or self._open <= turn
        ):
            working += self._works[self._open]
            first = self._first[self._open]
            self._open += 1
            for number in range(first, first + self._counts[self._open - 1]):
                if not self._missing[number]:
                    self._wait(number)

    def _wait(self, number: int) -> None:
        heappush(self._queues[_unit(self._steps[number], self._spec)].later, (self._at[number], number))

    def _next(self, oldest: int) -> tuple[int, int]:
        """The step that starts first, and when; what does not fit on the chip waits, but for the oldest."""
        while True:
            best: tuple[int, _Queue] | None = None
            if EITHER in self._queues:
                self._queues[EITHER].free = min(self._queues[each].free for each in _BOTH)
            for queue in self._queues.values():
                start = queue.start()
                if start is not None and (best is None or start < best[0]):
                    best = start, queue
            if best is None:
                self._blocked.sort(key=lambda each: each[1])
                start, number = self._blocked.pop(0)
                return number, start
            number = best[1].take()
            if number == oldest or self._has_room(number):
                return number, best[0]
            self._blocked.append((best[0], number))

    def _has_room(self, number: int) -> bool:
        """Whether a step may run before older ones, which must still find room for what they make."""
        if not self._memory.has_place(self._steps[number]):
            return False
        before = {space: level[self._oldest : number] for space, level in self._levels.items()}
        return self._memory.has_room(self._steps[number], before)

    def _take_memory(self, number: int) -> bool:
        """A step is next: what it makes lives while the older ones run; whether a tile has ended with it."""
        step = self._steps[number]
        for space, count in self._memory.made_by(step).items():
            self._levels[space][self._oldest : number] += count
        ended = self._memory.issue(step)
        for storage in ended:
            self._levels[storage.space][self._oldest : number] -= self._memory.size_of(storage)
        return bool(ended)

    def _issue(self, number: int, start: int) -> None:
        step = self._steps[number]
        unit = _unit(step, self._spec)
        if unit == EITHER:
            unit = step.values["planned"] = min(_BOTH, key=lambda each: self._end(step, each, start))
        cycles, latency = _cycles(step, unit, self._spec)
        begin = max(start, self._queues[unit].free)
        self._queues[unit].free = begin + cycles
        self._is_issued[number] = True
        for later in self._after[number]:
            self._at[later] = max(self._at[later], begin + cycles + latency)
            self._missing[later] -= 1
            if not self._missing[later] and self._turn_of[later] < self._open:
                self._wait(later)
        if self._take_memory(number) and self._blocked:
            for _, waiting in self._blocked:
                if not self._spec.kernel_turns:
                    self._at[waiting] = max(self._at[waiting], begin + cycles)
                self._wait(waiting)
            self._blocked.clear()

    def _end(self, step: Step, unit: Unit, start: int) -> int:
        """When a step would end on a unit, if it may begin at `start`."""
        return max(start, self._queues[unit].free) + _cycles(step, unit, self._spec)[0]


def _dependences(steps: Sequence[Step]) -> tuple[list[list[int]], list[int]]:
    """Steps that wait for each step, and for how many steps each one waits."""
    after: list[list[int]] = [[] for _ in steps]
    missing = [0] * len(steps)
    writer: dict[object, int] = {}
    readers: dict[object, list[int]] = defaultdict(list)
    keys: dict[int, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        if step.key:
            keys[step.key].append(number)
    for number, step in enumerate(steps):
        reads, writes = _touched(step)
        before: set[int] = set()
        for each in reads:
            if each in writer:
                before.add(writer[each])
            readers[each].append(number)
        for each in writes:
            if each in writer:
                before.add(writer[each])
            before.update(readers.pop(each, ()))
            writer[each] = number
        before.update(*(keys.get(key, ()) for key in step.after))
        before.discard(number)
        missing[number] = len(before)
        for each in before:
            after[each].append(number)
    return after, missing


def _touched(step: Step) -> tuple[set[object], set[object]]:
    """What a step reads and what it writes: storages by number, accumulators and generators by name."""
    writes: set[object] = {each.storage.id for each in (step.target, *step.more) if each is not None}
    reads: set[object] = set()
    reads.update(storage.id for storage in storages_of(step))
    reads -= writes
    if step.op == "activation" and step.values.get("cmd"):
        writes.add("sums of Scalar")
    if step.op == "accumulating":
        writes.add("sums of Vector")
    if step.op.startswith("random"):
        writes.add("random numbers")
    return reads, writes


def _unit(step: Step, spec: NeuronSpec) -> Unit:
    if step.op in _LOADS:
        return LOADS
    if step.op in _STORES:
        return STORES
    if step.op in _ON_PE or (step.op == "transpose" and step.values["engine"] == Engine.PE):
        return Engine.PE
    if step.op == "activation":
        return Engine.ACTIVATION
    if step.op in ("iota", "affine_select", "partition_reduce", "gather_free", "local_gather"):
        return Engine.POOL
    return next(iter(engine_for(step, spec)), EITHER if spec.kernel_plan_engines else Engine.DVE)


def _cycles(step: Step, unit: Unit, spec: NeuronSpec) -> tuple[int, int]:
    """Base cycles for which a step occupies its unit, and those until its result is there, about."""
    operands = [each for each in (step.target, *step.sources) if each is not None]
    largest = max(operands, key=lambda each: each.size, default=None)
    if largest is None:
        return 1, 1
    if not isinstance(unit, Engine):
        on_chip = [each.shape[0] for each in operands if each.buffer == SBUF]
        lanes = NUM_PARTITIONS // spec.num_dma_engines
        engines = min(-(-max(on_chip, default=NUM_PARTITIONS) // lanes), spec.num_dma_engines)
        rate = spec.dma_peak_bytes_per_ns * engines
        return spec.to_cycles(largest.size * largest.dtype.itemsize / rate), spec.to_cycles(spec.dma_start_ns)
    target = step.target if step.target is not None else largest
    count = prod((target if unit == Engine.PE else largest).shape[1:])
    if unit == Engine.PE and largest.dtype.itemsize == _WORD_BYTES:
        count *= spec.matmul_fp32_passes
    if spec.version <= 2 and step.op == "tensor_tensor" and not any(each.buffer == PSUM for each in operands):
        count *= 2
    ratio = spec.pe_hz / spec.clocks_hz[unit]
    return int(count * ratio), int(spec.latency_cycles[unit] * ratio)
