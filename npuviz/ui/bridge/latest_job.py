"""Compute slow answers in a separate thread; only the answer to the latest question counts."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal


class LatestJob(QObject):
    """Runs one question at a time; a newer one replaces those that wait.

    finished  the latest question has its answer, or failed; fetch it with `answer`
    """

    finished = Signal()

    _done = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool: ThreadPoolExecutor | None = None
        self._future: Future[Any] | None = None
        self._is_late = False
        self._done.connect(self._on_done, Qt.ConnectionType.QueuedConnection)

    @property
    def is_asked(self) -> bool:
        """Whether there is a latest question, with or without an answer."""
        return self._future is not None

    @property
    def is_waiting(self) -> bool:
        """Whether `finished` is still to come for the latest question."""
        return self._is_late

    def ask(self, question: Callable[[], Any], patience: float) -> bool:
        """Start computing; return whether the answer came within `patience` seconds, else `finished`
        follows.
        """
        self.drop()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "npuviz-contents")
        future = self._future = self._pool.submit(question)
        try:
            future.exception(patience)
        except TooLate:
            self._is_late = True
            future.add_done_callback(self._tell)
            return False
        return True

    def answer(self) -> Any:
        """Return the answer to the latest question, waiting if necessary. Raises what the question raised."""
        assert self._future is not None
        return self._future.result()

    def drop(self) -> None:
        """Forget the latest question; its answer is discarded."""
        self._is_late = False
        if self._future is not None:
            self._future.cancel()
            self._future = None

    def shut_down(self) -> None:
        """Drop the question, wait until the one under way has ended, and end the thread."""
        self.drop()
        self.blockSignals(True)
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _tell(self, future: "Future[Any]") -> None:
        if not future.cancelled():
            self._done.emit(future)

    def _on_done(self, future: "Future[Any]") -> None:
        if future is self._future:
            self._is_late = False
            self.finished.emit()
