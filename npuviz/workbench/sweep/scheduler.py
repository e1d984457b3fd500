"""Executes a sweep on the user's Dask scheduler; npuviz starts none."""

import logging
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.workbench.sweep.plan import SweepRun
from npuviz.workbench.sweep.results import BROKEN, RunResult
from npuviz.workbench.sweep.run import run_one

AHEAD = 4
"""Runs per worker thread that are handed out at a time: enough to keep it busy, few enough to stop soon."""
CONNECT_SECONDS = 20


class Scheduler:
    """A client of the scheduler."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def results(self, runs: Mapping[str, SweepRun]) -> Iterator[tuple[str, RunResult]]:
        """Execute the runs, and yield the key and result of each as it arrives."""
        from distributed import as_completed

        waiting = list(runs.items())[::-1]
        threads = max(1, sum(self._client.nthreads().values()))
        names: dict[str, str] = {}

        def submit() -> Any:
            key, run = waiting.pop()
            # A unique key: otherwise the scheduler would return the result of the same run of an earlier
            # call.
            unique = f"npuviz-{key}-{os.urandom(4).hex()}"
            future = self._client.submit(run_one, run, key=unique, pure=False, retries=0)
            names[future.key] = key
            return future

        queue = as_completed([submit() for _ in range(min(len(waiting), threads * AHEAD))])
        for future in queue:
            yield names.pop(future.key), _result_of(future)
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
def scheduler_at(address: str) -> Generator[Scheduler]:
    """Connect to the scheduler at an address. Raises UsageError if none answers there, or it has no
    workers."""
    import dask.config as dask_config
    from distributed import Client

    # If a worker dies, its run is not tried on further workers, which would die too.
    quiet = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s",
        "distributed.admin.log-format": "%(message)s",
    }
    shown = echo(address)
    with dask_config.set(quiet):
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            client = Client(address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(
                f"--scheduler {shown}: no Dask scheduler answers there ({_first(error)})"
            ) from None
        with client:
            if not client.nthreads():
                raise UsageError(f"--scheduler {shown}: it has no workers; start some with `dask worker`")
            yield Scheduler(client)


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
