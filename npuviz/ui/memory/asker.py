"""Ask a machine for the contents of a memory without blocking the window."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from npuviz.sim.description import Memory
from npuviz.sim.machine import HasStillMemories, Machine, Region, StillMemories
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.bridge.still_answers import PATIENCE_SECONDS
from npuviz.ui.memory.layout import MAX_SHOWN_BANKS
from npuviz.ui.memory.partitions import over_banks
from npuviz.workbench.selection import MemoryRange

MAX_KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The regions of a memory at one cycle, and the bytes of the range that is shown.

    pieces  address -> bytes; empty at first if nothing is shown or the range exceeds MAX_KEPT_BYTES;
            further pieces are added when they are read
    """

    source: StillMemories
    memory: int
    regions: tuple[Region, ...]
    pieces: dict[int, bytes]

    def kept(self, address: int, size_bytes: int) -> bytes | None:
        """Return bytes from the pieces, None if the machine would have to be asked."""
        found = self.pieces.get(address)
        if found is not None and len(found) >= size_bytes:
            return found[:size_bytes]
        for start, data in self.pieces.items():
            offset = address - start
            if offset >= 0 and offset + size_bytes <= len(data):
                return data[offset : offset + size_bytes]
        return None


def ask_pieces(source: StillMemories, memory: int, wanted: Iterable[tuple[int, int]]) -> dict[int, bytes]:
    """Return {address: bytes} of some ranges (address, size)."""
    return {address: source.read_memory(memory, address, size) for address, size in wanted}


def ask_memory(source: StillMemories, memory: Memory, chosen: MemoryRange | None) -> MemoryAnswer:
    """Return the regions of a memory and the bytes of the chosen range; None: of its first region.

    In a memory of partitions, equal regions of neighbouring partitions are joined.
    """
    regions: Sequence[Region] = source.regions(memory.id)
    if memory.num_banks > MAX_SHOWN_BANKS:
        regions = over_banks(regions, memory.bank_bytes)
    if chosen is not None:
        address, size, banks = chosen.address, chosen.size_bytes, chosen.banks
    elif regions:
        address, size, banks = regions[0].address, regions[0].size_bytes, regions[0].banks
    else:
        address, size, banks = 0, 0, 1
    pieces: dict[int, bytes] = {}
    if 0 < size * banks <= MAX_KEPT_BYTES:
        starts = [address + bank * memory.bank_bytes for bank in range(banks)]
        pieces = {start: source.read_memory(memory.id, start, size) for start in starts}
    return MemoryAnswer(source, memory.id, tuple(regions), pieces)


class MemoryAsker(QObject):
    """Asks a still of the machine in another thread, because values may have to be computed first.

    answered  `answer` is new: regions and the bytes of the chosen range
    filled    bytes that `read` could not return have arrived
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
        self._fetch_soon = QTimer(self, singleShot=True)
        self._fetch_soon.timeout.connect(self._fetch)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is being computed."""
        return self._job.is_waiting or self._fetching.is_waiting or self._fetch_soon.isActive()

    @property
    def is_exclusive(self) -> bool:
        """Whether the machine itself is asked, which is forbidden while it runs."""
        return self._source is self._machine

    def move(self, machine: Machine | None) -> None:
        """Ask another machine, or another state of it, from now on. Call this only while it does not run."""
        self._machine = machine
        self._source = machine.still_memories() if isinstance(machine, HasStillMemories) else machine

    def forget(self) -> None:
        """Forget the answer, because another range or memory is shown."""
        self.answer = None
        self._wanted = {}

    def drop(self) -> None:
        """Discard the answer that is being computed, and the known one."""
        self._job.drop()
        self.forget()

    def look(self, memory: Memory, chosen: MemoryRange | None) -> bool:
        """Ask for regions and a range; return whether the answer is there, else `answered` follows.

        Without a machine return False, and nothing follows.
        """
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
        """Return bytes of the memory last asked for; None if they are not there yet, then `filled`
        follows.
        """
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
