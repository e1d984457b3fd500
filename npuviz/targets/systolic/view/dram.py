"""Probes, queues and channel states of a machine's DRAM, for both of its models."""

from typing import Any

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.sim.dram import simple_kernels as dk
from npuviz.sim.dram.records_kernels import WRITE_FLAG
from npuviz.sim.dram.view import CommandView, HeldRequest
from npuviz.sim.machine import QueueEntry, UnitState
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine, StillEngine

_ROLES = {"reading": "move-in", "writing": "move-out", "refreshing": "control", "idle": "idle"}


class DramObserver:
    """Reads the DRAM's words of an engine; never changes them."""

    def __init__(self, engine: Engine | StillEngine, listing: Listing) -> None:
        self._engine = engine
        self._listing = listing
        layout = engine.shape.dram
        self.view = None if layout is None else CommandView(layout, engine.shape.at["dram"])

    def simple_channel(self, index: int) -> Any:
        """Return row of a channel of the simple DRAM."""
        dram = dk.SIMPLE_DRAM(self._engine.state, self._engine.state[sk.CHIP.dram])
        return dk.SIMPLE_CHANNEL(dram, dk.SIMPLE_DRAM.num_words, index)

    def queue_entries(self, queue: int) -> list[QueueEntry]:
        """Return the requests of buffer `queue` % 2 of channel `queue` // 2, oldest first."""
        assert self.view is not None
        channel, buffer = divmod(queue, 2)
        return [self._entry(request) for request in self.view.held(self._engine.state, channel, buffer)]

    def _entry(self, request: HeldRequest) -> QueueEntry:
        place = f"{request.address:#x}: bank {request.group}.{request.bank} row {request.row}"
        if request.payload & WRITE_FLAG:
            return QueueEntry(f"write of Core[{request.payload & ~WRITE_FLAG}] {place}")
        index = int(self._engine.state[request.payload + sk.ENTRY.writer])
        if index < 0:
            return QueueEntry(f"read {place}")
        return QueueEntry(f"read {place}", index, int(self._listing.nodes_of(np.array([index]))[0]))

    def unit_states(self, first_unit: int) -> list[UnitState]:
        """Return the present state of every channel."""
        s = self._engine.state
        found: list[UnitState] = []
        for channel in range(self._engine.spec.config.dram_channels):
            if self.view is not None:
                word, detail = self.view.status(s, channel)
                found.append(UnitState(first_unit + channel, word, _ROLES[word], detail))
                continue
            last = int(self.simple_channel(channel).last) * int(s[sk.CHIP.dram_period])
            last += int(s[sk.CHIP.dram_origin])
            busy = last >= int(s[sk.CHIP.cycle]) * int(s[sk.CHIP.core_period]) and last > 0
            role = "move-in" if busy else "idle"
            found.append(UnitState(first_unit + channel, "busy" if busy else "idle", role))
        return found

    def totals(self) -> dict[str, int]:
        """Return the counters of the whole run; {} for the simple DRAM."""
        if self.view is None:
            return {}
        s = self._engine.state
        names = ("row_hits", "row_misses", "row_conflicts", "refreshes", "forwarded")
        found = {name: int(self.view.counter(s, name).sum()) for name in names}
        return {**found, "dram_commands": sum(self.view.commands(s).values())}

    def peaks(self) -> list[tuple[str, int, int]]:
        """Return (queue, most entries, capacity) of the channels' buffers; [] for the simple DRAM."""
        layout = self._engine.shape.dram
        if self.view is None or layout is None:
            return []
        room = layout.device.queue_depth + 1
        rows = self.view.peaks(self._engine.state).tolist()
        return [
            (f"DRAM[{channel}].{name}", peak, room)
            for channel, row in enumerate(rows)
            for name, peak in zip(("reads", "writes"), row, strict=True)
        ]
