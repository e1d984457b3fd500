"""Answer questions about a machine that is not running; slow answers are computed in another thread."""

from collections.abc import Callable, Hashable
from typing import Any

from PySide6.QtCore import QObject, Signal

from npuviz.sim.machine import HasStillMemories, Machine, StillMemories
from npuviz.ui.bridge.latest_job import LatestJob

PATIENCE_SECONDS = 0.01
"""Longest time that `ask` waits for the answers."""
Question = Callable[[StillMemories], Any]


class Pending:
    """Type of PENDING, the placeholder of an answer that is being computed."""


PENDING = Pending()


class StillAnswers(QObject):
    """Collects questions, asks them together, and keeps the answers until the machine moves.

    changed  pending answers have arrived
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._machine: Machine | None = None
        self._still: StillMemories | None = None
        self._answers: dict[Hashable, Any] = {}
        self._wanted: dict[Hashable, Question] = {}
        self._asked: dict[Hashable, Question] = {}
        self._job = LatestJob(self)
        self._job.finished.connect(self._take)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is being computed."""
        return self._job.is_waiting

    def move(self, machine: Machine | None) -> None:
        """Forget all answers, because the machine is in another state or another one is open.

        Call this only while the machine does not run. Its still is made when the first question is asked.
        """
        self._machine, self._still = machine, None
        self._answers, self._wanted, self._asked = {}, {}, {}
        self._job.drop()

    def get(self, key: Hashable, question: Question) -> Any:
        """Return the answer, or PENDING, after which the next `ask` starts to compute it.

        A machine without stills is asked at once, so it must be cheap to ask.
        """
        if key in self._answers:
            return self._answers[key]
        machine = self._machine
        if machine is None:
            return PENDING
        if not isinstance(machine, HasStillMemories):
            self._answers[key] = question(machine)
            return self._answers[key]
        self._wanted[key] = question
        return PENDING

    def ask(self) -> bool:
        """Compute the answers that `get` lacked; return whether they arrived within PATIENCE_SECONDS."""
        machine, wanted = self._machine, {**self._asked, **self._wanted}
        is_news = any(key not in self._asked for key in self._wanted)
        self._wanted = {}
        if not is_news or not isinstance(machine, HasStillMemories):
            return False
        if self._still is None:
            self._still = machine.still_memories()
        still, self._asked = self._still, wanted
        if self._job.ask(lambda: {key: ask(still) for key, ask in wanted.items()}, PATIENCE_SECONDS):
            self._keep()
            return True
        return False

    def _keep(self) -> None:
        self._answers.update(self._job.answer())
        self._asked = {}

    def _take(self) -> None:
        self._keep()
        self.changed.emit()
