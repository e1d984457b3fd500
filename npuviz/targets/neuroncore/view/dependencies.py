"""Find dependencies between instructions: from each semaphore wait to its update, typed by common bytes."""

from functools import cached_property

import numpy as np

from npuviz.program.graph import Graph
from npuviz.program.instruction import Dependency, DependencyKind
from npuviz.targets.neuroncore.isa import PRODUCTS, Engine, Flag
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.accesses import access_rows, transfer_accesses
from npuviz.targets.neuroncore.machine.synchronization import link
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables

LOOK_BACK = 64
"""Instructions before the one waited for that are searched too: a wait covers all earlier work of an
engine.
"""
_KINDS: tuple[tuple[DependencyKind, int, int], ...] = (("flow", 1, 0), ("output", 1, 1), ("anti", 0, 1))
"""(kind, whether the source writes, whether the sink writes), strongest first."""


class Dependencies:
    """Finds the dependencies of one instruction; makes the program's arrays at the first question."""

    def __init__(self, tables: Tables, spec: NeuronSpec, graph: Graph) -> None:
        self._tables, self._spec, self._graph = tables, spec, graph

    @cached_property
    def _operands(self) -> tuple[np.ndarray, np.ndarray]:
        return access_rows(self._spec, self._tables, self._graph)

    @cached_property
    def _transfers(self) -> tuple[np.ndarray, np.ndarray]:
        return transfer_accesses(self._spec, self._tables)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(k, 2) source and sink of every wait, sorted by source; and the indices that sort them by sink."""
        links = link(self._spec, self._tables)
        sinks = np.repeat(np.arange(len(links.wait_count)), links.wait_count)
        sources = links.waits[:, sk.WAIT.producer]
        known = sources >= 0
        pairs = np.unique(np.stack([sources[known], sinks[known]], axis=1), axis=0)
        return pairs, np.argsort(pairs[:, 1], kind="stable")

    def accesses(self, index: int) -> np.ndarray:
        """Return the access rows (m, sk.ACCESS.num_words) of an instruction and of the transfer it starts."""
        rows, ranges = self._operands
        first, count = ranges[index].tolist()
        own = rows[first : first + count]
        transfer = int(self._tables.transfer_of[index])
        if transfer < 0:
            return own
        rows, ranges = self._transfers
        first, count = ranges[transfer].tolist()
        return np.concatenate([own, rows[first : first + count]])

    def of(self, index: int) -> tuple[Dependency, ...]:
        """Return all dependencies with this instruction as source or sink, by source then sink."""
        pairs, by_sink = self._pairs
        low, high = np.searchsorted(pairs[:, 0], [index, index + 1])
        found = [Dependency(index, sink, self._kind(index, sink)) for sink in pairs[low:high, 1].tolist()]
        low, high = np.searchsorted(pairs[by_sink, 1], [index, index + 1])
        for source in pairs[by_sink[low:high], 0].tolist():
            found.append(Dependency(source, index, self._kind(source, index)))
        found += self._accumulations(index)
        return tuple(sorted(found, key=lambda each: (each.source, each.sink)))

    def _kind(self, source: int, sink: int) -> DependencyKind:
        """Return the kind of the strongest overlap with the source, else with LOOK_BACK instructions before
        it.
        """
        mine = self.accesses(sink)
        first = self._start_of(source)
        for each in range(source, max(first, source - LOOK_BACK) - 1, -1):
            kind = _overlap(self.accesses(each), mine)
            if kind is not None:
                return kind
        return "flow"

    def _start_of(self, index: int) -> int:
        number = int(np.searchsorted(self._tables.sequencers[:, 1], index, side="right"))
        return int(self._tables.sequencers[number, 0])

    def _accumulations(self, index: int) -> list[Dependency]:
        """Return a matmul's dependencies by accumulation: PE adds to PSUM in program order, without
        semaphores.
        """
        code = self._tables.instructions
        if code["opcode"][index] not in PRODUCTS or code["engine"][index] != Engine.PE:
            return []
        found: list[Dependency] = []
        before = self._added_to(index)
        if before is not None:
            found.append(Dependency(before, index, "accumulate"))
        end = int(self._tables.sequencers[self._tables.sequencers[:, 1] > index][0, 1])
        for each in range(index + 1, min(end, index + 1 + LOOK_BACK)):
            if self._added_to(each) == index:
                found.append(Dependency(index, each, "accumulate"))
                break
        return found

    def _added_to(self, index: int) -> int | None:
        """Return the nearest earlier matmul that wrote where this one accumulates; None if there is none."""
        code = self._tables.instructions
        if code["opcode"][index] not in PRODUCTS or not code["flags"][index] & Flag.ACCUMULATE:
            return None
        mine = self.accesses(index)
        for each in range(index - 1, max(self._start_of(index), index - LOOK_BACK) - 1, -1):
            if code["opcode"][each] in PRODUCTS and _meets(self.accesses(each), mine, 1, 1):
                return each
        return None


def _overlap(source: np.ndarray, sink: np.ndarray) -> DependencyKind | None:
    for kind, first, second in _KINDS:
        if _meets(source, sink, first, second):
            return kind
    return None


def _meets(source: np.ndarray, sink: np.ndarray, source_writes: int, sink_writes: int) -> bool:
    """Return whether the rows of both that write (1) or read (0) have bytes in common."""
    a = source[source[:, sk.ACCESS.write] == source_writes][:, None]
    b = sink[sink[:, sk.ACCESS.write] == sink_writes][None]
    memory, partition, count, low, high = 0, 2, 3, 4, 5
    return bool(
        (
            (a[..., memory] == b[..., memory])
            & (a[..., partition] < b[..., partition] + b[..., count])
            & (b[..., partition] < a[..., partition] + a[..., count])
            & (a[..., low] < b[..., high])
            & (b[..., low] < a[..., high])
        ).any()
    )
