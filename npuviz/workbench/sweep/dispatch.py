"""Design-space sweeps: hands the runs of a plan to Dask, keeps every result at once, resumes after a kill."""

import importlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.workbench.choosing import targets
from npuviz.workbench.sweep.plan import SweepPlan, SweepRun, run_key
from npuviz.workbench.sweep.results import (
    BROKEN,
    DONE,
    RESULTS_NAME,
    RunResult,
    SweepResults,
    collect,
    write_results,
)
from npuviz.workbench.sweep.run import RunStore, run_one

AHEAD = 4
"""Runs per worker that are handed out at a time: enough to keep it busy, few enough to stop soon."""
CONNECT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How to run a sweep.

    out        folder of results; runs that it already holds are not repeated
    processes  worker processes on this machine, 0 for one per processor
    scheduler  address of a running Dask scheduler ("tcp://host:8786"), "" for processes of our own
    is_fresh   run everything again
    """

    out: Path
    processes: int = 0
    scheduler: str = ""
    is_fresh: bool = False


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """What came of it.

    executed, reused  runs done now, and found finished; seconds  from the first run handed out to the last
                      result, workers being up already
    """

    results: SweepResults
    executed: int
    reused: int
    seconds: float
    failed: int
    errors: Sequence[str] = field(default_factory=tuple)


def run_sweep(
    plan: SweepPlan,
    options: SweepOptions,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> SweepOutcome:
    """Do the runs of a plan that are not done yet, and write the table of results.

    tell  is given a line when something is to be known before the end
    Raises UsageError (the plan asks for what does not exist, no scheduler at the address), OSError.
    """
    watcher = progress or NoProgress()
    options.out.mkdir(parents=True, exist_ok=True)
    store = RunStore(options.out)
    digests: dict[str, str] = {}
    keys = [run_key(run, digests) for run in plan.runs]
    found: dict[str, RunResult] = {}
    if not options.is_fresh:
        for key in set(keys):
            known = store.find(key)
            if known is not None and known.status != BROKEN:
                found[key] = known
    pending: dict[str, SweepRun] = {}
    for key, run in zip(keys, plan.runs, strict=True):
        if key not in found:
            pending.setdefault(key, run)
    reused = sum(key in found for key in keys)
    (options.out / "plan.toml").write_text(plan.text, encoding="utf-8")
    seconds = 0.0
    if pending:
        if tell is not None:
            tell(f"{len(plan.runs)} runs, {reused} already done, {len(pending)} to do")
        try:
            with _client(options, watcher) as client:
                begin = time.perf_counter()
                _execute(client, pending, store, found, watcher, len(plan.runs))
                seconds = time.perf_counter() - begin
        except KeyboardInterrupt:
            # What is done can be looked at while the rest waits.
            partial = [found.get(key, RunResult(BROKEN, {}, "not run yet")) for key in keys]
            write_results(collect(plan, keys, partial), options.out / RESULTS_NAME)
            raise
    results = collect(plan, keys, [found[key] for key in keys])
    write_results(results, options.out / RESULTS_NAME)
    bad = [found[key] for key in keys if found[key].status != DONE]
    errors = tuple(dict.fromkeys(result.error for result in bad))
    return SweepOutcome(results, len(pending), reused, seconds, len(bad), errors)


def _execute(
    client: Any,
    pending: dict[str, SweepRun],
    store: RunStore,
    found: dict[str, RunResult],
    progress: Progress,
    total: int,
) -> None:
    """Hand out runs as workers become free, and keep every result as it arrives."""
    from distributed import as_completed

    waiting = list(pending.items())[::-1]
    threads = max(1, sum(client.nthreads().values()))
    names: dict[str, str] = {}
    has_success = any(result.status == DONE for result in found.values())

    def submit() -> Any:
        key, run = waiting.pop()
        # A key of its own, or the scheduler would take an equal run of an earlier call for this one.
        future = client.submit(run_one, run, key=f"npuviz-{key}-{os.urandom(4).hex()}", pure=False, retries=0)
        names[future.key] = key
        return future

    queue = as_completed([submit() for _ in range(min(len(waiting), threads * AHEAD))])
    for future in queue:
        key = names.pop(future.key)
        result = _result_of(future)
        if result.is_usage and not has_success:
            raise UsageError(result.error)
        has_success = has_success or result.status == DONE
        store.keep(key, pending[key], result)
        found[key] = result
        progress.report(len(found) / total, f"{len(found)} of {total} runs")
        future.release()
        if waiting:
            queue.add(submit())


def _result_of(future: Any) -> RunResult:
    if future.status == "finished":
        return future.result()
    error = future.exception()
    reason = (
        "the worker died" if type(error).__name__ == "KilledWorker" else f"{type(error).__name__}: {error}"
    )
    return RunResult(BROKEN, {}, " ".join(reason.split())[:500])


@contextmanager
def _client(options: SweepOptions, progress: Progress) -> Generator[Any]:
    """A Dask client: of the scheduler at the address, or of a cluster of processes that ends with it."""
    import dask.config as dask_config
    from distributed import Client, LocalCluster

    # A worker that dies takes one run with it, not three.
    quiet = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s",
        "distributed.admin.log-format": "%(message)s",
        # Watching the cluster costs processor time that the runs could have.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "2s",
        "distributed.admin.system-monitor.interval": "10s",
    }
    with dask_config.set(quiet), tempfile.TemporaryDirectory(prefix="npuviz-sweep-") as scratch:
        if options.scheduler:
            progress.report(-1.0, f"connecting to {options.scheduler}")
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
            try:
                client = Client(options.scheduler, timeout=CONNECT_SECONDS)
            except (OSError, ValueError, TypeError) as error:
                raise UsageError(
                    f"--scheduler {options.scheduler}: no Dask scheduler answers there ({_first(error)})"
                ) from None
            with client:
                if not client.nthreads():
                    raise UsageError(
                        f"--scheduler {options.scheduler}: it has no workers; start some with `dask worker`"
                    )
                yield client
            return
        count = options.processes or os.cpu_count() or 1
        progress.report(-1.0, f"starting {count} worker processes")
        rules: dict[str, Any] = {
            "threads_per_worker": 1,
            "processes": True,
            # None would still serve pages, at a port that a second sweep finds taken.
            "dashboard_address": "127.0.0.1:0",
            "silence_logs": logging.CRITICAL,
            "local_directory": scratch,
            "memory_limit": 0,
            "host": "127.0.0.1",
        }
        cluster = LocalCluster(n_workers=count, **rules)
        with cluster, Client(cluster) as client:
            client.wait_for_workers(count)
            # Workers load the engines before the first run, so that its time is its own.
            client.run(_load_engines)
            yield client


def _load_engines() -> None:
    for name in ("npuviz.debug.session", "npuviz.workbench.headless.run", "npuviz.onnx.reader"):
        importlib.import_module(name)
    targets()


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
