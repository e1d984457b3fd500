"""A command-level DRAM channel tick by tick in plain Python: slow, obvious, the oracle of the kernel.

Ref: systolic.md section 8. Every tick looks at every entry of every buffer; nothing is shared with
the kernel but the description of the device.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from npuviz.sim.dram.device import DramDevice

Unit = tuple[int, ...]


@cache
def units_of(place: Unit) -> tuple[Unit, ...]:
    """Channel, rank, group and bank of a place, as far as it goes."""
    return tuple(place[:length] for length in range(1, len(place) + 1))


@dataclass
class Item:
    """A request inside a channel; `stamp` is the clock at which a buffer took it."""

    tag: Any
    address: int
    is_write: bool
    stamp: int = 0
    due: int = 0
    is_counted: bool = False
    place: Unit = ()
    row: int = 0


@dataclass
class SlowChannel:
    """One channel. `offer` puts a request into the front list, `tick` is one DRAM cycle."""

    device: DramDevice
    is_refreshed: bool = True
    clk: int = 0
    front: deque[Item] = field(default_factory=deque[Item])
    read: list[Item] = field(default_factory=list[Item])
    write: list[Item] = field(default_factory=list[Item])
    active: list[Item] = field(default_factory=list[Item])
    pending: deque[Item] = field(default_factory=deque[Item])
    finished: deque[Any] = field(default_factory=deque[Any])
    refreshes: list[int] = field(default_factory=list[int])
    rows: dict[Unit, int] = field(default_factory=dict[Unit, int])
    earliest: dict[str, dict[Unit, int]] = field(default_factory=dict[str, dict[Unit, int]])
    # What `earliest` says of a command at a place, forgotten when it changes.
    ready_at: dict[tuple[str, Unit], int] = field(default_factory=dict[tuple[str, Unit], int])
    activations: dict[Unit, deque[int]] = field(default_factory=dict[Unit, deque[int]])
    is_writing: bool = False
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("hit", "miss", "conflict", "refresh"), 0)
    )

    def offer(self, tag: Any, address: int, is_write: bool) -> None:
        self.front.append(Item(tag, address, is_write))

    def tick(self) -> None:
        self._take()
        self.clk += 1
        if self.pending and self.pending[0].due <= self.clk:
            self.finished.append(self.pending.popleft().tag)
        interval = self.device.timing.get("nREFI", 0)
        if self.is_refreshed and self.clk % interval == 0:
            self.refreshes.extend(range(self.device.ranks))
        self._serve()

    def _take(self) -> None:
        if not self.front:
            return
        item = self.front[0]
        if not item.is_write and any(other.address == item.address for other in self.write):
            item.due = self.clk + 1
            self.pending.append(self.front.popleft())
            return
        buffer = self.write if item.is_write else self.read
        if len(buffer) <= self.device.queue_depth:
            rank, group, bank, item.row = self.device.mapping.place(item.address)
            item.place = (0, rank, group, bank)
            item.stamp = self.clk
            buffer.append(self.front.popleft())

    def _command(self, item: Item) -> str:
        row = self.rows.get(item.place, -1)
        if row < 0:
            return "ACT"
        if row != item.row:
            return "PRE"
        return "WR" if item.is_write else "RD"

    def _is_ready(self, command: str, place: Unit) -> bool:
        when = self.ready_at.get((command, place))
        if when is None:
            earliest = self.earliest.get(command, {})
            when = max(earliest.get(unit, 0) for unit in units_of(place))
            self.ready_at[command, place] = when
        return when <= self.clk

    def _best(self, buffer: list[Item]) -> Item | None:
        ready = [item for item in buffer if self._is_ready(self._command(item), item.place)]
        return min(ready, key=lambda item: item.stamp) if ready else None

    def _serve(self) -> None:
        item = self._best(self.active)
        if item is not None:
            self._issue_to(item, self.active)
            return
        if self.refreshes:
            self._refresh()
            return
        few, many = self.device.watermarks
        if not self.is_writing:
            self.is_writing = len(self.write) > many or not self.read
        elif len(self.write) < few and self.read:
            self.is_writing = False
        buffer = self.write if self.is_writing else self.read
        item = self._best(buffer)
        if item is not None:
            self._issue_to(item, buffer)

    def _refresh(self) -> None:
        for index, rank in enumerate(self.refreshes):
            place = (0, rank)
            is_open = any(unit[:2] == place and row >= 0 for unit, row in self.rows.items())
            command = "PREA" if is_open else "REF"
            if not self._is_ready(command, place):
                continue
            if command == "PREA" and any(item.place[:2] == place for item in self.active):
                return
            self._issue(command, place)
            if command == "PREA":
                self.rows = {unit: row for unit, row in self.rows.items() if unit[:2] != place}
            else:
                del self.refreshes[index]
                self.counts["refresh"] += 1
            return

    def _issue_to(self, item: Item, buffer: list[Item]) -> None:
        command = self._command(item)
        if command == "PRE" and any(other.place == item.place for other in self.active):
            return
        if not item.is_counted:
            item.is_counted = True
            self.counts[{"PRE": "conflict", "ACT": "miss"}.get(command, "hit")] += 1
        self._issue(command, item.place)
        if command == "ACT":
            self.rows[item.place] = item.row
            buffer.remove(item)
            self.active.append(item)
        elif command == "PRE":
            del self.rows[item.place]
        else:
            buffer.remove(item)
            if command == "RD":
                item.due = self.clk + self.device.read_latency
                self.pending.append(item)
            else:
                self.finished.append(item.tag)

    def _issue(self, command: str, place: Unit) -> None:
        for length in range(1, len(place) + 1):
            unit = place[:length]
            for rule in self.device.rules:
                if rule.level != length - 1 or rule.before != command or rule.is_sibling:
                    continue
                start = self.clk
                if rule.window > 1:
                    window = self.activations.setdefault(unit, deque(maxlen=rule.window))
                    window.append(self.clk)
                    if len(window) < rule.window:
                        continue
                    start = window[0]
                self._raise(unit, rule.after, start + rule.cycles)
        for rule in self.device.rules:
            if rule.is_sibling and rule.before == command:
                for rank in range(self.device.ranks):
                    if rank != place[1]:
                        self._raise((0, rank), rule.after, self.clk + rule.cycles)

    def _raise(self, unit: Unit, command: str, time: int) -> None:
        of_command = self.earliest.setdefault(command, {})
        of_command[unit] = max(of_command.get(unit, 0), time)
        self.ready_at.clear()


def count_all(channels: list[SlowChannel]) -> Mapping[str, int]:
    """Sums of the channels' counts."""
    return {name: sum(channel.counts[name] for channel in channels) for name in channels[0].counts}
