"""Keep futures that a write replaced, as the writes that lead to them:
repeating these gives the same cycles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.debug.edits import EditList
from npuviz.debug.runner import Runner
from npuviz.trace.reader import TraceReader
from npuviz.trace.recorder import Recorder

MOST_BRANCHES = 16
"""Most branches kept at once; the oldest one is forgotten."""
APART_BUDGET_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Branch:
    """A future of the program other than the present one.

    edits     the writes that lead to it
    cycle     cycle at which it was left
    known_to  cycle up to which it was simulated
    end       cycle at which it ends, None if that is not known
    """

    id: int
    edits: EditList
    cycle: int
    known_to: int
    end: int | None

    def parts_at(self, present: EditList) -> int | None:
        """Return the first cycle in which its writes differ from the present ones, None if they do not."""
        return self.edits.first_difference(present)


class BranchList:
    """The branches of a session, without the present future."""

    def __init__(self) -> None:
        self._kept: list[Branch] = []
        self._next = 1

    @property
    def all(self) -> tuple[Branch, ...]:
        """The branches, in the order in which they were left."""
        return tuple(self._kept)

    def keep(self, edits: EditList, cycle: int, known_to: int, end: int | None) -> Branch:
        """Keep a future that is being left; one with the same writes counts as the same branch."""
        known = next((each for each in self._kept if each.edits.first_difference(edits) is None), None)
        if known is not None:
            self._kept.remove(known)
            known_to, end = max(known_to, known.known_to), end if end is not None else known.end
        number = known.id if known is not None else self._next
        self._next += known is None
        self._kept = [*self._kept, Branch(number, edits.copy(), cycle, known_to, end)][-MOST_BRANCHES:]
        return self._kept[-1]

    def named(self, branch_id: int) -> Branch:
        """Return the branch with a number. Raises UsageError for an unknown one."""
        found = next((each for each in self._kept if each.id == branch_id), None)
        if found is None:
            known = ", ".join(str(each.id) for each in self._kept)
            raise UsageError(f"no branch {branch_id}; there are {known or 'none: a write makes one'}")
        return found

    def forget(self, branch_id: int) -> None:
        """Drop a branch. Raises UsageError for an unknown one."""
        self._kept.remove(self.named(branch_id))


@dataclass(frozen=True, slots=True)
class Apart:
    """Result of running a branch apart from the present future:
    its trace, and what was seen in its last cycle."""

    trace: TraceReader
    seen: Any


def run_apart(runner: Runner, branch: Branch, look: Callable[[], Any]) -> Apart:
    """Simulate a branch from the first cycle as far as it is known, then bring the machine back.

    look  returns what to keep of the last cycle. Raises UsageError if nothing is recorded.
    """
    if runner.recorder is None:
        raise UsageError("nothing is recorded, so that there is nothing to compare")
    machine = runner.machine
    runner.flush()
    here = machine.snapshot()
    recorder = Recorder(runner.recorder.schema, runner.recorder.resolve)
    try:
        machine.restore(runner.first)
        apart = Runner(machine, recorder, APART_BUDGET_BYTES)
        apart.edits, apart.interrupted, apart.tick = branch.edits.copy(), runner.interrupted, runner.tick
        apart.edits.apply(machine)
        apart.advance(branch.known_to)
        apart.flush()
        seen = look()
    finally:
        machine.restore(here)
    return Apart(TraceReader(recorder.store), seen)
