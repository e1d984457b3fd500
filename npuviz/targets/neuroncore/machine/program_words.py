"""Build the kernels' program words from a program's tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.costs import instructions
from npuviz.targets.neuroncore.ids import memory_of_space
from npuviz.targets.neuroncore.isa import Flag, Opcode
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.accesses import access_rows, transfer_accesses
from npuviz.targets.neuroncore.machine.dma_elements import ring_parts
from npuviz.targets.neuroncore.machine.latencies import vary_instructions
from npuviz.targets.neuroncore.machine.synchronization import Links, link
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers of the tracks that the kernel records on, from the machine's description."""

    engines: int
    pending: int
    semaphores: np.ndarray


class _Words:
    """Collects the parts of the program words, one after the other, behind the header."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = [np.zeros(sk.PROGRAM.num_words, dtype=np.int64)]
        self._length = sk.PROGRAM.num_words

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
    """Build the program words, (words,) int64: everything that the kernel reads and never changes."""
    links = link(spec, tables)
    words = _Words()
    accesses, ranges = access_rows(spec, tables, graph)
    moves, move_ranges = transfer_accesses(spec, tables)
    allocations, opened, closed = _allocations(tables)
    words.add(sk.PROGRAM.instructions, _instructions(spec, tables, graph, links, ranges, opened, closed))
    words.add(sk.PROGRAM.waits, links.waits)
    words.add(sk.PROGRAM.updates, links.updates)
    parts = ring_parts(spec, tables)
    words.add(sk.PROGRAM.offsets, parts.offsets)
    words.add(sk.PROGRAM.parts, parts.rows)
    words.add(sk.PROGRAM.remotes, links.remotes)
    words.add(sk.PROGRAM.accesses, np.concatenate([accesses, moves]))
    words.add(sk.PROGRAM.transfers, _transfers(tables, links, parts.num_bytes, move_ranges, len(accesses)))
    words.add(sk.PROGRAM.opened, opened.items)
    words.add(sk.PROGRAM.closed, closed.items)
    words.add(sk.PROGRAM.allocations, allocations)
    words.add(sk.PROGRAM.track_of_semaphore, numbering.semaphores)
    words.set(sk.PROGRAM.mark_cost, max(1, spec.to_cycles(spec.dma_element_ns)))
    words.set(sk.PROGRAM.mark_overlaps, int(spec.dma_elements_overlap))
    words.set(sk.PROGRAM.track_engines, numbering.engines)
    words.set(sk.PROGRAM.track_pending, numbering.pending)
    return words.join()


@dataclass(frozen=True, slots=True)
class _Lists:
    """A list for each instruction i: `items[first[i] : first[i] + count[i]]`."""

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
    rows = np.zeros((len(found), sk.LIFE.num_words), dtype=np.int64)
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
    rows = np.zeros((len(code), sk.INSTRUCTION.num_words), dtype=np.int64)
    issue = np.asarray(instructions.issue_cycles(code, spec), dtype=np.int64)
    latency = np.asarray(instructions.latency_cycles(code, spec), dtype=np.int64)
    rows[:, sk.INSTRUCTION.issue] = np.maximum(instructions.to_base(issue, engine, spec), 1)
    rows[:, sk.INSTRUCTION.latency] = np.maximum(
        instructions.to_base(issue + latency, engine, spec), rows[:, sk.INSTRUCTION.issue]
    )
    _host_costs(spec, tables, graph, rows)
    vary_instructions(spec, tables, rows)
    rows[:, sk.INSTRUCTION.opcode] = rows[:, sk.INSTRUCTION.kind] = code["opcode"]
    rows[:, sk.INSTRUCTION.ports] = instructions.port_masks(code, spec)
    rows[:, sk.INSTRUCTION.wait], rows[:, sk.INSTRUCTION.waits] = links.wait_first, links.wait_count
    rows[:, sk.INSTRUCTION.update], rows[:, sk.INSTRUCTION.updates] = links.update_first, links.update_count
    rows[:, sk.INSTRUCTION.transfer] = tables.transfer_of
    rows[:, sk.INSTRUCTION.node] = tables.nodes
    rows[:, sk.INSTRUCTION.opened], rows[:, sk.INSTRUCTION.opens] = opened.first, opened.count
    rows[:, sk.INSTRUCTION.closed], rows[:, sk.INSTRUCTION.closes] = closed.first, closed.count
    rows[:, sk.INSTRUCTION.access], rows[:, sk.INSTRUCTION.accesses] = ranges[:, 0], ranges[:, 1]
    rows[:, sk.INSTRUCTION.op0], rows[:, sk.INSTRUCTION.op1], rows[:, sk.INSTRUCTION.cmd] = (
        code["op0"],
        code["op1"],
        code["cmd"],
    )
    rows[:, sk.INSTRUCTION.value] = np.ascontiguousarray(code["imm"][:, 0]).view(np.int32)
    rows[:, sk.INSTRUCTION.flags] = code["flags"]
    rows[:, sk.INSTRUCTION.target] = _targets(tables)
    rows[:, sk.INSTRUCTION.macs] = _macs(code)
    rows[:, sk.INSTRUCTION.array] = instructions.array_cycles(code, spec)
    return rows


def _host_costs(spec: NeuronSpec, tables: Tables, graph: Graph, rows: np.ndarray) -> None:
    for index in np.flatnonzero(tables.instructions["opcode"] == Opcode.HOST_CALL).tolist():
        node = graph.nodes[int(tables.instructions["id"][index])]
        rows[index, sk.INSTRUCTION.issue] = rows[index, sk.INSTRUCTION.latency] = instructions.host_cycles(
            spec, graph, node
        )


def _targets(tables: Tables) -> np.ndarray:
    """Return the absolute branch targets; `id` counts from the start of the sequencer's program."""
    first = np.zeros(len(tables.instructions), dtype=np.int64)
    for start, end in tables.sequencers.tolist():
        first[start:end] = start
    return first + tables.instructions["id"].astype(np.int64)


def _macs(code: np.ndarray) -> np.ndarray:
    operands = code["operands"]
    free = operands["sizes"].astype(np.int64).prod(axis=2)
    macs = operands["partitions"][:, 1].astype(np.int64) * free[:, 1] * free[:, 2]
    macs //= np.where(code["flags"] & Flag.DOUBLE_ROW, 2, 1)
    return np.where(code["opcode"] == Opcode.NC_MATMUL, macs, 0)


def _transfers(
    tables: Tables, links: Links, num_bytes: np.ndarray, ranges: np.ndarray, offset: int
) -> np.ndarray:
    rows = np.zeros((len(tables.transfers), sk.TRANSFER.num_words), dtype=np.int64)
    for n, transfer in enumerate(tables.transfers):
        rows[n, sk.TRANSFER.queue] = transfer.queue
    rows[:, sk.TRANSFER.semaphore], rows[:, sk.TRANSFER.event] = (
        links.transfer_semaphore,
        links.transfer_event,
    )
    rows[:, sk.TRANSFER.remote], rows[:, sk.TRANSFER.remotes] = links.remote_first, links.remote_count
    rows[:, sk.TRANSFER.bytes] = num_bytes
    rows[:, sk.TRANSFER.access], rows[:, sk.TRANSFER.accesses] = ranges[:, 0] + offset, ranges[:, 1]
    return rows
