"""Lays out the kernels' words: program words from the tables, the root state at cycle 0."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.task.cost import Load, load_of

QUEUES_PER_CORE = 2


@dataclass(frozen=True, slots=True)
class Shape:
    """First words of the parts of the state."""

    cores: int
    nodes: int
    records: int
    log: int
    end: int


def make_shape(spec: RknnSpec, tables: Tables, num_nodes: int) -> Shape:
    """Where the parts of the state stand."""
    cores = sk.HEADER_WORDS
    nodes = cores + spec.cores * sk.CORE_WORDS
    records = nodes + num_nodes * sk.NODE_WORDS
    log = records + len(tables.tasks) * sk.RECORD_WORDS
    return Shape(cores, nodes, records, log, log + 2 * (len(tables.tasks) + len(tables.hosts)))


def build_state(spec: RknnSpec, tables: Tables, shape: Shape, num_nodes: int) -> np.ndarray:
    """(words,) int64: the state at cycle 0."""
    s = np.zeros(shape.end, dtype=np.int64)
    header = {
        sk.H_CORES_COUNT: spec.cores,
        sk.H_CORES: shape.cores,
        sk.H_JOBS: tables.num_jobs,
        sk.H_NODES: shape.nodes,
        sk.H_NODES_COUNT: num_nodes,
        sk.H_RECORDS: shape.records,
        sk.H_TASKS_COUNT: len(tables.tasks),
        sk.H_LOG: shape.log,
        sk.H_BUS_UNTIL: sk.FAR,
        sk.H_BUS_STREAM: -1,
        sk.H_BUS_SINCE: -1,
        sk.H_HANG: -1,
        sk.H_FAULT_TASK: -1,
    }
    for word, value in header.items():
        s[word] = value
    for core in range(spec.cores):
        k = shape.cores + core * sk.CORE_WORDS
        s[k + sk.K_TASK] = s[k + sk.K_GROUP_START] = -1
        s[k + sk.K_OUT_UNTIL] = sk.FAR
        for stream in range(sk.STREAMS):
            s[k + sk.K_STREAMS + stream * sk.STREAM_WORDS + sk.R_START] = -1
    nodes = [task.node for task in tables.tasks] + [host.node for host in tables.hosts]
    held = np.array([node for node in nodes if node >= 0], dtype=np.int64)
    left = slice(shape.nodes + sk.N_LEFT, shape.records, sk.NODE_WORDS)
    s[left] = np.bincount(held, minlength=num_nodes) if num_nodes else 0
    return s


@dataclass(frozen=True, slots=True)
class Numbering:
    """Tracks and the memory that the kernel needs to know."""

    host: int
    driver: int
    bus: int
    ddr: int


def numbering(spec: RknnSpec) -> Numbering:
    """Tracks behind those of the cores, and the memory id of DDR."""
    first = spec.cores * sk.TRACKS_PER_CORE
    return Numbering(first, first + 1, first + 2, spec.cores)


class _Words:
    """Parts of the program words, one behind the other."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = [np.zeros(sk.PROGRAM_HEADER, dtype=np.int64)]
        self._length = sk.PROGRAM_HEADER

    def set(self, word: int, value: int) -> None:
        self._parts[0][word] = value

    def add(self, word: int, rows: Sequence[Sequence[int]]) -> None:
        part = np.array([value for row in rows for value in row], dtype=np.int64)
        self._parts[0][word] = self._length
        self._parts.append(part)
        self._length += len(part)

    def join(self) -> np.ndarray:
        return np.concatenate(self._parts)


def build_program(spec: RknnSpec, tables: Tables, loads: Sequence[Load], numbering: Numbering) -> np.ndarray:
    """(words,) int64: everything the kernel reads and never changes."""
    words = _Words()
    accesses: list[tuple[int, int, int]] = []
    rows: list[list[int]] = []
    for task, load in zip(tables.tasks, loads, strict=True):
        first = len(accesses)
        accesses += access_rows(task, load)
        rows.append(_task_row(task, load, first, len(accesses) - first))
    words.add(sk.P_TASKS, rows)
    words.add(sk.P_JOBS, _job_rows(tables))
    words.add(sk.P_HOSTS, _host_rows(spec, tables))
    words.add(sk.P_ACCESSES, accesses)
    words.set(sk.P_HOSTS_COUNT, len(tables.hosts))
    words.set(sk.P_BUS_COST, max(1, round(65536 / spec.bytes_per_cycle)))
    words.set(sk.P_CHUNK, spec.chunk_bytes)
    words.set(sk.P_TASK_OVERHEAD, spec.to_cycles(spec.task_ns))
    words.set(sk.P_TASK_DRIVER, spec.to_cycles(spec.task_driver_ns))
    words.set(sk.P_JOB_DRIVER, spec.to_cycles(spec.job_driver_ns))
    words.set(sk.P_BACKLOG, spec.backlog_bytes)
    words.set(sk.P_STRIPE, spec.stripe_atomics)
    words.set(sk.P_TRACK_HOST, numbering.host)
    words.set(sk.P_TRACK_DRIVER, numbering.driver)
    words.set(sk.P_TRACK_BUS, numbering.bus)
    words.set(sk.P_MEMORY_DDR, numbering.ddr)
    words.set(sk.P_QUEUES_PER_CORE, QUEUES_PER_CORE)
    return words.join()


def loads_of(tables: Tables, spec: RknnSpec) -> tuple[Load, ...]:
    """The load of every task."""
    return tuple(load_of(task, spec) for task in tables.tasks)


def _task_row(task: Task, load: Load, first: int, count: int) -> list[int]:
    work = task.work
    kind = sk.KIND_TASK_ELEMENTWISE
    if load.is_pooling:
        kind = sk.KIND_TASK_POOLING
    elif load.factor > 0 and work.convolution is not None:
        kind = sk.KIND_TASK_DEPTHWISE if work.convolution.is_depthwise else sk.KIND_TASK_CONV
    row = [0] * sk.TASK_WORDS
    cost = max(1, round(load.out_elements / load.out_rate * 1024))
    values = {
        sk.T_KIND: kind,
        sk.T_NODE: task.node,
        sk.T_GROUPS: load.groups,
        sk.T_ATOMS: load.atoms,
        sk.T_FACTOR: load.factor,
        sk.T_ROW_ATOMS: max(1, load.row_atoms),
        sk.T_STRIDE: load.stride,
        sk.T_REACH: load.reach,
        sk.T_ROW_BYTES: load.row_bytes,
        sk.T_FEATURE_BYTES: load.feature_bytes,
        sk.T_WEIGHT_BYTES: load.weight_bytes,
        sk.T_GROUP_BYTES: load.group_bytes,
        sk.T_WEIGHT_ROOM: load.weight_room,
        sk.T_OPERAND_BYTES: load.operand_bytes,
        sk.T_OUT_COST: cost,
        sk.T_OUT_COST_LAST: cost,
        sk.T_WRITE_ATOM: load.write_atom,
        sk.T_WRITE_LAST: load.write_last,
        sk.T_COMMAND_BYTES: 8 * len(task.words),
        sk.T_IS_POOLING: int(load.is_pooling),
        sk.T_HANGS: int(bool(load.problem)),
        sk.T_ACCESS: first,
        sk.T_ACCESSES: count,
        sk.T_INSTRUCTION: task.index,
    }
    for word, value in values.items():
        row[word] = value
    return row


def access_rows(task: Task, load: Load) -> list[tuple[int, int, int]]:
    """(is write, low, high) address ranges that a task touches."""
    rows = [(0, task.stream, task.stream + 8 * len(task.words))]
    conv, output, pool = task.work.convolution, task.work.output, task.work.pooling
    if conv is not None and load.factor > 0:
        span = max(0, conv.line_stride + conv.surface_stride) * 16
        surfaces = max(1, -(-conv.channels * _bytes(conv.precision) // 16))
        size = max(load.feature_bytes, span * (surfaces - 1) + conv.width * conv.height * 16)
        rows.append((0, conv.feature_address, conv.feature_address + size))
        rows.append((0, conv.weight_address, conv.weight_address + conv.weight_bytes))
    if output is not None:
        if output.is_flying:
            rows.append((0, output.main_address, output.main_address + load.feature_bytes))
        if not output.ew.is_bypassed and not output.ew.is_constant:
            rows.append((0, output.operand_address, output.operand_address + max(1, load.operand_bytes)))
        if output.to_memory:
            surfaces = -(-output.channels * _bytes(output.precision_out) // 16)
            size = output.surface_stride * 16 * (surfaces - 1) + output.width * output.height * 16
            rows.append((1, output.address, output.address + size))
    if pool is not None:
        if load.is_pooling:
            rows.append((0, pool.source_address, pool.source_address + load.feature_bytes))
        rows.append((1, pool.address, pool.address + load.written_bytes))
    return rows


def _bytes(precision: int) -> int:
    return (1, 2, 2, 2, 4, 4, 1, 4)[precision]


def _job_rows(tables: Tables) -> list[list[int]]:
    """Per job, and once more behind the last: first task of cores 0, 1, 2, the end, end of host calls."""
    rows: list[list[int]] = []
    keys = [(task.job, task.core) for task in tables.tasks]
    hosts = [host.job for host in tables.hosts]
    for job in range(tables.num_jobs + 1):
        bounds = [bisect_left(keys, (job, core)) for core in range(4)]
        rows.append([*bounds, bisect_right(hosts, job)])
    return rows


def _host_rows(spec: RknnSpec, tables: Tables) -> list[list[int]]:
    return [
        [max(1, spec.to_cycles(spec.host_call_ns + host.num_bytes / spec.host_bytes_per_ns)), host.node,
         len(tables.tasks) + number]
        for number, host in enumerate(tables.hosts)
    ]  # fmt: skip
