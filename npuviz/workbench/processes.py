"""Distributes work to processes of this computer."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from npuviz.base.errors import SimulationError

_LOOK_SECONDS = 0.2
Item = TypeVar("Item")
Result = TypeVar("Result")


def default_jobs() -> int:
    """Return the number of processors that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def in_processes(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    count: int,
    begin: tuple[Callable[..., object], tuple[Any, ...]] | None = None,
) -> Iterator[Result]:
    """Run the work for each item in `count` processes, and yield the results in the order in which they
    arrive.

    begin  a function that each process calls first, and its arguments
    Raises SimulationError when a process dies, and what the work raises.
    """
    pool = ProcessPoolExecutor(
        count, multiprocessing.get_context("spawn"), initializer=_prepare, initargs=(begin,)
    )
    try:
        pending: set[Future[Result]] = {pool.submit(work, item) for item in items}
        while pending:
            # Wait in short steps: Ctrl+C is handled between them.
            done, pending = wait(pending, _LOOK_SECONDS)
            for future in done:
                yield future.result()
    except BrokenProcessPool:
        raise SimulationError("a process that ran a part of the work died") from None
    finally:
        workers: Any = getattr(pool, "_processes", None) or {}
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(workers.values()):
            with contextlib.suppress(OSError, ValueError):
                process.terminate()


def _prepare(begin: tuple[Callable[..., object], tuple[Any, ...]] | None) -> None:
    # Ctrl+C goes to all processes of a terminal; the one that hands out work ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        begin[0](*begin[1])
