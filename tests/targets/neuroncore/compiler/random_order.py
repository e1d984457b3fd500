"""Runs a program's tables with every freedom that the machine has, and notes when each piece of work ran.

Engines issue in order, several instructions may be in flight, engines and queue sets complete in order;
which of them moves next is drawn. Values are not computed.
"""

import random
from collections import deque
from dataclasses import dataclass

from npuviz.targets.neuroncore.isa import Opcode, Update
from npuviz.targets.neuroncore.tables import Tables

MAX_FLIGHTS = 4


@dataclass
class Span:
    """Ticks at which a piece of work began and took effect."""

    begin: int = -1
    end: int = -1


class RandomMachine:
    """One run. `spans[index]` is an instruction's, `transfer_spans[index]` a transfer's.

    log  completions in order, as the machine's log: instruction index, or -1 - index for its transfer
    """

    def __init__(self, tables: Tables, seed: int) -> None:
        self.log: list[int] = []
        self._trigger = {int(t): i for i, t in enumerate(tables.transfer_of) if t >= 0}
        self._tables = tables
        self._random = random.Random(seed)
        self._rows = tables.instructions
        self.spans = [Span() for _ in range(len(self._rows))]
        self.transfer_spans = [Span() for _ in tables.transfers]
        self._pc = tables.sequencers[:, 0].tolist()
        self._flights: list[deque[int]] = [deque() for _ in self._pc]
        self._queued: list[deque[int]] = [deque() for _ in tables.queue_sets]
        self._semaphores: dict[tuple[int, int], int] = {}
        self._now = 0

    def run(self) -> bool:
        """Run to the end; False if the program hangs."""
        while True:
            actions = [
                (kind, at)
                for kind, items in (
                    ("issue", range(len(self._pc))),
                    ("complete", range(len(self._pc))),
                    ("transfer", range(len(self._queued))),
                )
                for at in items
                if self._can(kind, at)
            ]
            if not actions:
                break
            self._now += 1
            self._do(*self._random.choice(actions))
        return all(pc == end for pc, (_, end) in zip(self._pc, self._tables.sequencers.tolist(), strict=True))

    def _can(self, kind: str, at: int) -> bool:
        if kind == "complete":
            return bool(self._flights[at])
        if kind == "transfer":
            return bool(self._queued[at])
        if self._pc[at] >= self._tables.sequencers[at, 1] or len(self._flights[at]) >= MAX_FLIGHTS:
            return False
        core = self._core(at)
        return all(
            not wait["used"] or self._semaphores.get((core, int(wait["semaphore"])), 0) >= wait["value"]
            for wait in self._rows["waits"][self._pc[at]]
        )

    def _core(self, sequencer: int) -> int:
        return min(sequencer // 5, self._tables.num_cores - 1) if sequencer < len(self._pc) - 1 else 0

    def _do(self, kind: str, at: int) -> None:
        if kind == "issue":
            index = self._pc[at]
            self._pc[at] += 1
            self.spans[index].begin = self._now
            self._flights[at].append(index)
        elif kind == "complete":
            index = self._flights[at].popleft()
            self.spans[index].end = self._now
            self.log.append(index)
            self._update(index, self._core(at))
            if self._rows["opcode"][index] in (Opcode.DMA_TRIGGER, Opcode.DMA_COPY):
                transfer = int(self._tables.transfer_of[index])
                self.transfer_spans[transfer].begin = self.spans[index].begin
                self._queued[self._tables.transfers[transfer].queue].append(transfer)
        else:
            transfer = self._queued[at].popleft()
            self.transfer_spans[transfer].end = self._now
            self.log.append(-1 - self._trigger[transfer])
            queue = self._tables.queue_sets[at]
            self._add(queue.core, self._tables.transfers[transfer].semaphore, queue.num_queues)
            for semaphore in self._tables.transfers[transfer].remote_semaphores:
                self._add(1 - queue.core, semaphore, queue.num_queues)

    def _update(self, index: int, core: int) -> None:
        for update in self._rows["updates"][index]:
            if update["kind"] != Update.NONE:
                assert update["kind"] == Update.SEM_INC
                self._add(core, int(update["semaphore"]), 1)

    def _add(self, core: int, semaphore: int, amount: int) -> None:
        if semaphore >= 0:
            key = (core, semaphore)
            self._semaphores[key] = self._semaphores.get(key, 0) + amount
