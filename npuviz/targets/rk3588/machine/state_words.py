"""Lay out the words of kernels: program words from the tables, the root state at cycle 0."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.latencies import varied_hosts, varied_spec, vary_tasks
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.task.accesses import access_rows
from npuviz.targets.rk3588.task.cost import Cost

QUEUES_PER_CORE = 2
ONE = 65536
"""One cycle in the units of `bus_cost` and `core_cost`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """First words of the parts of the state."""

    cores: int
    nodes: int
    records: int
    log: int
    end: int


def make_shape(spec: RknnSpec, tables: Tables, num_nodes: int) -> Shape:
    """Return where the parts of the state begin."""
    cores = sk.CHIP.num_words
    nodes = cores + spec.cores * sk.CORE.num_words
    records = nodes + num_nodes * sk.NODE.num_words
    log = records + len(tables.tasks) * sk.RESULT.num_words
    return Shape(cores, nodes, records, log, log + 2 * (len(tables.tasks) + len(tables.hosts)))


def build_state(spec: RknnSpec, tables: Tables, shape: Shape, num_nodes: int) -> np.ndarray:
    """Return (words,) int64: the state at cycle 0."""
    spec = varied_spec(spec)
    s = np.zeros(shape.end, dtype=np.int64)
    header = {
        sk.CHIP.cores_count: spec.cores,
        sk.CHIP.cores: shape.cores,
        sk.CHIP.jobs: tables.num_jobs,
        sk.CHIP.nodes: shape.nodes,
        sk.CHIP.nodes_count: num_nodes,
        sk.CHIP.records: shape.records,
        sk.CHIP.tasks_count: len(tables.tasks),
        sk.CHIP.log: shape.log,
        sk.CHIP.bus_until: sk.FAR,
        sk.CHIP.bus_stream: -1,
        sk.CHIP.bus_since: -1,
        sk.CHIP.hang: -1,
        sk.CHIP.fault_task: -1,
        sk.CHIP.bus_cost: max(1, round(ONE / spec.bytes_per_cycle)),
        sk.CHIP.core_cost: ONE,
        sk.CHIP.task_overhead: spec.to_cycles(spec.task_ns) + spec.to_cycles(spec.task_driver_ns),
        sk.CHIP.job_driver: spec.to_cycles(spec.job_driver_ns),
        sk.CHIP.backlog: spec.backlog_bytes,
    }
    for word, value in header.items():
        s[word] = value
    for core in range(spec.cores):
        k = sk.CORE(s, shape.cores, core)
        k.task = k.group_start = k.fetch_since = k.dpu_since = -1
        k.out_until = sk.FAR
        for stream in range(sk.STREAMS):
            k.streams[stream].start = -1
    nodes = [task.node for task in tables.tasks] + [host.node for host in tables.hosts]
    held = np.array([node for node in nodes if node >= 0], dtype=np.int64)
    left = slice(shape.nodes + sk.NODE.left, shape.records, sk.NODE.num_words)
    s[left] = np.bincount(held, minlength=num_nodes) if num_nodes else 0
    return s


@dataclass(frozen=True, slots=True)
class Numbering:
    """Ids of the tracks and of the memory that the kernel needs to know."""

    host: int
    driver: int
    bus: int
    ddr: int


def numbering(spec: RknnSpec) -> Numbering:
    """Number the tracks behind those of the cores, and DDR."""
    first = spec.cores * sk.TRACKS_PER_CORE
    return Numbering(first, first + 1, first + 2, spec.cores)


class _Words:
    """The program words under construction, part after part."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = [np.zeros(sk.PROGRAM.num_words, dtype=np.int64)]
        self._length = sk.PROGRAM.num_words

    def set(self, word: int, value: int) -> None:
        self._parts[0][word] = value

    def add(self, word: int, rows: Sequence[Sequence[int]]) -> None:
        part = np.array([value for row in rows for value in row], dtype=np.int64)
        self._parts[0][word] = self._length
        self._parts.append(part)
        self._length += len(part)

    def join(self) -> np.ndarray:
        return np.concatenate(self._parts)


def build_program(
    spec: RknnSpec, tables: Tables, costs: Sequence[Cost], numbering: Numbering, hosts: Sequence[int]
) -> np.ndarray:
    """Return (words,) int64: everything the kernel reads and never changes. hosts  cycles of each Host
    call"""
    spec = varied_spec(spec)
    words = _Words()
    accesses: list[tuple[int, int, int]] = []
    rows: list[list[int]] = []
    for task, cost in zip(tables.tasks, costs, strict=True):
        first = len(accesses)
        accesses += access_rows(task, cost)
        rows.append(_task_row(task, cost, first, len(accesses) - first))
    vary_tasks(spec, tables, rows)
    words.add(sk.PROGRAM.tasks, rows)
    words.add(sk.PROGRAM.jobs, _job_rows(tables))
    words.add(sk.PROGRAM.hosts, _host_rows(tables, varied_hosts(spec, hosts)))
    words.add(sk.PROGRAM.accesses, accesses)
    words.set(sk.PROGRAM.hosts_count, len(tables.hosts))
    words.set(sk.PROGRAM.chunk, spec.chunk_bytes)
    words.set(sk.PROGRAM.stripe, spec.stripe_atomics)
    words.set(sk.PROGRAM.track_host, numbering.host)
    words.set(sk.PROGRAM.track_driver, numbering.driver)
    words.set(sk.PROGRAM.track_bus, numbering.bus)
    words.set(sk.PROGRAM.memory_ddr, numbering.ddr)
    words.set(sk.PROGRAM.queues_per_core, QUEUES_PER_CORE)
    return words.join()


def _task_row(task: Task, cost: Cost, first: int, count: int) -> list[int]:
    work = task.work
    kind = sk.KIND_TASK_ELEMENTWISE
    if cost.is_pooling:
        kind = sk.KIND_TASK_POOLING
    elif cost.factor > 0 and work.convolution is not None:
        kind = sk.KIND_TASK_DEPTHWISE if work.convolution.is_depthwise else sk.KIND_TASK_CONV
    row = [0] * sk.TASK.num_words
    out_cost = max(1, round(cost.out_elements / cost.out_rate * 1024))
    values = {
        sk.TASK.kind: kind,
        sk.TASK.node: task.node,
        sk.TASK.groups: cost.groups,
        sk.TASK.atoms: cost.atoms,
        sk.TASK.factor: cost.factor,
        sk.TASK.row_atoms: max(1, cost.row_atoms),
        sk.TASK.stride: cost.stride,
        sk.TASK.reach: cost.reach,
        sk.TASK.row_bytes: cost.row_bytes,
        sk.TASK.feature_bytes: cost.feature_bytes,
        sk.TASK.weight_bytes: cost.weight_bytes,
        sk.TASK.group_bytes: cost.group_bytes,
        sk.TASK.weight_room: cost.weight_room,
        sk.TASK.operand_bytes: cost.operand_bytes,
        sk.TASK.out_cost: out_cost,
        sk.TASK.out_cost_last: out_cost,
        sk.TASK.write_atom: cost.write_atom,
        sk.TASK.write_last: cost.write_last,
        sk.TASK.command_bytes: 8 * len(task.words),
        sk.TASK.is_pooling: int(cost.is_pooling),
        sk.TASK.hangs: int(bool(cost.problem)),
        sk.TASK.access: first,
        sk.TASK.accesses: count,
        sk.TASK.instruction: task.index,
    }
    for word, value in values.items():
        row[word] = value
    return row


def _job_rows(tables: Tables) -> list[list[int]]:
    """Return per job, and once more at the end: first task of cores 0, 1, 2, the end, end of host calls."""
    rows: list[list[int]] = []
    keys = [(task.job, task.core) for task in tables.tasks]
    hosts = [host.job for host in tables.hosts]
    for job in range(tables.num_jobs + 1):
        bounds = [bisect_left(keys, (job, core)) for core in range(4)]
        rows.append([*bounds, bisect_right(hosts, job)])
    return rows


def _host_rows(tables: Tables, cycles: Sequence[int]) -> list[list[int]]:
    return [
        [cycles[number], host.node, len(tables.tasks) + number] for number, host in enumerate(tables.hosts)
    ]
