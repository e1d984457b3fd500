"""Keep the list of the machine's hazards up to date, computed in the background."""

from PySide6.QtCore import QObject, QTimer, Signal

from npuviz.sim.checks.findings import findings_of, looks
from npuviz.sim.machine import Findings, HasStillMemories, Hazard, LogsHazards, Machine, StillMemories
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.bridge.session_model import SessionModel

QUIET_MS = 250
"""Milliseconds after the last step before hazards are looked for, because that may mean computing values."""
PATIENCE_SECONDS = 0.005
LOOKING = "Looking for hazards"


class HazardWatch(QObject):
    """Looks for hazards in a still of the machine in a separate thread, or in the machine itself on request.

    changed  `hazards` or `is_looking` has another value
    """

    changed = Signal()

    def __init__(self, model: SessionModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._job = LatestJob(self)
        self._job.finished.connect(self._take)
        self._quiet = QTimer(self, singleShot=True, interval=QUIET_MS)
        self._quiet.timeout.connect(self._ask)
        self._machine: Machine | None = None
        self.findings: Findings | None = None
        self.is_looking = False
        model.session_changed.connect(self._session_changed)
        model.cycle_changed.connect(self._cycle_changed)
        model.failed.connect(self._failed)

    @property
    def hazards(self) -> tuple[Hazard, ...] | None:
        """Hazards at this cycle, None: they have not been looked for."""
        return self.findings.hazards if self.findings is not None else None

    @property
    def is_available(self) -> bool:
        """Whether the open machine can look for hazards."""
        return looks(self._machine)

    @property
    def is_automatic(self) -> bool:
        """Whether hazards are looked for after every step; else only on request."""
        return self._logs() is not None or self._still() is not None

    def look(self) -> None:
        """Look for hazards now; on the session's worker thread if the machine has neither log nor still."""
        model, machine = self._model, self._machine
        if self.is_looking or model.is_running or machine is None or not looks(machine):
            return
        if self.is_automatic:
            self._ask()
            return
        self.is_looking = True
        self.changed.emit()
        model.submit(LOOKING, lambda _progress: findings_of(machine), self._show)

    def shut_down(self) -> None:
        """Stop looking for hazards for good."""
        self._quiet.stop()
        self._job.shut_down()
        self.blockSignals(True)

    def _session_changed(self) -> None:
        session = self._model.session
        self._machine = session.machine if session is not None else None
        self._job.drop()
        self.findings, self.is_looking = None, False
        self.changed.emit()

    def _cycle_changed(self, _cycle: int) -> None:
        if self._model.is_running or not self.is_available:
            return
        if self.is_automatic:
            self._quiet.start()
        elif self.hazards is not None or self.is_looking:
            # The findings belong to another cycle.
            self.findings, self.is_looking = None, False
            self.changed.emit()

    def _failed(self, _text: str) -> None:
        if self.is_looking and not self._job.is_waiting:
            self.is_looking = False
            self.changed.emit()

    def _still(self) -> StillMemories | None:
        machine = self._machine
        if not looks(machine) or not isinstance(machine, HasStillMemories):
            return None
        still = machine.still_memories()
        return still if looks(still) else None

    def _logs(self) -> LogsHazards | None:
        machine = self._machine
        return machine if isinstance(machine, LogsHazards) and machine.logs_hazards else None

    def _ask(self) -> None:
        if self._model.is_running:
            return
        machine = self._machine
        if machine is None:
            return
        if self._logs() is not None:
            self._show(findings_of(machine))
            return
        still = self._still()
        if still is None:
            return
        if self._job.ask(lambda: findings_of(machine, still), PATIENCE_SECONDS):
            self._take()
        elif not self.is_looking:
            self.is_looking = True
            self.changed.emit()

    def _take(self) -> None:
        self._show(self._job.answer())

    def _show(self, found: Findings) -> None:
        was_looking, self.is_looking = self.is_looking, False
        if was_looking or found != self.findings:
            self.findings = found
            self.changed.emit()
