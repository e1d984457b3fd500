"""List what tasks and Host calls of a program touch, to compare the order of accesses of two runs.

Entry i is task i, entry n + i Host call i.
"""

from collections.abc import Sequence

import numpy as np

from npuviz.sim.access_order import DENSE, SPARSE, AccessTable
from npuviz.sim.replay.versions import both_phases
from npuviz.targets.rk3588.machine.program_accesses import ProgramAccesses
from npuviz.targets.rk3588.tables import HostCall, Tables, Task
from npuviz.targets.rk3588.task.accesses import access_rows
from npuviz.targets.rk3588.task.cost import Cost


def access_table(
    tables: Tables, costs: Sequence[Cost], memory: int, accesses: ProgramAccesses
) -> AccessTable:
    """Return the accesses of all tasks and Host calls. memory  id of DDR"""
    parts = [_task_rows(task, cost) for task, cost in zip(tables.tasks, costs, strict=True)]
    parts += [_host_rows(tables, call) for call in tables.hosts]
    rows = [(memory, write, 0, 1, low, high, 0) for part in parts for write, low, high in part if high > low]
    first_host = sum(high > low for part in parts[: len(tables.tasks)] for _, low, high in part)
    lengths = [sum(high > low for _, low, high in part) for part in parts]
    return AccessTable(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array(rows, np.int64).reshape(-1, 7),
        np.arange(len(parts)),
        ("CBUF: what a task keeps there for the next one of its core",),
        kinds=np.where(np.arange(len(rows)) < first_host, SPARSE, DENSE),
        patterns=_numbered(rows, first_host),
        exact=accesses,
    )


def _numbered(rows: list[tuple[int, ...]], first_host: int) -> np.ndarray:
    """Number the rows; those of tasks get equal numbers if memory, direction and range are equal.

    Tasks whose ranges are equal write the same cube, so that the gaps between its atoms are in no other row.
    """
    table = np.array(rows, np.int64).reshape(-1, 7)
    _, numbers = np.unique(table, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1).astype(np.int64)
    numbers[first_host:] += len(rows)
    return numbers


def _task_rows(task: Task, cost: Cost) -> list[tuple[int, int, int]]:
    """Return the rows of a task; each surface of a cube is a row, because cores share out the rows of
    surfaces."""
    found: list[tuple[int, int, int]] = []
    steps: dict[tuple[int, int], tuple[int, int]] = {}
    conv, output = task.work.convolution, task.work.output
    if conv is not None:
        span = max(0, conv.line_stride + conv.surface_stride) * 16
        steps[0, conv.feature_address] = (span, conv.width * conv.height * 16)
    if output is not None and output.to_memory:
        steps[1, output.address] = (output.surface_stride * 16, output.width * output.height * 16)
    for write, low, high in access_rows(task, cost):
        step, size = steps.get((write, low), (0, 0))
        if not 0 < size < step:
            found.append((write, low, high))
            continue
        found += [(write, place, min(place + size, high)) for place in range(low, high, step)]
    return found


def _host_rows(tables: Tables, call: HostCall) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for write, numbers in ((0, call.reads), (1, call.writes)):
        for number in numbers:
            buffer = tables.buffers[number]
            found.append((write, buffer.address, buffer.address + buffer.size_bytes))
    return found


def access_order(log: np.ndarray, count: int) -> np.ndarray:
    """Return the order of a log of completions. count  tasks of the program"""
    return both_phases(np.where(log[:, 0] >= 0, log[:, 0], count - 1 - log[:, 0]), log[:, 1])
