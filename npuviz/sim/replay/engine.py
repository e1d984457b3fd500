"""Move contents along a log: forward by applying entries, back by undoing them or from a state that was kept.

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
"""Most hazards kept of a run: a program that reads unwritten memory does so everywhere."""
_NO_LIMIT = 1 << 62

Visit = Callable[[int, int], object]
"""Function that takes the position and the entry that has just been applied."""
AnyContents = TypeVar("AnyContents", bound=Contents)


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """Limits of the time and memory spent on going back.

    keep_seconds    a state is kept when this time has passed since the last one, and nine times the time that
                    keeping the last one took
    kept_states, kept_bytes  most kept states, and most bytes in them
    undone_entries  number of last entries that can be undone one by one; 0: none
    undo_bytes      most overwritten bytes kept for undoing
    """

    keep_seconds: float = 0.1
    kept_states: int = 64
    kept_bytes: int = 512 << 20
    undone_entries: int = 0
    undo_bytes: int = 128 << 20


class Replay(Generic[AnyContents]):
    """Contents after any prefix of a log. Any thread may call it; calls are served one at a time.

    make  returns contents at the beginning; called when first needed: a machine whose values nobody reads
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
        # The longest log seen of which the applied and kept parts are prefixes.
        self._known = np.zeros(1024, np.int64)
        self._num_known = 0
        self._hazards: list[ValueHazard] = []
        self._last_kept = time.monotonic()
        self._keep_after = self.limits.keep_seconds

    @property
    def is_made(self) -> bool:
        """Whether the contents have been made, that is, were asked for."""
        return self._contents is not None

    @property
    def contents(self) -> AnyContents:
        """The contents at their present place; made when first needed."""
        with self.lock:
            if self._contents is None:
                self._contents = self._make(self._report)
            return self._contents

    @property
    def position(self) -> int:
        """Number of log entries applied."""
        return self._place[0]

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Bytes written by hand, as of the last `advance_to`."""
        return self._edits

    @property
    def hazards(self) -> list[ValueHazard]:
        """What went wrong up to the present place, in log order; at most MAX_HAZARDS."""
        with self.lock:
            return list(self._hazards)

    def advance_to(self, log: np.ndarray, edits: tuple[Edit, ...] = ()) -> None:
        """Bring the contents to exactly this log (int64) with these edits, sorted by position.

        Edits at positions beyond the log are not applied yet.
        """
        with self.lock:
            self._advance(np.asarray(log, np.int64), edits, None)

    @contextmanager
    def at(self, log: np.ndarray, edits: tuple[Edit, ...] = ()) -> Generator[Self]:
        """Advance as `advance_to`, and keep the contents there until the end of a `with` block."""
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
        """Adopt this log and these edits; drop kept states and go back past what differs
        from the former ones."""
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
        """Go back to the last reachable place that is not beyond `target`,
        neither in entries nor in edits."""
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
        # A long way back is taken from a kept state; only the last entries can be undone one by one.
        undone = self.limits.undone_entries if visit is None else 0
        undone_from = count - undone if undone else _NO_LIMIT
        if undone_from > position:
            self._undo.clear()
        # Infinities and NaNs are values like others: no warnings.
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
        """Apply the edits that are due at the present place."""
        position, applied = self._place
        while applied < target[1] and self._edits[applied].position <= position:
            undoable = position >= undone_from
            undo = self.contents.apply_edit(self._edits[applied], undoable)
            if undoable:
                self._undo.note(self._place, undo)
            applied += 1
            self._place = (position, applied)

    def _keep(self) -> None:
        # Decided by time: how often to keep a state depends on what it costs to compute it again. Keeping
        # large states takes time itself: at most a tenth of the whole.
        begin = time.monotonic()
        self._snapshots.take(Snapshot(self._place, self.contents.keep(), tuple(self._hazards)))
        self._last_kept = time.monotonic()
        self._keep_after = max(self.limits.keep_seconds, 9 * (self._last_kept - begin))

    def _report(self, kind: str, text: str) -> None:
        if len(self._hazards) < MAX_HAZARDS:
            self._hazards.append(ValueHazard(self._place[0], self._entry, kind, text))
