"""List the latencies that a seed changes, and their ranges; change them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npuviz.sim.latencies import Draws, Varied, scaled
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables

# Assumed: all bounds. No source says how much these times scatter.
_ENGINE = (0.25, 4.0)
_MEMORY = (0.5, 4.0)
_HOST = (0.5, 2.0)
_OF_CORE, _OF_OUTPUT = "CORE of a task, cycles an atomic", "DPU and PPU of a task, cycles an element"
_OF_HOST, _OF_DDR = "calls of the Host", "DDR, bytes a cycle; register commands; the driver"

NOT_VARIED = ("DDR: which of two streams has its turn",)


def varied(tables: Tables) -> tuple[Varied, ...]:
    """Return the latencies that a seed changes in a run of a program."""
    found = (
        Varied(_OF_CORE, len(tables.tasks), *_ENGINE),
        Varied(_OF_OUTPUT, len(tables.tasks), *_ENGINE),
        Varied(_OF_HOST, len(tables.hosts), *_HOST),
        Varied(_OF_DDR, 4, *_MEMORY),
    )
    return tuple(each for each in found if each.count)


def varied_spec(spec: RknnSpec) -> RknnSpec:
    """Return the spec with the figures that all tasks share changed as its seed says."""
    if not spec.latency_seed:
        return spec
    share, task, driver, job = (
        Draws(spec.latency_seed).factors(Varied(_OF_DDR, 4, *_MEMORY), range(4)).tolist()
    )
    return replace(
        spec,
        ddr_share=min(1.0, spec.ddr_share / share),
        task_ns=spec.task_ns * task,
        task_driver_ns=spec.task_driver_ns * driver,
        job_driver_ns=spec.job_driver_ns * job,
    )


def vary_tasks(spec: RknnSpec, tables: Tables, rows: list[list[int]]) -> None:
    """Change the figures of TASK rows, in place, as the spec's seed says."""
    if not spec.latency_seed or not rows:
        return
    cores = [task.core for task in tables.tasks]
    draws = Draws(spec.latency_seed)
    words = np.array(rows, np.int64)
    core = draws.factors(Varied(_OF_CORE, len(rows), *_ENGINE), cores)
    words[:, sk.TASK.factor] = scaled(words[:, sk.TASK.factor], core, 1)
    output = draws.factors(Varied(_OF_OUTPUT, len(rows), *_ENGINE), cores)
    for word in (sk.TASK.out_cost, sk.TASK.out_cost_last):
        words[:, word] = scaled(words[:, word], output, 1)
    rows[:] = words.tolist()


def varied_hosts(spec: RknnSpec, cycles: Sequence[int]) -> list[int]:
    """Return the cycles of each Host call as the spec's seed says."""
    if not spec.latency_seed or not cycles:
        return list(cycles)
    units = np.zeros(len(cycles), np.int64)
    factors = Draws(spec.latency_seed).factors(Varied(_OF_HOST, len(cycles), *_HOST), units)
    return scaled(np.array(cycles, np.int64), factors, 1).tolist()
