"""Executes the runs of a sweep plan on workers, stores every result at once, and resumes after a kill."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.workbench.sweep.plan import SweepPlan, SweepRun, run_key
from npuviz.workbench.sweep.processes import worker_processes
from npuviz.workbench.sweep.results import (
    BROKEN,
    DONE,
    RESULTS_NAME,
    RunResult,
    SweepResults,
    collect,
    write_results,
)
from npuviz.workbench.sweep.run import RunStore


class Workers(Protocol):
    """Executes runs."""

    def results(self, runs: Mapping[str, SweepRun]) -> Iterator[tuple[str, RunResult]]:
        """Execute the runs, and yield the key and result of each as it arrives."""
        ...


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How to run a sweep.

    out        folder of results; runs that it already holds are not repeated
    processes  worker processes on this computer, 0 for one per processor
    scheduler  address of a running Dask scheduler ("tcp://host:8786"), "" for worker processes
    is_fresh   run everything again
    """

    out: Path
    processes: int = 0
    scheduler: str = ""
    is_fresh: bool = False


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """Outcome of a sweep.

    executed, reused  runs done now, and runs found finished
    seconds           from handing out the first run to the last result; the start of workers does not count
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
    """Execute the runs of a plan that are not done yet, and write the table of results.

    tell  is called with a line of text that the user should see before the end
    Raises UsageError (the plan names something that does not exist, no scheduler at the address), OSError.
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
            with _workers(options, watcher) as workers:
                begin = time.perf_counter()
                total = len(plan.runs)

                def tell_share() -> None:
                    watcher.report(len(found) / total, f"{len(found)} of {total} runs")

                _execute(workers.results(pending), pending, store, found, tell_share)
                seconds = time.perf_counter() - begin
        except KeyboardInterrupt:
            # Write the runs that are done, so that they can be viewed before the sweep is resumed.
            partial = [found.get(key, RunResult(BROKEN, {}, "not run yet")) for key in keys]
            write_results(collect(plan, keys, partial), options.out / RESULTS_NAME)
            raise
    results = collect(plan, keys, [found[key] for key in keys])
    write_results(results, options.out / RESULTS_NAME)
    bad = [found[key] for key in keys if found[key].status != DONE]
    errors = tuple(dict.fromkeys(result.error for result in bad))
    return SweepOutcome(results, len(pending), reused, seconds, len(bad), errors)


def _execute(
    results: Iterable[tuple[str, RunResult]],
    pending: dict[str, SweepRun],
    store: RunStore,
    found: dict[str, RunResult],
    tell: Callable[[], None],
) -> None:
    """Store every result as it arrives. Raises UsageError for a usage error in a run before any run
    succeeded."""
    has_success = any(result.status == DONE for result in found.values())
    for key, result in results:
        if result.is_usage and not has_success:
            raise UsageError(result.error)
        has_success = has_success or result.status == DONE
        store.keep(key, pending[key], result)
        found[key] = result
        tell()


def _workers(options: SweepOptions, progress: Progress) -> AbstractContextManager[Workers]:
    """Return the workers: those of the scheduler, or processes of this computer that end with the block."""
    if options.scheduler:
        from npuviz.workbench.sweep.scheduler import scheduler_at

        progress.report(-1.0, f"connecting to {options.scheduler}")
        return scheduler_at(options.scheduler)
    count = options.processes or os.cpu_count() or 1
    progress.report(-1.0, f"starting {count} worker processes")
    return worker_processes(count)
