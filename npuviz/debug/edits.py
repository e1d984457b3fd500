"""What the user wrote into the machine: applied again whenever the run passes that cycle anew."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.sim.machine import Machine


@dataclass(frozen=True, slots=True)
class ProbeEdit:
    """`value` was written to a probe."""

    probe: str
    value: Any

    def apply(self, machine: Machine) -> None:
        """Write it (again)."""
        machine.write(self.probe, self.value)


@dataclass(frozen=True, slots=True)
class MemoryEdit:
    """`data` was written to a memory."""

    memory: int
    address: int
    data: bytes

    def apply(self, machine: Machine) -> None:
        """Write it (again)."""
        machine.write_memory(self.memory, self.address, self.data)


Edit = ProbeEdit | MemoryEdit


class EditList:
    """Edits by cycle. A new edit makes all later ones void: they belonged to another future."""

    def __init__(self) -> None:
        self._at: dict[int, list[Edit]] = {}

    @property
    def first_cycle(self) -> int | None:
        """Cycle of the earliest edit, None without one."""
        return min(self._at, default=None)

    def add(self, cycle: int, edit: Edit) -> None:
        """Remember an edit made at `cycle`."""
        self._at = {at: edits for at, edits in self._at.items() if at <= cycle}
        self._at.setdefault(cycle, []).append(edit)

    def clear(self) -> None:
        """Forget all edits."""
        self._at.clear()

    def next_after(self, cycle: int) -> int | None:
        """The first cycle after `cycle` with an edit, or None."""
        return min((at for at in self._at if at > cycle), default=None)

    def apply(self, machine: Machine) -> None:
        """Apply the edits of the cycle the machine is at."""
        for edit in self._at.get(machine.cycle, ()):
            edit.apply(machine)


def frozen_value(value: Any) -> Any:
    """A value nobody else can change afterwards: arrays are copied."""
    return np.array(value) if isinstance(value, np.ndarray | list | tuple) else value
