"""Programs with a synchronisation taken out."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from npuviz.sim.latencies import VariesLatencies
from npuviz.sim.replay.versions import changed_reads
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.races.runs import Racer, load_target

SAMPLES = Path(__file__).parents[1] / "sample_models"


def sample(name: str, target: str, **settings: str) -> Racer:
    """A sample model on a target."""
    return Racer(*load_target(SAMPLES / name, OpenOptions(target=target, settings=settings)))


def passes(whole: Racer, broken: Racer) -> bool:
    """Whether a broken program's nominal run computes what the whole one does; where values do not follow
    from the order of accesses, whether it reads the same versions."""
    if whole.table.needs_trace:
        return not len(changed_reads(whole.nominal.versions, broken.nominal.versions))
    runs = whole.nominal.machine, broken.nominal.machine
    tensors = whole.program.graph.outputs
    made = [[np.asarray(run.tensor(each)).tobytes() for each in tensors] for run in runs]
    return made[0] == made[1]


def without_wait(racer: Racer, instruction: int, wait: int) -> Racer:
    """The same neuroncore program with one wait for a semaphore removed."""
    payload = racer.program.payload
    code = payload.tables.instructions.copy()
    assert code["waits"]["used"][instruction, wait]
    code["waits"]["used"][instruction, wait] = 0
    tables = replace(payload.tables, instructions=code)
    assert isinstance(racer.target, VariesLatencies)
    return Racer(racer.target, racer.spec, replace(racer.program, payload=replace(payload, tables=tables)))


def with_joined_jobs(racer: Racer, job: int) -> Racer:
    """The same rk3588 program whose job `job` no longer waits for the one before it on other cores."""
    payload = racer.program.payload
    tables = payload.tables
    tasks = [replace(t, job=t.job - 1) if t.job >= job else t for t in tables.tasks]
    order = sorted(tasks, key=lambda t: (t.job, t.core, t.index))
    tasks = [replace(t, index=number) for number, t in enumerate(order)]
    hosts = tuple(replace(h, job=h.job - 1) if h.job >= job else h for h in tables.hosts)
    made = replace(tables, tasks=tuple(tasks), hosts=hosts, num_jobs=tables.num_jobs - 1)
    assert isinstance(racer.target, VariesLatencies)
    return Racer(racer.target, racer.spec, replace(racer.program, payload=replace(payload, tables=made)))


def without_edge(racer: Racer, edge: int) -> Racer:
    """The same systolic program in which one layer no longer waits for another."""
    payload = racer.program.payload
    tables = replace(payload.tables, edges=np.delete(payload.tables.edges, edge, axis=0))
    assert isinstance(racer.target, VariesLatencies)
    return Racer(racer.target, racer.spec, replace(racer.program, payload=replace(payload, tables=tables)))
