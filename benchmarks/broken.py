"""Makes broken programs by removing one synchronisation."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from npuviz.sim.latencies import VariesLatencies
from npuviz.sim.replay.versions import changed_reads
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.races.runs import Racer, load_target

SAMPLES = Path(__file__).parents[1] / "sample_models"


def sample(name: str, target: str, **settings: str) -> Racer:
    """Return a racer for a sample model on a target."""
    return Racer(*load_target(SAMPLES / name, OpenOptions(target=target, settings=settings)))


def passes(whole: Racer, broken: Racer) -> bool:
    """Return whether a broken program's nominal run computes the same outputs as the whole one; on machines
    whose table needs a trace, whether it reads the same versions."""
    if whole.table.needs_trace:
        return not len(changed_reads(whole.nominal.versions, broken.nominal.versions))
    runs = whole.nominal.machine, broken.nominal.machine
    tensors = whole.program.graph.outputs
    made = [[np.asarray(run.tensor(each)).tobytes() for each in tensors] for run in runs]
    return made[0] == made[1]


def without_wait(racer: Racer, instruction: int, wait: int) -> Racer:
    """Return a neuroncore program without one of its waits for a semaphore."""
    payload = racer.program.payload
    code = payload.tables.instructions.copy()
    assert code["waits"]["used"][instruction, wait]
    code["waits"]["used"][instruction, wait] = 0
    tables = replace(payload.tables, instructions=code)
    assert isinstance(racer.target, VariesLatencies)
    return Racer(racer.target, racer.spec, replace(racer.program, payload=replace(payload, tables=tables)))


def with_joined_jobs(racer: Racer, job: int) -> Racer:
    """Return an rk3588 program whose job `job` no longer waits for the job before it on other cores."""
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
    """Return a systolic program without one edge, so that a layer no longer waits for another."""
    payload = racer.program.payload
    tables = replace(payload.tables, edges=np.delete(payload.tables.edges, edge, axis=0))
    assert isinstance(racer.target, VariesLatencies)
    return Racer(racer.target, racer.spec, replace(racer.program, payload=replace(payload, tables=tables)))
