"""Reads the state for people: queues, units, what is under way, probes."""

from typing import Any

from npuviz.program.instruction import Listing
from npuviz.sim.machine import Activity, QueueEntry, RunSummary, UnitState
from npuviz.sim.probe import ProbeTable
from toychip.isa import ALU, LD, SEQ, ST, UNITS, WAIT
from toychip.kernels.records import CHIP, RING
from toychip.load.program import Payload
from toychip.machine.engine import Engine
from toychip.spec import ToySpec

_ROLES = ("move-in", "compute", "compute", "move-out")


class Observer:
    """Looks at an engine's state and never changes it."""

    def __init__(self, engine: Engine, spec: ToySpec, payload: Payload, listing: Listing) -> None:
        self._engine, self._spec = engine, spec
        self._payload, self._listing = payload, listing

    @property
    def _chip(self) -> Any:
        return CHIP(self._engine.state)

    def _queue(self, queue: int) -> list[int]:
        unit = self._chip.units[queue]
        return [int(unit.ring[place % RING]) for place in range(int(unit.head), int(unit.tail))]

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Instructions in a queue, head first."""
        found = [self._listing.describe(index) for index in self._queue(queue)]
        return [QueueEntry(each.text, each.index, each.node) for each in found]

    def unit_states(self) -> list[UnitState]:
        """What every unit does now."""
        following = int(self._chip.next)
        has_more = following < len(self._listing)
        states = [
            UnitState(SEQ, "hands out" if has_more else "done", "" if has_more else "idle", "",
                      following if has_more else -1)
        ]  # fmt: skip
        for number in (LD, ALU, ST):
            unit = self._chip.units[number - 1]
            index = int(unit.running)
            if index >= 0:
                role = _ROLES[self._payload.kinds[index]]
                states.append(UnitState(number, "runs", role, "", index, int(unit.start)))
            elif unit.since >= 0:
                head = self._queue(number - 1)[0]
                states.append(UnitState(number, "waits", "wait-dependency", "", head, int(unit.since)))
            else:
                states.append(UnitState(number, "idle", "idle"))
        return states

    def next_instructions(self) -> dict[int, int]:
        """Unit -> the instruction it takes next."""
        found = {unit: self._queue(unit - 1)[0] for unit in (LD, ALU, ST) if self._queue(unit - 1)}
        following = int(self._chip.next)
        return {SEQ: following, **found} if following < len(self._listing) else found

    def activities(self) -> list[Activity]:
        """Instructions and waits that have not ended."""
        found: list[Activity] = []
        for state in self.unit_states()[1:]:
            if state.instruction < 0:
                continue
            unit = self._chip.units[state.unit - 1]
            is_running = unit.running >= 0
            node = self._listing.describe(state.instruction).node
            kind = self._payload.kinds[state.instruction] if is_running else WAIT
            end = int(unit.until) if is_running else -1
            found.append(Activity(state.unit - 1, state.since, end, kind, node, state.instruction))
        return found

    def busy(self, unit: int) -> int:
        """Busy cycles so far."""
        row = self._chip.units[unit - 1]
        return int(row.busy) + (int(self._chip.cycle) - int(row.start) if row.running >= 0 else 0)

    def summary(self) -> RunSummary:
        """Totals so far."""
        return RunSummary(
            units=tuple((f"Core.{UNITS[unit]}", self.busy(unit), 0) for unit in (LD, ALU, ST)),
            queues=tuple(
                (f"Core.{UNITS[unit]}", int(self._chip.units[unit - 1].peak), self._spec.queue)
                for unit in (LD, ALU, ST)
            ),
            counters={"instructions": int(self._chip.log_count)},
        )

    def probes(self) -> ProbeTable:
        """What can be watched; nothing can be set."""
        found = ProbeTable()
        for number, unit in enumerate((LD, ALU, ST)):
            name = f"Core.{UNITS[unit]}"
            waiting = "instructions in the queue"
            found.add(f"{name}.occupancy", waiting, lambda n=number: len(self._queue(n)), "entries", name)
            taken = "instructions taken"
            found.add(f"{name}.done", taken, lambda n=number: int(self._chip.units[n].head), group=name)
        return found
