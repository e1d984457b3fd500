"""Asks a machine for the contents of a memory without keeping the window waiting."""

from PySide6.QtCore import QObject, QTimer, Signal

from npuviz.sim.description import Memory
from npuviz.sim.machine import HasStillMemories, Machine, StillMemories
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.memory.answer import MemoryAnswer, ask_memory, ask_pieces
from npuviz.workbench.selection import MemoryRange

PATIENCE_SECONDS = 0.01
"""What takes longer is not waited for."""


class MemoryAsker(QObject):
    """Values are computed on demand: a still of the machine is asked in another thread.

    answered  `answer` is new: regions and the bytes of the chosen range
    filled    bytes that `read` could not give are there now
    """

    answered = Signal()
    filled = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.answer: MemoryAnswer | None = None
        self._machine: Machine | None = None
        self._source: StillMemories | None = None
        self._wanted: dict[int, int] = {}
        self._job = LatestJob(self)
        self._job.finished.connect(self._take)
        self._fetching = LatestJob(self)
        self._fetching.finished.connect(self._fill)
        self._fetch_soon = QTimer(self)
        self._fetch_soon.setSingleShot(True)
        self._fetch_soon.timeout.connect(self._fetch)

    @property
    def is_waiting(self) -> bool:
        """Whether something is being computed."""
        return self._job.is_waiting or self._fetching.is_waiting or self._fetch_soon.isActive()

    @property
    def is_exclusive(self) -> bool:
        """Whether the machine itself is asked, so that it must not be asked while it runs."""
        return self._source is self._machine

    def move(self, machine: Machine | None) -> None:
        """The machine is in another state, or there is another one. Only while nobody moves it."""
        self._machine = machine
        self._source = machine.still_memories() if isinstance(machine, HasStillMemories) else machine

    def forget(self) -> None:
        """What was known is about something else now."""
        self.answer = None
        self._wanted = {}

    def drop(self) -> None:
        """Nobody wants the answer that is being computed."""
        self._job.drop()
        self.forget()

    def look(self, memory: Memory, chosen: MemoryRange | None) -> bool:
        """Ask for regions and a range; returns whether the answer is there, else `answered` comes."""
        source = self._source
        if source is None:
            return False
        if self.is_exclusive:
            self._keep(ask_memory(source, memory, chosen))
            return True
        if self._job.ask(lambda: ask_memory(source, memory, chosen), PATIENCE_SECONDS):
            self._keep(self._job.answer())
            return True
        return False

    def read(self, address: int, size_bytes: int) -> bytes | None:
        """Bytes of the memory last asked for; None while they are not there, then `filled` comes."""
        answer = self.answer
        if answer is None or self._job.is_waiting:
            return None
        kept = answer.kept(address, size_bytes)
        if kept is None and answer.source is self._machine:
            return answer.source.read_memory(answer.memory, address, size_bytes)
        if kept is None and self._wanted.get(address, 0) < size_bytes:
            self._wanted[address] = size_bytes
            self._fetch_soon.start(0)
        return kept

    def shut_down(self) -> None:
        """Ask nothing more."""
        self._fetch_soon.stop()
        self._job.shut_down()
        self._fetching.shut_down()
        self.blockSignals(True)

    def _keep(self, answer: MemoryAnswer) -> None:
        self.answer, self._wanted = answer, {}

    def _take(self) -> None:
        self._keep(self._job.answer())
        self.answered.emit()

    def _fetch(self) -> None:
        answer, wanted = self.answer, dict(self._wanted)
        if answer is None or not wanted:
            return

        def question() -> tuple[MemoryAnswer, dict[int, bytes]]:
            return answer, ask_pieces(answer.source, answer.memory, wanted.items())

        if self._fetching.ask(question, 0.0):
            self._fill()

    def _fill(self) -> None:
        answer, pieces = self._fetching.answer()
        if answer is self.answer:
            answer.pieces.update(pieces)
            self._wanted = {a: size for a, size in self._wanted.items() if a not in pieces}
            self.filled.emit()
