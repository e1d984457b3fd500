"""Runs a sweep in worker processes on this computer, connected by pipes; no port is opened."""

import contextlib
import importlib
import multiprocessing
import signal
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from npuviz.workbench.choosing import targets
from npuviz.workbench.sweep.plan import SweepRun
from npuviz.workbench.sweep.results import BROKEN, RunResult
from npuviz.workbench.sweep.run import run_one

_CONTEXT = multiprocessing.get_context("spawn")
_END_SECONDS = 2.0


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    is_ready: bool = False
    key: str = ""
    """Key of the run that the worker executes, "" for none."""


class Processes:
    """A pool of worker processes. If a worker dies, its run is reported as broken, and a new worker
    starts."""

    def __init__(self, count: int) -> None:
        self._workers = [_start() for _ in range(count)]

    def wait_ready(self) -> None:
        """Wait until every worker has loaded the engines, so that loading does not count in the time of the
        first run."""
        for worker in self._workers:
            with contextlib.suppress(EOFError, OSError):
                worker.is_ready = worker.pipe.recv()

    def results(self, runs: Mapping[str, SweepRun]) -> Iterator[tuple[str, RunResult]]:
        """Execute the runs, and yield the key and result of each as it arrives."""
        waiting = list(runs.items())[::-1]
        for worker in self._workers:
            _hand_out(worker, waiting)
        while busy := {worker.pipe: worker for worker in self._workers if worker.key}:
            ready: Any = wait(list(busy))
            for pipe in ready:
                worker = busy[pipe]
                yield worker.key, self._result_of(worker)
                _hand_out(worker, waiting)

    def close(self) -> None:
        """Terminate the workers, also those that are running something."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_END_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
            worker.pipe.close()

    def _result_of(self, worker: _Worker) -> RunResult:
        try:
            if not worker.is_ready:
                worker.is_ready = worker.pipe.recv()
            return worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_END_SECONDS)
            worker.process.close()
            worker.pipe.close()
            new = _start()
            worker.process, worker.pipe, worker.is_ready = new.process, new.pipe, False
            return RunResult(BROKEN, {}, "the worker died")


@contextlib.contextmanager
def worker_processes(count: int) -> Generator[Processes]:
    """Start workers, wait until they are ready, and end them with the block."""
    made = Processes(count)
    try:
        made.wait_ready()
        yield made
    finally:
        made.close()


def _start() -> _Worker:
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_work, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _hand_out(worker: _Worker, waiting: list[tuple[str, SweepRun]]) -> None:
    worker.key = ""
    if waiting:
        worker.key, run = waiting.pop()
        # A worker that has just died is noticed when its result is received.
        with contextlib.suppress(OSError):
            worker.pipe.send(run)


def load_engines() -> None:
    """Import in advance what the first run would import."""
    for name in ("npuviz.debug.session", "npuviz.workbench.headless.run", "npuviz.onnx.reader"):
        importlib.import_module(name)
    targets()


def _work(pipe: Connection) -> None:
    """Execute the runs that arrive through the pipe until it closes."""
    # Ctrl-C goes to all processes of a terminal; the one that hands out runs ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_engines()
    with contextlib.suppress(EOFError, OSError):
        pipe.send(True)
        while True:
            pipe.send(run_one(pipe.recv()))
