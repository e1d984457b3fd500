"""Counts races found in programs with one synchronisation removed, and findings in whole programs."""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.broken import passes, sample, with_joined_jobs, without_edge, without_wait
from benchmarks.row import Row
from npuviz.base.errors import TargetError
from npuviz.workbench.races.runs import Racer

SEEDS = 60
WHOLE_SEEDS = 20
WHOLE = (
    ("tiny_cnn.onnx", "neuroncore", {}),
    ("tiny_transformer.onnx", "neuroncore", {}),
    ("tiny_cnn_int8.onnx", "rk3588", {"cores": "3"}),
    ("tiny_cnn.onnx", "rk3588", {"cores": "2"}),
    ("tiny_cnn.onnx", "systolic", {}),
    ("tiny_transformer.onnx", "systolic", {"scheduler": "partition_cpu"}),
)


def broken_programs(target: str) -> Iterator[tuple[Racer, Racer]]:
    """Yield (whole program, broken program) pairs of a target, each with one wait, job or dependency
    removed."""
    if target == "neuroncore":
        racer = sample("tiny_transformer.onnx", target)
        for place in np.argwhere(racer.program.payload.tables.instructions["waits"]["used"] > 0).tolist():
            yield racer, without_wait(racer, *place)
    elif target == "rk3588":
        racer = sample("tiny_cnn_int8.onnx", target, cores="3")
        called = {call.job for call in racer.program.payload.tables.hosts}
        for job in range(1, racer.program.payload.tables.num_jobs):
            if job not in called:
                yield racer, with_joined_jobs(racer, job)
    else:
        racer = sample("tiny_cnn.onnx", target, scheduler="partition_cpu")
        for edge in range(len(racer.program.payload.tables.edges)):
            yield racer, without_edge(racer, edge)


def is_found(racer: Racer) -> bool:
    """Return whether one of the seeds shows a race or another end."""
    return any(each.race or each.stop for each in map(racer.at, range(1, SEEDS + 1)))


def run() -> list[Row]:
    """Measure three targets; two minutes."""
    rows: list[Row] = []
    for target in ("neuroncore", "rk3588", "systolic"):
        tried = [(passes(whole, broken), is_found(broken)) for whole, broken in broken_programs(target)]
        found = [is_passing for is_passing, was_found in tried if was_found]
        passing = sum(is_passing for is_passing, _ in tried)
        rows.append(Row(f"{target}: broken programs", len(tried), "programs"))
        rows.append(Row(f"{target}: found in {SEEDS} seeds", len(found), "programs"))
        rows.append(Row(f"{target}: pass nominally", passing, "programs", "some lack nothing: others wait"))
        rows.append(Row(f"{target}: of these found", sum(found), "programs"))
    false = runs = 0
    begin = time.perf_counter()
    for name, target, settings in WHOLE:
        try:
            racer = sample(name, target, **settings)
            results = [racer.at(seed) for seed in range(1, WHOLE_SEEDS + 1)]
        except TargetError:
            continue
        runs += len(results)
        false += sum(bool(each.race or each.stop) for each in results)
    each = (time.perf_counter() - begin) / max(runs, 1)
    rows.append(Row("whole programs: findings", false, "runs", "0", is_wrong=false > 0))
    rows.append(Row("whole programs: a run, compiling included", each * 1e3, "ms"))
    return rows
