"""Build the state words at cycle 0, and compute where their parts begin."""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.isa import Opcode
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet, Tables

FIRST_LOG = 1 << 10


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes and first words of the parts of the state; all but the log's size are fixed by the program."""

    sequencers: int
    engines: int
    wakes: int
    sequencer_words: int
    engine_words: int
    queues: int
    rings: int
    semaphores: int
    ports: int
    nodes: int
    tiles: int
    log: int


def make_shape(spec: NeuronSpec, tables: Tables, num_nodes: int) -> Shape:
    """Compute where the parts of the state begin."""
    sequencers, engines = len(tables.sequencers), tables.num_cores * spec.num_dma_engines
    place = sk.CHIP.num_words
    starts: list[int] = []
    for words in (
        sequencers + engines,
        sequencers * sk.SEQUENCER.num_words,
        engines * sk.ENGINE.num_words,
        len(tables.queue_sets) * sk.QUEUE.num_words,
        len(tables.queue_sets) * sk.MAX_RINGS * sk.RING.num_words,
        tables.num_cores * (spec.num_semaphores + spec.num_events) * sk.SEMAPHORE.num_words,
        tables.num_cores * sk.PORTS,
        num_nodes * sk.NODE.num_words,
        len(tables.allocations),
        0,
    ):
        starts.append(place)
        place += words
    return Shape(sequencers, engines, *starts)


def build_state(spec: NeuronSpec, tables: Tables, shape: Shape, num_nodes: int) -> np.ndarray:
    """Build the state at cycle 0, (words,) int64."""
    s = np.zeros(shape.log + FIRST_LOG * sk.LOG_WORDS, dtype=np.int64)
    chip = sk.CHIP(s)
    chip.fault_instruction = -1
    chip.sequencers_count = shape.sequencers
    chip.engines_count = shape.engines
    chip.cores_count = tables.num_cores
    chip.wakes = shape.wakes
    chip.sequencers = shape.sequencer_words
    chip.engines = shape.engine_words
    chip.queues = shape.queues
    chip.queues_count = len(tables.queue_sets)
    chip.rings = shape.rings
    chip.semaphores = shape.semaphores
    chip.semaphores_count = spec.num_semaphores + spec.num_events
    chip.events_from = spec.num_semaphores
    chip.ports = shape.ports
    chip.nodes = shape.nodes
    chip.nodes_count = num_nodes
    chip.tiles = shape.tiles
    chip.tiles_count = len(tables.allocations)
    chip.log = shape.log
    chip.log_capacity = FIRST_LOG
    chip.again = sk.FAR
    chip.dma_start, chip.dma_cost = spec.to_cycles(spec.dma_start_ns), sk.ONE
    chip.ramp, chip.ramp_share = spec.to_cycles(spec.pe_ramp_ns), round(spec.pe_ramp_share * sk.ONE)
    s[shape.wakes + shape.sequencers : shape.wakes + shape.sequencers + shape.engines] = sk.FAR
    for number, (first, end) in enumerate(tables.sequencers.tolist()):
        sequencer = sk.SEQUENCER(s, shape.sequencer_words, number)
        sequencer.pc = sequencer.first = first
        sequencer.end = end
        sequencer.current = sequencer.done = -1
        sequencer.retry = sk.FAR
        sequencer.cost, sequencer.is_limited = sk.ONE, int(spec.pe_ramp_ns > 0)
    for number in range(shape.engines):
        engine = sk.ENGINE(s, shape.engine_words, number)
        engine.queue = engine.slice = -1
        engine.core, engine.number = divmod(number, spec.num_dma_engines)
    for queue in tables.queue_sets:
        row = sk.QUEUE(s, shape.queues, queue.id)
        row.core, row.rings, row.base = queue.core, queue.num_queues, first_engine(spec, queue)
    num_semaphores = tables.num_cores * (spec.num_semaphores + spec.num_events)
    sk.RING.column_of(s, shape.rings, len(tables.queue_sets) * sk.MAX_RINGS, "left")[:] = -1
    sk.SEMAPHORE.column_of(s, shape.semaphores, num_semaphores, "updater")[:] = -1
    sk.NODE.column_of(s, shape.nodes, num_nodes, "left")[:] = _completions(tables, num_nodes)
    s[shape.tiles : shape.tiles + len(tables.allocations)] = -1
    return s


def first_engine(spec: NeuronSpec, queue: QueueSet) -> int:
    """Return the DMA engine of a set's first ring. Assumed: sets of few engines start at different ones."""
    return queue.id % spec.num_dma_engines if queue.num_queues < spec.num_dma_engines else 0


def _completions(tables: Tables, num_nodes: int) -> np.ndarray:
    """Count the completions of instructions and transfers that belong to each graph node."""
    done = tables.instructions["opcode"] != Opcode.END
    weights = done.astype(np.int64) + (tables.transfer_of >= 0)
    held = tables.nodes >= 0
    return np.bincount(tables.nodes[held], weights[held], minlength=num_nodes).astype(np.int64)


def grow_log(state: np.ndarray) -> np.ndarray:
    """Return a copy of the state with four times the room for the log."""
    capacity = int(sk.CHIP(state).log_capacity) * 4
    grown = np.zeros(int(sk.CHIP(state).log) + capacity * sk.LOG_WORDS, dtype=np.int64)
    grown[: len(state)] = state
    sk.CHIP(grown).log_capacity = capacity
    return grown
