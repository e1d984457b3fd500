"""Order an engine's program: merge its computations and DMA triggers by their estimated start.

Times come from a rough simulation in which each stream (see `emitter.Emitter`) runs by itself. It respects
all dependencies, so programs in the order of its starts cannot deadlock.
"""

import numpy as np

from npuviz.targets.neuroncore.compiler.streams.emitter import Emitter
from npuviz.targets.neuroncore.costs.instructions import issue_cycles, latency_cycles, to_base
from npuviz.targets.neuroncore.machine.dma_elements import engine_cycles
from npuviz.targets.neuroncore.spec import NeuronSpec

QUEUE_DEPTH = 48
"""Most triggered transfers of a queue set: a trigger to a full queue would block its engine."""


def start_times(emitter: Emitter, spec: NeuronSpec, rows: list[np.ndarray]) -> list[np.ndarray]:
    """Estimate the start of every instruction in base cycles, by stream: rising, (n,) int64.

    rows  instructions of each stream
    """
    busy, later = _durations(spec, rows)
    moved = transfer_cycles(emitter, spec)
    waits = [_by_position(stream.waits) for stream in emitter.streams]
    starts: list[list[int]] = [[] for _ in emitter.streams]
    done: list[list[int]] = [[] for _ in range(emitter.tracker.num_channels)]
    free = [0] * len(emitter.streams)
    start_cycles = spec.to_cycles(spec.dma_start_ns)
    for channel in emitter.order:
        position = len(starts[channel])
        start = free[channel]
        for source, count in waits[channel].get(position, ()):
            start = max(start, done[source][count - 1])
        transfer = emitter.streams[channel].transfers[position]
        ends = done[channel]
        if transfer >= 0:
            finished = done[emitter.queue_channel(emitter.transfers[transfer].queue)]
            if len(finished) >= QUEUE_DEPTH:
                start = max(start, finished[-QUEUE_DEPTH])
            begin = max(start + start_cycles, finished[-1] if finished else 0)
            finished.append(begin + moved[transfer])
        starts[channel].append(start)
        free[channel] = start + busy[channel][position]
        end = free[channel] + later[channel][position]
        ends.append(max(end, ends[-1]) if ends else end)
    return [np.array(each, np.int64) for each in starts]


def _durations(spec: NeuronSpec, rows: list[np.ndarray]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the base cycles of issue and of latency, by stream."""
    busy: list[list[int]] = []
    later: list[list[int]] = []
    for each in rows:
        busy.append(to_base(issue_cycles(each, spec), each["engine"], spec).tolist())
        later.append(to_base(latency_cycles(each, spec), each["engine"], spec).tolist())
    return busy, later


def transfer_cycles(emitter: Emitter, spec: NeuronSpec) -> list[int]:
    """Return the base cycles of each transfer alone on its queue set: those of the busiest DMA engine."""
    found: list[int] = []
    for transfer in emitter.transfers:
        rings = emitter.queue_sets[transfer.queue].num_queues
        found.append(int(engine_cycles(transfer.descriptors, rings, spec)) + 1)
    return found


def _by_position(waits: list[tuple[int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for position, source, done in waits:
        found.setdefault(position, []).append((source, done))
    return found


def merged_order(starts: list[np.ndarray]) -> np.ndarray:
    """Return the order of the concatenated streams of an engine: by start, and within streams as they are."""
    return np.argsort(np.concatenate(starts), kind="stable")
