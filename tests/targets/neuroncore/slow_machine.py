"""The machine's timing rules once more, plainly: every cycle is visited, nothing is skipped.

Only costs and the shares of DMA elements come from the product; issue, waiting, ports, pipelines,
queues, rings and semaphores are written again here.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from npuviz.targets.neuroncore.costs.instructions import (
    array_cycles,
    issue_cycles,
    latency_cycles,
    port_masks,
    to_base,
)
from npuviz.targets.neuroncore.isa import Update, When
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.dma_elements import ring_parts
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables


@dataclass
class SlowSequencer:
    core: int
    pc: int
    end: int
    busy_until: int = -1
    done: int = -1
    flights: deque[tuple[int, int]] = field(default_factory=deque)
    starts: list[tuple[int, int]] = field(default_factory=list)
    worked: list[tuple[int, int, int]] = field(default_factory=list)
    window: int = 0
    is_limited: bool = True


@dataclass
class SlowTransfer:
    trigger: int
    ready: int
    rings: list[deque[int]]
    left: int


@dataclass
class SlowEngine:
    """At the start it counts as if the first ring of queue set 0 had been served."""

    last: tuple[int, int] = (0, 0)
    until: int = 0
    serving: tuple[int, SlowTransfer, int] | None = None


class SlowMachine:
    """Runs a program without control flow; `log` and `starts` are what the kernel must agree with."""

    def __init__(self, spec: NeuronSpec, tables: Tables) -> None:
        self.spec, self.tables = spec, tables
        code = tables.instructions
        engine = code["engine"].astype(np.int64)
        issue, latency = issue_cycles(code, spec), latency_cycles(code, spec)
        self.issue = np.maximum(to_base(issue, engine, spec), 1)
        self.latency = np.maximum(to_base(issue + latency, engine, spec), self.issue)
        self.array = array_cycles(code, spec)
        self.ramp = spec.to_cycles(spec.pe_ramp_ns)
        self.ports = port_masks(code, spec)
        self.parts = ring_parts(spec, tables)
        self.semaphores: dict[tuple[int, int], int] = {}
        self.port_until: dict[tuple[int, int], int] = {}
        self.sequencers = [
            SlowSequencer(min(number // 5, tables.num_cores - 1), first, end)
            for number, (first, end) in enumerate(tables.sequencers.tolist())
        ]
        self.queues: list[deque[SlowTransfer]] = [deque() for _ in tables.queue_sets]
        self.engines = [SlowEngine() for _ in range(tables.num_cores * spec.num_dma_engines)]
        self.log: list[tuple[int, int]] = []

    def run(self, limit: int = 200_000) -> int | None:
        """Cycles of the whole run, None if nothing is left to happen before the end (deadlock)."""
        last = 0
        for t in range(limit):
            if self._cycle(t):
                last = t
            elif self._is_quiet(t):
                ended = all(s.pc >= s.end for s in self.sequencers)
                return last + 1 if ended else None
        raise AssertionError("the slow machine did not end")

    def _is_quiet(self, t: int) -> bool:
        waiting = any(s.busy_until >= t or s.flights for s in self.sequencers)
        return not waiting and not any(self.queues) and t > max(self.port_until.values(), default=0) + 1

    def _cycle(self, t: int) -> bool:
        happened = False
        for s in self.sequencers:
            while s.flights and s.flights[0][1] == t:
                self._complete(s, s.flights.popleft()[0], t)
                happened = True
            happened |= s.busy_until == t
        for number in range(len(self.engines)):
            happened |= self._dma(number, t)
        for s in self.sequencers:
            if self.ramp and t == s.window + self.ramp:
                s.is_limited = self._used(s, t) < self.ramp * self.spec.pe_ramp_share
                s.window = t
        late: list[tuple[SlowSequencer, int]] = []
        for s in self.sequencers:
            if s.busy_until > t or s.pc >= s.end or not self._may_start(s, t):
                continue
            happened = True
            late.append((s, s.pc))
            self._start(s, t)
        for s, index in late:
            self._update(s.core, index, When.READ)
        return happened

    def _may_start(self, s: SlowSequencer, t: int) -> bool:
        row = self.tables.instructions[s.pc]
        for wait in row["waits"]:
            if wait["used"] and self.semaphores.get((s.core, int(wait["semaphore"])), 0) < wait["value"]:
                return False
        if len(s.flights) == sk.FLIGHTS:
            return False
        mask = int(self.ports[s.pc])
        if any(mask >> p & 1 and self.port_until.get((s.core, p), 0) > t for p in range(16)):
            return False
        transfer = int(self.tables.transfer_of[s.pc])
        if transfer >= 0:
            return len(self.queues[self.tables.transfers[transfer].queue]) < sk.FIFO_TRANSFERS
        return True

    def _start(self, s: SlowSequencer, t: int) -> None:
        index = s.pc
        s.pc += 1
        s.starts.append((index, t))
        extra = self._limit(s, index, t)
        s.busy_until = t + int(self.issue[index]) + extra
        s.done = max(t + int(self.latency[index]) + extra, s.done + 1)
        s.flights.append((index, s.done))
        for port in range(16):
            if int(self.ports[index]) >> port & 1:
                self.port_until[s.core, port] = s.busy_until
        transfer = int(self.tables.transfer_of[index])
        if transfer >= 0:
            self._enqueue(index, transfer, s.done)

    def _limit(self, s: SlowSequencer, index: int, t: int) -> int:
        """Cycles that an instruction of PE takes longer: none in a window after one that was used well."""
        array, issue = int(self.array[index]), int(self.issue[index])
        if not self.ramp or not array:
            return 0
        if s.is_limited and not self._used(s, t):
            s.window = t
        extra = math.ceil(issue / self.spec.pe_ramp_share) - issue if s.is_limited else 0
        s.worked.append((t, t + issue + extra, array * (issue + extra) // issue))
        return extra

    @staticmethod
    def _used(s: SlowSequencer, t: int) -> Fraction:
        """Cycles of the whole array from the start of the window to `t`."""
        found = Fraction(0)
        for begin, end, array in s.worked:
            shared = min(end, t) - max(begin, s.window)
            if shared > 0:
                found += Fraction(-(-array * shared * sk.ONE // (end - begin)), sk.ONE)
        return found

    def _enqueue(self, index: int, transfer: int, done: int) -> None:
        queue = self.tables.transfers[transfer].queue
        offsets = self.parts.offsets[transfer].tolist()
        rings: list[deque[int]] = []
        for ring in range(self.tables.queue_sets[queue].num_queues):
            work: deque[int] = deque()
            mark = max(1, self.spec.to_cycles(self.spec.dma_element_ns))
            hidden = 0
            for count, cost, _ in self.parts.rows[offsets[ring] : offsets[ring + 1]].tolist():
                elements = count
                while count > 0:
                    served = min(count, sk.QUANTUM)
                    work.append(-(-served * cost // 1024))
                    count -= served
                hidden = max(0, elements * (cost // 1024 - mark)) if self.spec.dma_elements_overlap else 0
            work.append(max(1, mark - hidden))
            rings.append(work)
        ready = done + self.spec.to_cycles(self.spec.dma_start_ns)
        self.queues[queue].append(SlowTransfer(index, ready, rings, len(rings)))

    def _complete(self, s: SlowSequencer, index: int, t: int) -> None:
        self.log.append((index, t))
        self._update(s.core, index, When.COMPLETE)

    def _update(self, core: int, index: int, when: When) -> None:
        for update in self.tables.instructions[index]["updates"]:
            if update["kind"] == Update.NONE or update["when"] != when:
                continue
            key = (core, int(update["semaphore"]))
            amount = {Update.SEM_INC: 1, Update.SEM_ADD: int(update["value"])}[Update(int(update["kind"]))]
            self.semaphores[key] = self.semaphores.get(key, 0) + amount

    def _dma(self, number: int, t: int) -> bool:
        engine = self.engines[number]
        core, mine = divmod(number, self.spec.num_dma_engines)
        happened = False
        if engine.serving is not None and engine.until == t:
            happened = True
            queue, transfer, ring = engine.serving
            engine.serving = None
            if not transfer.rings[ring]:
                transfer.left -= 1
                if transfer.left == 0:
                    self._finish(queue, t)
        if engine.serving is not None:
            return happened
        for queue, ring in self._turns(core, mine, engine.last):
            transfer = next((x for x in self.queues[queue] if x.rings[ring]), None)
            if transfer is not None and transfer.ready <= t:
                engine.last, engine.until = (queue, ring), t + transfer.rings[ring].popleft()
                engine.serving = (queue, transfer, ring)
                return True
        return happened

    def _turns(self, core: int, mine: int, last: tuple[int, int]) -> list[tuple[int, int]]:
        """Rings of a DMA engine in round-robin order after the one served last."""
        per_core = self.spec.num_dma_engines
        all_rings = [
            (queue.id, ring)
            for queue in self.tables.queue_sets
            if queue.core == core
            for ring in range(queue.num_queues)
            if (ring + (queue.id if queue.num_queues < per_core else 0)) % per_core == mine
        ]
        return [x for x in all_rings if x > last] + [x for x in all_rings if x <= last]

    def _finish(self, queue: int, t: int) -> None:
        transfer = self.queues[queue].popleft()
        self.log.append((-1 - transfer.trigger, t))
        row = self.tables.transfers[int(self.tables.transfer_of[transfer.trigger])]
        amount = self.tables.queue_sets[queue].num_queues
        if row.semaphore >= 0:
            key = (row.core, row.semaphore)
            self.semaphores[key] = self.semaphores.get(key, 0) + amount
        for semaphore in row.remote_semaphores:
            key = (1 - row.core, semaphore)
            self.semaphores[key] = self.semaphores.get(key, 0) + amount
