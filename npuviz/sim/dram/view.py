"""Read the words of command-level DRAM for display: buffers, banks, counters. Never changes them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.sim.dram import records_kernels as ck
from npuviz.sim.dram.state_words import COMMAND_NAMES, CommandLayout

COUNTERS = {
    "reads": ck.CHANNEL.seen,
    "writes": ck.CHANNEL.seen + 1,
    "row_hits": ck.CHANNEL.row,
    "row_misses": ck.CHANNEL.row + 1,
    "row_conflicts": ck.CHANNEL.row + 2,
    "refreshes": ck.CHANNEL.refreshed,
    "forwarded": ck.CHANNEL.forwarded,
    "read_queue": ck.CHANNEL.held,
    "write_queue": ck.CHANNEL.held + 1,
    "front_queue": ck.CHANNEL.front_count,
    "write_mode": ck.CHANNEL.writing,
}
"""Number of a channel by name -> its word in the channel's record."""
BUFFERS = ("reads", "writes")
"""Names of a channel's two buffers by number."""


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request in a buffer; `stamp` is the tick in which the buffer took it."""

    payload: int
    address: int
    rank: int
    group: int
    bank: int
    row: int
    stamp: int


class CommandView:
    """Reads one DRAM whose header is at word `at` of a state."""

    def __init__(self, layout: CommandLayout, at: int) -> None:
        self._layout = layout
        self._at = at

    @property
    def num_banks(self) -> int:
        """Number of banks of a channel."""
        return self._layout.device.banks

    @property
    def queue_depth(self) -> int:
        """Depth of a channel's buffers, in requests."""
        return self._layout.device.queue_depth

    def channels(self, state: np.ndarray) -> np.ndarray:
        """Return a (channels, words) view of all channels."""
        first, words = int(state[self._at + ck.DRAM.first]), self._layout.channel_words
        return state[first : first + self._layout.channels * words].reshape(-1, words)

    def counter(self, state: np.ndarray, name: str) -> np.ndarray:
        """Return a (channels,) int64 copy of one of COUNTERS."""
        return self.channels(state)[:, COUNTERS[name]].copy()

    def commands(self, state: np.ndarray) -> dict[str, int]:
        """Return how often each command was issued, by name, all channels together."""
        sums = self.channels(state)[:, ck.CHANNEL.commands : ck.CHANNEL.commands + ck.COMMANDS].sum(axis=0)
        return dict(zip(COMMAND_NAMES, sums.tolist(), strict=True))

    def open_rows(self, state: np.ndarray) -> np.ndarray:
        """Return the open row of each bank, (channels, banks) int64, -1 where a bank is closed."""
        channels = self.channels(state)
        start = int(channels[0, ck.CHANNEL.queues]) - int(state[self._at + ck.DRAM.first])
        queues = channels[:, start : start + 2 * self.num_banks * ck.QUEUE.num_words]
        return queues.reshape(len(channels), self.num_banks, -1)[:, :, ck.QUEUE.open].copy()

    def activations(self, state: np.ndarray) -> np.ndarray:
        """Return how often each bank was opened, (channels, banks) int64."""
        return self._counts(state, 0)

    def accesses(self, state: np.ndarray) -> np.ndarray:
        """Return the reads and writes of each bank, (channels, banks) int64."""
        return self._counts(state, 1)

    def _counts(self, state: np.ndarray, kind: int) -> np.ndarray:
        channels = self.channels(state)
        start = (
            int(channels[0, ck.CHANNEL.counts]) - int(state[self._at + ck.DRAM.first]) + kind * self.num_banks
        )
        return channels[:, start : start + self.num_banks].copy()

    def peaks(self, state: np.ndarray) -> np.ndarray:
        """Return the most requests that the read and the write buffer held at once, (channels, 2) int64."""
        return self.channels(state)[:, ck.CHANNEL.peak : ck.CHANNEL.peak + 2].copy()

    def held(self, state: np.ndarray, channel: int, buffer: int) -> list[HeldRequest]:
        """Return the requests in a buffer (0 read, 1 write), oldest first."""
        row = ck.CHANNEL(self.channels(state)[channel])
        found: list[HeldRequest] = []
        for bank in range(self.num_banks):
            queue = ck.QUEUE(state, row.queues, 2 * bank + buffer)
            found += self._chain(state, int(queue.hits) >> 32)
            record = int(queue.others) >> 32
            while record != ck.NIL:
                others = ck.ROW_RECORD(state, row.rows, record)
                found += self._chain(state, int(others.ends) >> 32)
                record = int(others.next) & ck.LOW_HALF
        return sorted(found, key=lambda request: request.stamp)

    def _node(self, state: np.ndarray, node: int) -> Any:
        """Return the record of a node."""
        header = ck.DRAM(state, self._at)
        return ck.REQUEST_NODE(state, header.pool + node * header.stride)

    def _chain(self, state: np.ndarray, node: int) -> list[HeldRequest]:
        """Return the requests of a row, oldest first, from its first node on."""
        found: list[HeldRequest] = []
        while node != ck.NIL:
            found.append(self._request(state, node))
            node = int(self._node(state, node).link) >> 32
        return found

    def _request(self, state: np.ndarray, node: int) -> HeldRequest:
        """Return a node's request, decoded."""
        row = self._node(state, node)
        rank, group, bank, place = self._layout.device.mapping.place(int(row.address))
        payload, stamp = int(row.link) & ck.LOW_HALF, int(row.stamp) >> 1
        return HeldRequest(payload, int(row.address), rank, group, bank, place, stamp)

    def status(self, state: np.ndarray, channel: int) -> tuple[str, str]:
        """Return (word, detail) for what a channel does now."""
        row = ck.CHANNEL(self.channels(state)[channel])
        reads, writes, front = int(row.held[0]), int(row.held[1]), int(row.front_count)
        active, is_open = int(row.active), int(row.open)
        detail = (
            f"{reads} reads and {writes} writes waiting, {front} in front, "
            f"{is_open.bit_count()} of {self.num_banks} banks open"
        )
        if int(row.refresh):
            return "refreshing", f"a {self._layout.device.rank_name} is to be refreshed; {detail}"
        if not reads and not writes and not active and not front:
            pending = int(row.pending_head) != ck.NIL
            return ("reading", "data on their way") if pending else ("idle", "")
        return ("writing" if int(row.writing) and writes else "reading"), detail
