"""Lays out the kernels' words: program words from the tables, the root state at cycle 0."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.costs.host import host_cycles
from npuviz.targets.neuroncore.costs.instructions import issue_cycles, latency_cycles, port_masks, to_base
from npuviz.targets.neuroncore.ids import memory_of_space
from npuviz.targets.neuroncore.isa import Opcode
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.accesses import access_rows, transfer_accesses
from npuviz.targets.neuroncore.machine.dma_elements import ring_parts
from npuviz.targets.neuroncore.machine.synchronization import Links, link
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet, Tables

FIRST_LOG = 1 << 10


@dataclass(frozen=True, slots=True)
class Shape:
    """First words of the parts of the state, all sizes but the log's fixed by the program."""

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
    """Where the parts of the state stand."""
    sequencers, engines = len(tables.sequencers), tables.num_cores * spec.num_dma_engines
    place = sk.HEADER_WORDS
    starts: list[int] = []
    for words in (
        sequencers + engines,
        sequencers * sk.SEQUENCER_WORDS,
        engines * sk.ENGINE_WORDS,
        len(tables.queue_sets) * sk.QUEUE_WORDS,
        len(tables.queue_sets) * sk.MAX_RINGS * sk.RING_WORDS,
        tables.num_cores * (spec.num_semaphores + spec.num_events) * sk.SEMAPHORE_WORDS,
        tables.num_cores * sk.PORTS,
        num_nodes * sk.NODE_WORDS,
        len(tables.allocations),
        0,
    ):
        starts.append(place)
        place += words
    return Shape(sequencers, engines, *starts)


def build_state(spec: NeuronSpec, tables: Tables, shape: Shape, num_nodes: int) -> np.ndarray:
    """(words,) int64: the state at cycle 0."""
    s = np.zeros(shape.log + FIRST_LOG * sk.LOG_WORDS, dtype=np.int64)
    header = {
        sk.H_FAULT_INSTRUCTION: -1,
        sk.H_SEQUENCERS_COUNT: shape.sequencers,
        sk.H_ENGINES_COUNT: shape.engines,
        sk.H_CORES_COUNT: tables.num_cores,
        sk.H_WAKES: shape.wakes,
        sk.H_SEQUENCERS: shape.sequencer_words,
        sk.H_ENGINES: shape.engine_words,
        sk.H_QUEUES: shape.queues,
        sk.H_QUEUES_COUNT: len(tables.queue_sets),
        sk.H_RINGS: shape.rings,
        sk.H_SEMAPHORES: shape.semaphores,
        sk.H_SEMAPHORES_COUNT: spec.num_semaphores + spec.num_events,
        sk.H_EVENTS_FROM: spec.num_semaphores,
        sk.H_PORTS: shape.ports,
        sk.H_NODES: shape.nodes,
        sk.H_NODES_COUNT: num_nodes,
        sk.H_TILES: shape.tiles,
        sk.H_TILES_COUNT: len(tables.allocations),
        sk.H_LOG: shape.log,
        sk.H_LOG_CAPACITY: FIRST_LOG,
        sk.H_AGAIN: sk.FAR,
    }
    for word, value in header.items():
        s[word] = value
    s[shape.wakes + shape.sequencers : shape.wakes + shape.sequencers + shape.engines] = sk.FAR
    for number, (first, end) in enumerate(tables.sequencers.tolist()):
        k = shape.sequencer_words + number * sk.SEQUENCER_WORDS
        s[k + sk.Q_PC] = s[k + sk.Q_FIRST] = first
        s[k + sk.Q_END] = end
        s[k + sk.Q_CURRENT] = -1
        s[k + sk.Q_DONE] = -1
        s[k + sk.Q_RETRY] = sk.FAR
    for number in range(shape.engines):
        d = shape.engine_words + number * sk.ENGINE_WORDS
        s[d + sk.D_QUEUE] = s[d + sk.D_SLICE] = -1
        s[d + sk.D_CORE], s[d + sk.D_NUMBER] = divmod(number, spec.num_dma_engines)
    for queue in tables.queue_sets:
        w = shape.queues + queue.id * sk.QUEUE_WORDS
        s[w + sk.W_CORE], s[w + sk.W_RINGS] = queue.core, queue.num_queues
        s[w + sk.W_BASE] = first_engine(spec, queue)
        for ring in range(sk.MAX_RINGS):
            s[shape.rings + (queue.id * sk.MAX_RINGS + ring) * sk.RING_WORDS + sk.R_LEFT] = -1
    updaters = slice(shape.semaphores + sk.S_UPDATER, shape.ports, sk.SEMAPHORE_WORDS)
    s[updaters] = -1
    counts = _completions(tables, num_nodes)
    s[shape.nodes + sk.N_LEFT : shape.nodes + num_nodes * sk.NODE_WORDS : sk.NODE_WORDS] = counts
    s[shape.tiles : shape.tiles + len(tables.allocations)] = -1
    return s


def first_engine(spec: NeuronSpec, queue: QueueSet) -> int:
    """DMA engine of a set's first ring. Assumed: sets that need few engines start at different ones."""
    return queue.id % spec.num_dma_engines if queue.num_queues < spec.num_dma_engines else 0


def _completions(tables: Tables, num_nodes: int) -> np.ndarray:
    """Completions of instructions and transfers that each graph node needs."""
    done = tables.instructions["opcode"] != Opcode.END
    weights = done.astype(np.int64) + (tables.transfer_of >= 0)
    held = tables.nodes >= 0
    return np.bincount(tables.nodes[held], weights[held], minlength=num_nodes).astype(np.int64)


def grow_log(state: np.ndarray) -> np.ndarray:
    """The same state with four times the room for the log."""
    capacity = int(state[sk.H_LOG_CAPACITY]) * 4
    grown = np.zeros(int(state[sk.H_LOG]) + capacity * sk.LOG_WORDS, dtype=np.int64)
    grown[: len(state)] = state
    grown[sk.H_LOG_CAPACITY] = capacity
    return grown


@dataclass(frozen=True, slots=True)
class Numbering:
    """Track numbers that the kernel needs, from the description."""

    engines: int
    pending: int
    semaphores: np.ndarray


class _Words:
    """Parts of the program words, one behind the other."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = [np.zeros(sk.PROGRAM_HEADER, dtype=np.int64)]
        self._length = sk.PROGRAM_HEADER

    def set(self, word: int, value: int) -> None:
        self._parts[0][word] = value

    def add(self, word: int, rows: np.ndarray | Sequence[int] | Iterable[int]) -> None:
        part = np.asarray(rows, dtype=np.int64).reshape(-1)
        self._parts[0][word] = self._length
        self._parts.append(part)
        self._length += len(part)

    def join(self) -> np.ndarray:
        return np.concatenate(self._parts)


def build_program(spec: NeuronSpec, tables: Tables, graph: Graph, numbering: Numbering) -> np.ndarray:
    """(words,) int64: everything the kernel reads and never changes."""
    links = link(spec, tables)
    words = _Words()
    accesses, ranges = access_rows(spec, tables, graph)
    moves, move_ranges = transfer_accesses(spec, tables)
    allocations, opened, closed = _allocations(tables)
    words.add(sk.P_INSTRUCTIONS, _instructions(spec, tables, graph, links, ranges, opened, closed))
    words.add(sk.P_WAITS, links.waits)
    words.add(sk.P_UPDATES, links.updates)
    parts = ring_parts(spec, tables)
    words.add(sk.P_OFFSETS, parts.offsets)
    words.add(sk.P_PARTS, parts.rows)
    words.add(sk.P_REMOTES, links.remotes)
    words.add(sk.P_ACCESSES, np.concatenate([accesses, moves]))
    words.add(sk.P_TRANSFERS, _transfers(tables, links, parts.num_bytes, move_ranges, len(accesses)))
    words.add(sk.P_OPENED, opened.items)
    words.add(sk.P_CLOSED, closed.items)
    words.add(sk.P_ALLOCATIONS, allocations)
    words.add(sk.P_TRACK_OF_SEMAPHORE, numbering.semaphores)
    words.set(sk.P_DMA_START, spec.to_cycles(spec.dma_start_ns))
    words.set(sk.P_MARK_COST, max(1, spec.to_cycles(spec.dma_element_ns)))
    words.set(sk.P_TRACK_ENGINES, numbering.engines)
    words.set(sk.P_TRACK_PENDING, numbering.pending)
    return words.join()


@dataclass(frozen=True, slots=True)
class _Lists:
    """Lists by instruction: `items[first[i] : first[i] + count[i]]`."""

    items: np.ndarray
    first: np.ndarray
    count: np.ndarray


def _by_instruction(keys: np.ndarray, num_instructions: int) -> _Lists:
    order = np.argsort(keys, kind="stable")
    count = np.bincount(keys, minlength=num_instructions)
    first = np.concatenate([[0], np.cumsum(count)[:-1]]) if num_instructions else count
    return _Lists(order.astype(np.int64), first, count)


def _allocations(tables: Tables) -> tuple[np.ndarray, _Lists, _Lists]:
    found = tables.allocations
    rows = np.zeros((len(found), sk.LIFE_WORDS), dtype=np.int64)
    for n, row in enumerate(found):
        rows[n] = (memory_of_space(int(row["core"]), int(row["space"])), 0, int(row["first"]))
    count = len(tables.instructions)
    return rows, _by_instruction(found["first"], count), _by_instruction(found["last"], count)


def _instructions(
    spec: NeuronSpec,
    tables: Tables,
    graph: Graph,
    links: Links,
    ranges: np.ndarray,
    opened: _Lists,
    closed: _Lists,
) -> np.ndarray:
    code = tables.instructions
    engine = code["engine"].astype(np.int64)
    rows = np.zeros((len(code), sk.INSTRUCTION_WORDS), dtype=np.int64)
    issue = np.asarray(issue_cycles(code, spec), dtype=np.int64)
    latency = np.asarray(latency_cycles(code, spec), dtype=np.int64)
    rows[:, sk.I_ISSUE] = np.maximum(to_base(issue, engine, spec), 1)
    rows[:, sk.I_LATENCY] = np.maximum(to_base(issue + latency, engine, spec), rows[:, sk.I_ISSUE])
    _host_costs(spec, tables, graph, rows)
    rows[:, sk.I_OPCODE] = rows[:, sk.I_KIND] = code["opcode"]
    rows[:, sk.I_PORTS] = port_masks(code, spec)
    rows[:, sk.I_WAIT], rows[:, sk.I_WAITS] = links.wait_first, links.wait_count
    rows[:, sk.I_UPDATE], rows[:, sk.I_UPDATES] = links.update_first, links.update_count
    rows[:, sk.I_TRANSFER] = tables.transfer_of
    rows[:, sk.I_NODE] = tables.nodes
    rows[:, sk.I_OPENED], rows[:, sk.I_OPENS] = opened.first, opened.count
    rows[:, sk.I_CLOSED], rows[:, sk.I_CLOSES] = closed.first, closed.count
    rows[:, sk.I_ACCESS], rows[:, sk.I_ACCESSES] = ranges[:, 0], ranges[:, 1]
    rows[:, sk.I_OP0], rows[:, sk.I_OP1], rows[:, sk.I_CMD] = code["op0"], code["op1"], code["cmd"]
    rows[:, sk.I_VALUE] = np.ascontiguousarray(code["imm"][:, 0]).view(np.int32)
    rows[:, sk.I_FLAGS] = code["flags"]
    rows[:, sk.I_TARGET] = _targets(tables)
    rows[:, sk.I_MACS] = _macs(code)
    return rows


def _host_costs(spec: NeuronSpec, tables: Tables, graph: Graph, rows: np.ndarray) -> None:
    for index in np.flatnonzero(tables.instructions["opcode"] == Opcode.HOST_CALL).tolist():
        node = graph.nodes[int(tables.instructions["id"][index])]
        rows[index, sk.I_ISSUE] = rows[index, sk.I_LATENCY] = host_cycles(spec, tables, node)


def _targets(tables: Tables) -> np.ndarray:
    """Absolute branch targets: `id` counts instructions from the start of the sequencer's program."""
    first = np.zeros(len(tables.instructions), dtype=np.int64)
    for start, end in tables.sequencers.tolist():
        first[start:end] = start
    return first + tables.instructions["id"].astype(np.int64)


def _macs(code: np.ndarray) -> np.ndarray:
    operands = code["operands"]
    free = operands["sizes"].astype(np.int64).prod(axis=2)
    macs = operands["partitions"][:, 1].astype(np.int64) * free[:, 1] * free[:, 2]
    return np.where(code["opcode"] == Opcode.NC_MATMUL, macs, 0)


def _transfers(
    tables: Tables, links: Links, num_bytes: np.ndarray, ranges: np.ndarray, offset: int
) -> np.ndarray:
    rows = np.zeros((len(tables.transfers), sk.TRANSFER_WORDS), dtype=np.int64)
    for n, transfer in enumerate(tables.transfers):
        rows[n, sk.T_QUEUE] = transfer.queue
    rows[:, sk.T_SEMAPHORE], rows[:, sk.T_EVENT] = links.transfer_semaphore, links.transfer_event
    rows[:, sk.T_REMOTE], rows[:, sk.T_REMOTES] = links.remote_first, links.remote_count
    rows[:, sk.T_BYTES] = num_bytes
    rows[:, sk.T_ACCESS], rows[:, sk.T_ACCESSES] = ranges[:, 0] + offset, ranges[:, 1]
    return rows
