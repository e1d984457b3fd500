"""Run the jobs of a window in one worker thread; report progress and results in the window's thread."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from npuviz.base.progress import Progress
from npuviz.workbench.jobs import Job, JobEnd, JobRunner


class Worker(QObject):
    """Runs jobs one after the other.

    progress  fraction and text of the job under way
    ended     a JobEnd, emitted after the job's handler got the result
    """

    progress = Signal(float, str)
    ended = Signal(object)

    _reported = Signal(object, float, str)
    _done = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._handlers: dict[Job, Callable[[Any], None]] = {}
        self._reported.connect(self._on_reported, Qt.ConnectionType.QueuedConnection)
        self._done.connect(self._on_done, Qt.ConnectionType.QueuedConnection)
        self._runner = JobRunner("npuviz-session", self._reported.emit, self._done.emit)

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way or waiting."""
        return bool(self._handlers)

    def start(
        self,
        title: str,
        work: Callable[[Progress], Any],
        handler: Callable[[Any], None],
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        """Queue a job; `handler` gets its result in the window's thread unless it fails."""
        job = self._runner.submit(title, work, interrupt)
        self._handlers[job] = handler
        self.progress.emit(-1.0, title)

    def cancel_all(self) -> None:
        """Ask all jobs to end soon."""
        for job in list(self._handlers):
            job.cancel()

    def shut_down(self) -> None:
        """Cancel all jobs, end the thread, and emit no more signals."""
        self.cancel_all()
        self._handlers.clear()
        self._runner.shut_down()
        self.blockSignals(True)

    def _on_reported(self, job: Job, fraction: float, text: str) -> None:
        if job in self._handlers:
            self.progress.emit(fraction, f"{job.title}: {text}" if text else job.title)

    def _on_done(self, job: Job, end: JobEnd) -> None:
        handler = self._handlers.pop(job, None)
        if handler is None:
            return
        try:
            if end.error is None:
                handler(end.result)
        finally:
            # Also when the handler has a bug: the window must not stay busy for ever.
            if not self._handlers:
                self.progress.emit(1.0, "")
            self.ended.emit(end)
