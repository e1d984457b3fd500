"""Reads the words of command-level DRAM for people: buffers, banks, counters. Never changes them."""

from dataclasses import dataclass

import numpy as np

from npuviz.sim.dram import records_kernels as ck
from npuviz.sim.dram.state_words import COMMAND_NAMES, CommandLayout

COUNTERS = {
    "reads": ck.CC_SEEN,
    "writes": ck.CC_SEEN + 1,
    "row_hits": ck.CC_ROW,
    "row_misses": ck.CC_ROW + 1,
    "row_conflicts": ck.CC_ROW + 2,
    "refreshes": ck.CC_REFRESHED,
    "forwarded": ck.CC_FORWARDED,
    "read_queue": ck.CC_HELD,
    "write_queue": ck.CC_HELD + 1,
    "front_queue": ck.CC_FRONT_COUNT,
    "write_mode": ck.CC_WRITING,
}
"""Per-channel numbers by name."""
BUFFERS = ("reads", "writes")
"""Names of a channel's two buffers by number."""


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request in a buffer, or activated; `stamp` is the tick in which the buffer took it."""

    payload: int
    address: int
    rank: int
    group: int
    bank: int
    row: int
    stamp: int
    is_activated: bool = False


class CommandView:
    """Views of one DRAM whose header is at word `at` of a state."""

    def __init__(self, layout: CommandLayout, at: int) -> None:
        self._layout = layout
        self._at = at

    @property
    def num_banks(self) -> int:
        """Banks of a channel."""
        return self._layout.device.banks

    def channels(self, state: np.ndarray) -> np.ndarray:
        """(channels, words) view of all channels."""
        first, words = int(state[self._at + ck.DC_FIRST]), self._layout.channel_words
        return state[first : first + self._layout.channels * words].reshape(-1, words)

    def counter(self, state: np.ndarray, name: str) -> np.ndarray:
        """(channels,) int64 copy of one of COUNTERS."""
        return self.channels(state)[:, COUNTERS[name]].copy()

    def commands(self, state: np.ndarray) -> dict[str, int]:
        """Command -> how often it was issued, all channels together."""
        sums = self.channels(state)[:, ck.CC_COMMANDS : ck.CC_COMMANDS + ck.COMMANDS].sum(axis=0)
        return dict(zip(COMMAND_NAMES, sums.tolist(), strict=True))

    def banks(self, state: np.ndarray) -> np.ndarray:
        """(channels, banks, BANK_WORDS) view; a bank's number counts ranks, then groups, then banks."""
        channels = self.channels(state)
        start = int(channels[0, ck.CC_BANKS]) - int(state[self._at + ck.DC_FIRST])
        end = start + self.num_banks * ck.BANK_WORDS
        return channels[:, start:end].reshape(len(channels), self.num_banks, ck.BANK_WORDS)

    def open_rows(self, state: np.ndarray) -> np.ndarray:
        """(channels, banks) int64: the open row, -1 where a bank is closed."""
        channels = self.channels(state)
        start = int(channels[0, ck.CC_QUEUES]) - int(state[self._at + ck.DC_FIRST])
        queues = channels[:, start : start + 2 * self.num_banks * ck.Q_WORDS]
        return queues.reshape(len(channels), self.num_banks, -1)[:, :, ck.Q_OPEN].copy()

    def activations(self, state: np.ndarray) -> np.ndarray:
        """(channels, banks) int64: how often each bank was opened."""
        return self._counts(state, 0)

    def accesses(self, state: np.ndarray) -> np.ndarray:
        """(channels, banks) int64: reads and writes of each bank."""
        return self._counts(state, 1)

    def _counts(self, state: np.ndarray, kind: int) -> np.ndarray:
        channels = self.channels(state)
        start = int(channels[0, ck.CC_COUNTS]) - int(state[self._at + ck.DC_FIRST]) + kind * self.num_banks
        return channels[:, start : start + self.num_banks].copy()

    def peaks(self, state: np.ndarray) -> np.ndarray:
        """(channels, 2) int64: most requests that the read and the write buffer held."""
        return self.channels(state)[:, ck.CC_PEAK : ck.CC_PEAK + 2].copy()

    def held(self, state: np.ndarray, channel: int, buffer: int) -> list[HeldRequest]:
        """Requests in a buffer (0 read, 1 write), oldest first."""
        row = self.channels(state)[channel]
        queues = int(row[ck.CC_QUEUES])
        found: list[HeldRequest] = []
        for bank in range(self.num_banks):
            queue = queues + (2 * bank + buffer) * ck.Q_WORDS
            found += self._chain(state, int(state[queue + ck.Q_HITS]) >> 32)
            record = int(state[queue + ck.Q_OTHERS]) >> 32
            while record != ck.NIL:
                word = int(row[ck.CC_ROWS]) + record * ck.ROW_WORDS
                found += self._chain(state, int(state[word + ck.ROW_ENDS]) >> 32)
                record = int(state[word + ck.ROW_NEXT]) & ck.LOW_HALF
        return sorted(found, key=lambda request: request.stamp)

    def activated(self, state: np.ndarray, channel: int) -> list[HeldRequest]:
        """Requests whose row was opened for them and that are not served yet, oldest first."""
        nodes = self.banks(state)[channel, :, ck.BANK_ACTIVE].tolist()
        found = [self._request(state, node, activated=True) for node in nodes if node != ck.NIL]
        return sorted(found, key=lambda request: request.stamp)

    def _node(self, state: np.ndarray, node: int) -> int:
        """Word of a node."""
        return int(state[self._at + ck.DC_POOL]) + node * int(state[self._at + ck.DC_STRIDE])

    def _chain(self, state: np.ndarray, node: int) -> list[HeldRequest]:
        """The requests of a row, from the oldest one on."""
        found: list[HeldRequest] = []
        while node != ck.NIL:
            found.append(self._request(state, node))
            node = int(state[self._node(state, node)]) >> 32
        return found

    def _request(self, state: np.ndarray, node: int, *, activated: bool = False) -> HeldRequest:
        """A node's request."""
        word = self._node(state, node)
        link, address = int(state[word]), int(state[word + ck.NODE_ADDRESS])
        rank, group, bank, row = self._layout.device.mapping.place(address)
        stamp = int(state[word + ck.NODE_STAMP]) >> 1
        return HeldRequest(link & ck.LOW_HALF, address, rank, group, bank, row, stamp, activated)

    def status(self, state: np.ndarray, channel: int) -> tuple[str, str]:
        """(word, detail) for what a channel does now."""
        row = self.channels(state)[channel]
        reads, writes, front = (int(row[word]) for word in (ck.CC_HELD, ck.CC_HELD + 1, ck.CC_FRONT_COUNT))
        active, is_open = int(row[ck.CC_ACTIVE]), int(row[ck.CC_OPEN])
        detail = (
            f"{reads} reads and {writes} writes waiting, {front} in front, "
            f"{is_open.bit_count()} of {self.num_banks} banks open"
        )
        if int(row[ck.CC_REFRESH]):
            return "refreshing", f"a {self._layout.device.rank_name} is to be refreshed; {detail}"
        if not reads and not writes and not active and not front:
            pending = int(row[ck.CC_PENDING_HEAD]) != ck.NIL
            return ("reading", "data on their way") if pending else ("idle", "")
        return ("writing" if int(row[ck.CC_WRITING]) and writes else "reading"), detail
