"""Answers about a machine that stands still, computed in another thread where that may take long."""

from collections.abc import Callable, Hashable
from typing import Any

from PySide6.QtCore import QObject, Signal

from npuviz.sim.machine import HasStillMemories, Machine, StillMemories
from npuviz.ui.bridge.latest_job import LatestJob

PATIENCE_SECONDS = 0.01
"""What takes longer is not waited for."""
Question = Callable[[StillMemories], Any]


class Pending:
    """Stands for an answer that is being computed."""


PENDING = Pending()


class StillAnswers(QObject):
    """Collects questions, asks them together, and keeps the answers until the machine moves.

    changed  answers that were pending are there
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
        """The machine is in another state, or there is another one; nothing is known of it yet.

        Only while nobody moves it. It is asked for a still when there is a question.
        """
        self._machine, self._still = machine, None
        self._answers, self._wanted, self._asked = {}, {}, {}
        self._job.drop()

    def get(self, key: Hashable, question: Question) -> Any:
        """The answer, or PENDING: then `ask` begins to look for it.

        A machine that has no still must be cheap to ask: it is asked at once.
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
        """Look for what was wanted; returns whether it was found so soon that it is there already."""
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
