"""Runs long work on a separate thread, one job after the other, with progress and cancel."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npuviz.base.progress import CallbackProgress, Progress

Work = Callable[[Progress], Any]


@dataclass(frozen=True)
class JobEnd:
    """How a job ended: `result` of the work, or the `error` it raised."""

    title: str
    result: Any = None
    error: BaseException | None = None


class Job:
    """One piece of work in a runner's queue."""

    def __init__(
        self,
        title: str,
        work: Work,
        report: Callable[["Job", float, str], None],
        done: Callable[["Job", JobEnd], None],
        interrupt: Callable[[], None] | None,
    ) -> None:
        self.title = title
        self._work = work
        self._done = done
        self._interrupt = interrupt
        self._progress = CallbackProgress(lambda fraction, text: report(self, fraction, text))

    def cancel(self) -> None:
        """Ask the job to end soon. Safe from any thread."""
        self._progress.cancel()
        if self._interrupt is not None:
            self._interrupt()

    def run(self) -> None:
        """Do the work in the calling thread, then call `done` with its result or error."""
        try:
            end = JobEnd(self.title, result=self._work(self._progress))
        except Exception as error:
            end = JobEnd(self.title, error=error)
        self._done(self, end)


class JobRunner:
    """A thread that runs jobs in the order of submission; it starts with the first job.

    report(job, fraction, text) and done(job, end) are called in the runner's thread.
    """

    def __init__(
        self,
        name: str,
        report: Callable[[Job, float, str], None],
        done: Callable[[Job, JobEnd], None],
    ) -> None:
        self._name = name
        self._report = report
        self._done = done
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, title: str, work: Work, interrupt: Callable[[], None] | None = None) -> Job:
        """Queue work. `interrupt` is also called on cancel, for work that rarely reports progress."""
        job = Job(title, work, self._report, self._done, interrupt)
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(job)
        return job

    def shut_down(self, timeout: float = 10.0) -> bool:
        """End the thread after all queued jobs. Returns whether it ended within `timeout` seconds."""
        if self._thread is None:
            return True
        self._queue.put(None)
        self._thread.join(timeout)
        ended = not self._thread.is_alive()
        if ended:
            self._thread = None
        return ended

    def _loop(self) -> None:
        while (job := self._queue.get()) is not None:
            job.run()
