"""Keep what the user wrote into the machine, and apply it again whenever the run passes that cycle anew."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.sim.machine import Machine


@dataclass(frozen=True, slots=True)
class ProbeEdit:
    """A value that was written to a probe."""

    probe: str
    value: Any

    def apply(self, machine: Machine) -> None:
        """Write the value, possibly again."""
        machine.write(self.probe, self.value)

    def text(self, machine: Machine) -> str:
        """Describe the write for people."""
        value = np.asarray(self.value)
        return f"{self.probe} = {value}" if value.size == 1 else f"{self.probe}, {value.size} values"

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for edits that write the same."""
        value = np.asarray(self.value)
        return self.probe, str(value.dtype), value.shape, value.tobytes()


@dataclass(frozen=True, slots=True)
class MemoryEdit:
    """Bytes that were written to a memory."""

    memory: int
    address: int
    data: bytes

    def apply(self, machine: Machine) -> None:
        """Write the bytes, possibly again."""
        machine.write_memory(self.memory, self.address, self.data)

    def text(self, machine: Machine) -> str:
        """Describe the write for people."""
        memory = next(each.name for each in machine.description.memories if each.id == self.memory)
        return f"{memory} {self.address:#x}, {len(self.data)} B"

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for edits that write the same."""
        return self.memory, self.address, self.data


Edit = ProbeEdit | MemoryEdit


class EditList:
    """Edits by cycle. Adding an edit drops all later ones, because they belonged to another future."""

    def __init__(self) -> None:
        self._at: dict[int, list[Edit]] = {}

    @property
    def cycles(self) -> list[int]:
        """Cycles of edits, rising."""
        return sorted(self._at)

    @property
    def first_cycle(self) -> int | None:
        """Cycle of the earliest edit, None without one."""
        return min(self._at, default=None)

    def add(self, cycle: int, edit: Edit) -> None:
        """Add an edit made at `cycle`, and drop those of later cycles."""
        self._at = {at: edits for at, edits in self._at.items() if at <= cycle}
        self._at.setdefault(cycle, []).append(edit)

    def clear(self) -> None:
        """Forget all edits."""
        self._at.clear()

    def copy(self) -> "EditList":
        """Return an independent list of the same edits."""
        made = EditList()
        made._at = {cycle: list(edits) for cycle, edits in self._at.items()}
        return made

    @property
    def all(self) -> list[tuple[int, Edit]]:
        """Cycle and edit, in the order in which the edits are applied."""
        return [(cycle, edit) for cycle in sorted(self._at) for edit in self._at[cycle]]

    def first_difference(self, other: "EditList") -> int | None:
        """Return the first cycle in which the two lists differ, None if they are equal."""
        mine, theirs = ([(cycle, edit.key) for cycle, edit in each.all] for each in (self, other))
        at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), -1)
        if at < 0:
            at = min(len(mine), len(theirs))
            if len(mine) == len(theirs):
                return None
        return min(each[at][0] for each in (mine, theirs) if at < len(each))

    def next_after(self, cycle: int) -> int | None:
        """Return the first cycle after `cycle` with an edit, or None."""
        return min((at for at in self._at if at > cycle), default=None)

    def apply(self, machine: Machine) -> None:
        """Apply the edits of the cycle at which the machine is."""
        for edit in self._at.get(machine.cycle, ()):
            edit.apply(machine)


def frozen_value(value: Any) -> Any:
    """Return a value that no one else can change afterwards: arrays and sequences are copied."""
    return np.array(value) if isinstance(value, np.ndarray | list | tuple) else value
