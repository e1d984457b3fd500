"""Lay out command-level DRAM in a machine's state: how many words it takes, and their values at the start."""

from typing import Any

import numpy as np

from npuviz.sim.dram import records_kernels as ck
from npuviz.sim.dram.device import GROUP, RANK, AddressField, DramDevice

_COMMANDS = {"ACT": ck.ACT, "PRE": ck.PRE, "RD": ck.RD, "WR": ck.WR, "PREA": ck.PREA, "REF": ck.REF}
COMMAND_NAMES = tuple(_COMMANDS)
"""Names of the commands by number."""
FRONT_LIMIT = 256
"""Requests that fit into a channel's front list. Ref: systolic.md section 3.7."""
LINE_WORDS = 8
"""Words of a cache line; each channel takes whole lines."""
MAX_CHANNELS = 32 * ck.WHEEL_MASKS


class CommandLayout:
    """Layout of the words of `channels` channels of one device.

    num_words  number of words in the state
    """

    def __init__(self, device: DramDevice, channels: int) -> None:
        if not 1 <= channels <= MAX_CHANNELS:
            raise ValueError(f"{channels} channels; 1 to {MAX_CHANNELS} are possible")
        self.device = device
        self.channels = channels
        sizes = device.organization
        self._rules = [rule for rule in device.rules if rule.window == 1]
        self._ranks = ck.CHANNEL.num_words
        groups = sizes.ranks * sizes.groups
        # Each row with a record has at least one request in a buffer, which limits the records.
        self._num_rows = 2 * (device.queue_depth + 1)
        tables = {
            "groups": ck.COMMANDS * groups,
            "times": ck.COMMANDS * device.banks,
            "stamps": 4 * device.banks,
            "banks": device.banks * ck.BANK.num_words,
            "queues": 2 * device.banks * ck.QUEUE.num_words,
            "counts": 2 * device.banks,
            "rows": self._num_rows * ck.ROW_RECORD.num_words,
        }
        place = self._ranks + sizes.ranks * ck.RANK.num_words
        self._tables: dict[str, int] = {}
        for name, size in tables.items():
            self._tables[name] = place
            place += size
        self.channel_words = place + -place % LINE_WORDS
        # Distance between the times of two commands, by level of the unit.
        self._steps = (1, 1, groups, device.banks)
        self._wheel = ck.DRAM.num_words
        self._rule_table = self._wheel + ck.WHEEL_TICKS * ck.WHEEL_MASKS
        self._first = self._rule_table + len(self._rules) * ck.RULE.num_words
        self._first += -self._first % LINE_WORDS
        self.num_words = self._first + channels * self.channel_words

    def write(
        self, s: np.ndarray, at: int, pool: int, stride: int, period_ps: int, is_refreshed: bool
    ) -> None:
        """Write the words of cycle 0 to `s` from word `at` on.

        s          (words,) int64, zeros from `at` on
        pool       word of node 0 of the owner's pool; `stride` words a node, at least those of a REQUEST_NODE
        period_ps  picoseconds of a tick
        """
        device, sizes = self.device, self.device.organization
        interval = device.timing["nREFI"] if is_refreshed else 0
        window = [rule.cycles for rule in device.rules if rule.window == 4]
        header = ck.DRAM(s, at)
        header.channels = self.channels
        header.period = period_ps
        header.first = at + self._first
        header.channel_words = self.channel_words
        header.pool = pool
        header.stride = stride
        header.ranks = sizes.ranks
        header.rank_banks = sizes.groups * sizes.banks
        header.banks = device.banks
        header.groups = sizes.ranks * sizes.groups
        header.read_latency = device.read_latency
        header.depth = device.queue_depth
        header.few = device.watermarks[0]
        header.many = device.watermarks[1]
        header.interval = interval
        header.window = window[0] if window else 0
        header.front_limit = FRONT_LIMIT
        header.group_bits = sizes.groups.bit_length() - 1
        header.bank_bits = sizes.banks.bit_length() - 1
        header.next = interval - 1 if interval else ck.NEVER
        header.far = interval - 1 if interval else ck.NEVER
        header.now = -1
        header.wheel = at + self._wheel
        self._write_rules(s, at)
        mapping = device.mapping
        for index, field in enumerate((mapping.rank, mapping.group, mapping.bank, mapping.row)):
            _write_field(header.address_fields[index], field)
            header.is_mixed |= int(bool(field.added))
        for channel in range(self.channels):
            self._write_channel(s, at + self._first + channel * self.channel_words, interval)

    def _write_rules(self, s: np.ndarray, at: int) -> None:
        place = at + self._rule_table
        header = ck.DRAM(s, at)
        for is_sibling, table in ((False, header.rules), (True, header.sibling_rules)):
            for name, command in _COMMANDS.items():
                rules = [r for r in self._rules if r.before == name and r.is_sibling == is_sibling]
                table[command].first = place
                table[command].count = len(rules)
                if is_sibling and rules and self.device.ranks > 1:
                    header.siblings = 1
                for rule in rules:
                    row = ck.RULE(s, place)
                    row.level = ck.BANK.units + rule.level
                    row.after = _COMMANDS[rule.after] * self._steps[rule.level]
                    row.cycles = rule.cycles
                    place += ck.RULE.num_words

    def _write_channel(self, s: np.ndarray, c: int, interval: int) -> None:
        channel = ck.CHANNEL(s, c)
        for word in (ck.CHANNEL.front_head, ck.CHANNEL.pending_head, ck.CHANNEL.done_head):
            nodes = ck.LIST(channel, word)
            nodes.head = nodes.tail = ck.NIL
        channel.last = channel.pending_last = -1
        channel.refresh_at = interval
        channel.next = interval - 1 if interval else ck.NEVER
        channel.units = c + self._ranks
        at = {name: c + place for name, place in self._tables.items()}
        channel.groups = at["groups"]
        channel.times = at["times"]
        channel.stamps = at["stamps"]
        channel.banks = at["banks"]
        channel.queues = at["queues"]
        channel.counts = at["counts"]
        channel.rows = at["rows"]
        sizes = self.device.organization
        for rank in range(sizes.ranks):
            ck.RANK(s, c + self._ranks, rank).ring[:] = -ck.NEVER
        for bank in range(self.device.banks):
            row = ck.BANK(s, at["banks"], bank)
            group = bank // sizes.banks
            row.active = ck.NIL
            row.units[0] = c + ck.CHANNEL.earliest
            row.units[RANK] = c + self._ranks + group // sizes.groups * ck.RANK.num_words
            row.units[GROUP] = at["groups"] + group
            row.units[3] = at["times"] + bank
        s[at["stamps"] : at["banks"]] = ck.NEVER
        for index in range(2 * self.device.banks):
            queue = ck.QUEUE(s, at["queues"], index)
            queue.hits = queue.others = ck.NO_ENDS
            queue.open = -1
        rows = ck.ROW_RECORD.column_of(s, at["rows"], self._num_rows, "next")
        rows[:] = np.arange(1, self._num_rows + 1)


def _write_field(row: Any, field: AddressField) -> None:
    row.shift = field.shift
    row.mask = (1 << field.bits) - 1
    for index, (shift, bits, place) in enumerate(field.added):
        row.added[3 * index : 3 * index + 3] = shift, (1 << bits) - 1, place
