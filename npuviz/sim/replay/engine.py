"""Contents at one place of a log, which moves: forward by applying entries, back by undoing them or from a
state that was kept.

Contents are a pure function of program, inputs, edits and the log of completions.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np

from npuviz.sim.replay.contents import Contents, Edit, Place, Report, ValueHazard, is_within
from npuviz.sim.replay.snapshots import Snapshot, Snapshots
from npuviz.sim.replay.undo import UndoLog

MAX_HAZARDS = 10_000
"""Hazards kept of a run; a program that reads unwritten memory does it everywhere."""
_NO_LIMIT = 1 << 62

Visit = Callable[[int, int], object]
"""Takes the position and the entry that has just been applied."""
AnyContents = TypeVar("AnyContents", bound=Contents)


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """What going back may cost.

    keep_seconds    a state is kept when so much time has passed since the last one, and nine times as much as
                    keeping that took
    kept_states, kept_bytes  how many, and what only they hold
    undone_entries  entries at the end of a way that can be undone one by one; 0: none
    undo_bytes      overwritten bytes kept for that
    """

    keep_seconds: float = 0.1
    kept_states: int = 64
    kept_bytes: int = 512 << 20
    undone_entries: int = 0
    undo_bytes: int = 128 << 20


class Replay(Generic[AnyContents]):
    """Contents after any prefix of a log. Any thread may ask; one at a time is served.

    make  contents at the beginning; called when first needed: a machine that nobody asks for values
          takes no memory
    """

    limits = ReplayLimits()

    def __init__(self, make: Callable[[Report], AnyContents]) -> None:
        self.lock = threading.RLock()
        self._make = make
        self._contents: AnyContents | None = None
        self._snapshots = Snapshots(self.limits.kept_states, self.limits.kept_bytes)
        self._undo = UndoLog(self.limits.undo_bytes)
        self._place: Place = (0, 0)
        self._entry = 0
        self._edits: tuple[Edit, ...] = ()
        # The longest log seen that agrees with what was applied and kept.
        self._known = np.zeros(1024, np.int64)
        self._num_known = 0
        self._hazards: list[ValueHazard] = []
        self._last_kept = time.monotonic()
        self._keep_after = self.limits.keep_seconds

    @property
    def is_made(self) -> bool:
        """Whether anybody has asked yet."""
        return self._contents is not None

    @property
    def contents(self) -> AnyContents:
        """The contents where they are; made when first needed."""
        with self.lock:
            if self._contents is None:
                self._contents = self._make(self._report)
            return self._contents

    @property
    def position(self) -> int:
        """Log entries applied."""
        return self._place[0]

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Hand-written bytes of the last `advance_to`."""
        return self._edits

    @property
    def hazards(self) -> list[ValueHazard]:
        """What went wrong up to here, in log order; at most MAX_HAZARDS."""
        with self.lock:
            return list(self._hazards)

    def advance_to(self, log: np.ndarray, edits: tuple[Edit, ...] = ()) -> None:
        """Bring the contents to exactly this log (int64) with these edits, sorted by position.

        Edits at positions beyond the log wait.
        """
        with self.lock:
            self._advance(np.asarray(log, np.int64), edits, None)

    @contextmanager
    def at(self, log: np.ndarray, edits: tuple[Edit, ...] = ()) -> Generator[Self]:
        """As `advance_to`; nobody moves the contents until the block ends."""
        with self.lock:
            self.advance_to(log, edits)
            yield self

    def replay(self, log: np.ndarray, edits: tuple[Edit, ...], visit: Visit) -> None:
        """Apply a log from the beginning; `visit` may read contents after every entry."""
        with self.lock:
            self._restore(None)
            self._advance(np.asarray(log, np.int64), edits, visit)

    # Moving -------------------------------------------------------------------------------------

    def _advance(self, log: np.ndarray, edits: tuple[Edit, ...], visit: Visit | None) -> None:
        self._agree(log, edits)
        count = len(log)
        target: Place = (count, sum(edit.position <= count for edit in edits))
        self._go_back(target)
        if visit is None and count - self._place[0] > self.limits.undone_entries:
            kept = self._snapshots.best(target)
            if kept is not None and kept.place[0] > self._place[0] and kept.place[1] >= self._place[1]:
                self._restore(kept)
        self._forward(log, target, visit)

    def _agree(self, log: np.ndarray, edits: tuple[Edit, ...]) -> None:
        """Make this log and these edits the known ones; leave what only others had."""
        shared = min(len(log), self._num_known)
        same = self._known[:shared] == log[:shared]
        limit = _NO_LIMIT
        if not same.all():
            limit = self._num_known = int(same.argmin())
        common = 0
        for mine, new in zip(self._edits, edits, strict=False):
            if mine != new:
                break
            common += 1
        for rest in (self._edits[common:], edits[common:]):
            if rest:
                limit = min(limit, rest[0].position)
        if limit < _NO_LIMIT:
            self._snapshots.drop_after((limit, common))
            self._go_back((limit, common))
        self._edits = edits
        if len(log) > self._num_known:
            if len(log) > len(self._known):
                self._known = np.concatenate([self._known, np.zeros(len(log), np.int64)])
            self._known[self._num_known : len(log)] = log[self._num_known :]
            self._num_known = len(log)

    def _go_back(self, target: Place) -> None:
        """To the last place reached that is after `target` neither in entries nor in edits."""
        if is_within(self._place, target):
            return
        if not self._undo.reaches(target):
            self._restore(self._snapshots.best(target))
            return
        while not is_within(self._place, target):
            self._place = self._undo.back()
        while self._hazards and self._hazards[-1].position >= self._place[0]:
            self._hazards.pop()

    def _restore(self, kept: Snapshot | None) -> None:
        self.contents.restore(None if kept is None else kept.state)
        self._undo.clear()
        self._place = (0, 0) if kept is None else kept.place
        self._hazards = [] if kept is None else list(kept.hazards)

    def _forward(self, log: np.ndarray, target: Place, visit: Visit | None) -> None:
        contents = self.contents
        position, count = self._place[0], target[0]
        # A long way is taken back from a kept state, only its end entry by entry.
        undone = self.limits.undone_entries if visit is None else 0
        undone_from = count - undone if undone else _NO_LIMIT
        if undone_from > position:
            self._undo.clear()
        # Infinities and what comes of them are values like others.
        with np.errstate(all="ignore"):
            for entry in log[position:count].tolist():
                self._apply_edits(target, undone_from)
                undoable = position >= undone_from
                self._entry = entry
                undo = contents.apply(entry, undoable)
                if undoable:
                    self._undo.note(self._place, undo)
                position += 1
                self._place = (position, self._place[1])
                if visit is not None:
                    visit(position - 1, entry)
                elif time.monotonic() - self._last_kept > self._keep_after:
                    self._keep()
            self._apply_edits(target, undone_from)

    def _apply_edits(self, target: Place, undone_from: int) -> None:
        """Apply the edits that are due where the contents are."""
        position, applied = self._place
        while applied < target[1] and self._edits[applied].position <= position:
            undoable = position >= undone_from
            undo = self.contents.apply_edit(self._edits[applied], undoable)
            if undoable:
                self._undo.note(self._place, undo)
            applied += 1
            self._place = (position, applied)

    def _keep(self) -> None:
        # By time: how often a state is worth keeping depends on what it costs to compute it again. Keeping
        # large states takes time itself: at most a tenth of it.
        begin = time.monotonic()
        self._snapshots.take(Snapshot(self._place, self.contents.keep(), tuple(self._hazards)))
        self._last_kept = time.monotonic()
        self._keep_after = max(self.limits.keep_seconds, 9 * (self._last_kept - begin))

    def _report(self, kind: str, text: str) -> None:
        if len(self._hazards) < MAX_HAZARDS:
            self._hazards.append(ValueHazard(self._place[0], self._entry, kind, text))
