"""Represent an RK3588 program for machine, values and listing: tasks, the memory they use, and their jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.targets.rk3588.task.work import Work


@dataclass(frozen=True)
class Buffer:
    """A range of the 32-bit address space.

    data        initial bytes (uint8, read-only), None: zeros
    tensor      graph tensor that it holds, -1 if none
    layout      how it holds the tensor: "feature" (NC1HWC2 of `dtype`), "weight", "row-major", "rows"
                (row-major, each row filled up to whole atoms), "bias", "stream" or "raw"
    shape       of the tensor as the graph has it
    dtype       name of npuviz.program.dtypes
    scale, zero_point  of quantised data, else 1.0 and 0
    is_cleared  whether the program relies on zeros where nothing is written
    """

    name: str
    address: int
    size_bytes: int
    layout: str = "raw"
    tensor: int = -1
    shape: tuple[int, ...] = ()
    dtype: str = "uint8"
    scale: float = 1.0
    zero_point: int = 0
    data: np.ndarray | None = None
    is_cleared: bool = False


@dataclass(frozen=True)
class Task:
    """One entry of the task table.

    index      position in `Tables.tasks`
    core       core that runs it (0..2)
    job        job that it belongs to
    node       graph node, -1 if none
    stream     address of its words
    words      (n,) uint64 as stored, tail included
    registers  offset -> value as the task sees them, inherited ones included (ping-pong groups)
    changed    offsets that this task writes
    enable_mask, interrupt_mask  of the descriptor
    """

    index: int
    core: int
    job: int
    stream: int
    words: np.ndarray
    registers: Mapping[int, int]
    changed: frozenset[int]
    work: Work
    enable_mask: int
    interrupt_mask: int
    node: int = -1


@dataclass(frozen=True, slots=True)
class HostCall:
    """A graph node on the CPU: it runs when `job` jobs are done, before the next one starts.

    Layout conversions of graph inputs and outputs are host calls, too: their `node` is -1.
    """

    job: int
    node: int
    num_bytes: int
    name: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tables:
    """A program: jobs run one after the other; the tasks of a job run in order on their cores.

    tasks     sorted by job, core, order
    buffers   sorted by address
    hosts     sorted by job
    num_jobs  number of jobs; a job ends when all its cores have run their tasks
    outputs   graph output tensor -> buffer
    plan      "1", "2" or "3" cores, for people
    """

    num_cores: int
    tasks: tuple[Task, ...]
    buffers: tuple[Buffer, ...]
    num_jobs: int
    hosts: tuple[HostCall, ...] = ()
    outputs: Mapping[int, int] = field(default_factory=dict[int, int])
    plan: str = "1"
