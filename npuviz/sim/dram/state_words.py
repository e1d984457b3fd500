"""Places command-level DRAM in a machine's state: how many words it takes, and what they are at the start."""

import numpy as np

from npuviz.sim.dram import records_kernels as ck
from npuviz.sim.dram.device import GROUP, RANK, AddressField, DramDevice

_COMMANDS = {"ACT": ck.ACT, "PRE": ck.PRE, "RD": ck.RD, "WR": ck.WR, "PREA": ck.PREA, "REF": ck.REF}
COMMAND_NAMES = tuple(_COMMANDS)
"""Commands by number."""
FRONT_LIMIT = 256
"""Requests that a channel's front list holds. Ref: systolic.md section 3.7."""
LINE_WORDS = 8
"""Words of a cache line; channels lie in whole lines."""
MAX_CHANNELS = 32 * ck.WHEEL_MASKS


class CommandLayout:
    """Words of the model for `channels` channels of one device.

    num_words  words it takes in the state
    """

    def __init__(self, device: DramDevice, channels: int) -> None:
        if not 1 <= channels <= MAX_CHANNELS:
            raise ValueError(f"{channels} channels; 1 to {MAX_CHANNELS} are possible")
        self.device = device
        self.channels = channels
        sizes = device.organization
        self._rules = [rule for rule in device.rules if rule.window == 1]
        self._ranks = ck.CHANNEL_HEAD
        groups = sizes.ranks * sizes.groups
        # A row that has a record has a request in one of the buffers.
        self._num_rows = 2 * (device.queue_depth + 1)
        tables = {
            "groups": ck.COMMANDS * groups,
            "times": ck.COMMANDS * device.banks,
            "stamps": 4 * device.banks,
            "banks": device.banks * ck.BANK_WORDS,
            "queues": 2 * device.banks * ck.Q_WORDS,
            "counts": 2 * device.banks,
            "rows": self._num_rows * ck.ROW_WORDS,
        }
        place = self._ranks + sizes.ranks * ck.RANK_WORDS
        self._tables: dict[str, int] = {}
        for name, size in tables.items():
            self._tables[name] = place
            place += size
        self.channel_words = place + -place % LINE_WORDS
        # How far apart the times of two commands are, by level of the unit.
        self._steps = (1, 1, groups, device.banks)
        self._wheel = ck.DC_HEADER
        self._rule_table = self._wheel + ck.WHEEL_TICKS * ck.WHEEL_MASKS
        self._first = self._rule_table + len(self._rules) * ck.RULE_WORDS
        self._first += -self._first % LINE_WORDS
        self.num_words = self._first + channels * self.channel_words

    def write(
        self, s: np.ndarray, at: int, pool: int, stride: int, period_ps: int, is_refreshed: bool
    ) -> None:
        """Write the words of cycle 0 to `s` from word `at` on.

        s          (words,) int64, zeros there
        pool       word of node 0 of the owner's pool; `stride` words a node, at least NODE_WORDS
        period_ps  picoseconds of a tick
        """
        device, sizes = self.device, self.device.organization
        interval = device.timing["nREFI"] if is_refreshed else 0
        window = [rule.cycles for rule in device.rules if rule.window == 4]
        values = {
            ck.DC_CHANNELS: self.channels,
            ck.DC_PERIOD: period_ps,
            ck.DC_FIRST: at + self._first,
            ck.DC_CHANNEL_WORDS: self.channel_words,
            ck.DC_POOL: pool,
            ck.DC_STRIDE: stride,
            ck.DC_RANKS: sizes.ranks,
            ck.DC_RANK_BANKS: sizes.groups * sizes.banks,
            ck.DC_BANKS: device.banks,
            ck.DC_GROUPS: sizes.ranks * sizes.groups,
            ck.DC_READ_LATENCY: device.read_latency,
            ck.DC_DEPTH: device.queue_depth,
            ck.DC_FEW: device.watermarks[0],
            ck.DC_MANY: device.watermarks[1],
            ck.DC_INTERVAL: interval,
            ck.DC_WINDOW: window[0] if window else 0,
            ck.DC_FRONT_LIMIT: FRONT_LIMIT,
            ck.DC_GROUP_BITS: sizes.groups.bit_length() - 1,
            ck.DC_BANK_BITS: sizes.banks.bit_length() - 1,
            ck.DC_NEXT: interval - 1 if interval else ck.NEVER,
            ck.DC_FAR: interval - 1 if interval else ck.NEVER,
            ck.DC_NOW: -1,
            ck.DC_WHEEL: at + self._wheel,
        }
        for word, value in values.items():
            s[at + word] = value
        self._write_rules(s, at)
        mapping = device.mapping
        for index, field in enumerate((mapping.rank, mapping.group, mapping.bank, mapping.row)):
            _write_field(s[at + ck.DC_FIELDS + index * ck.FIELD_WORDS :], field)
            s[at + ck.DC_IS_MIXED] |= int(bool(field.added))
        for channel in range(self.channels):
            self._write_channel(s, at + self._first + channel * self.channel_words, interval)

    def _write_rules(self, s: np.ndarray, at: int) -> None:
        place = at + self._rule_table
        for is_sibling, table in ((False, ck.DC_RULES), (True, ck.DC_SIBLING_RULES)):
            for name, command in _COMMANDS.items():
                rules = [r for r in self._rules if r.before == name and r.is_sibling == is_sibling]
                s[at + table + 2 * command] = place
                s[at + table + 2 * command + 1] = len(rules)
                if is_sibling and rules and self.device.ranks > 1:
                    s[at + ck.DC_SIBLINGS] = 1
                for rule in rules:
                    s[place + ck.RULE_LEVEL] = ck.BANK_UNITS + rule.level
                    s[place + ck.RULE_AFTER] = _COMMANDS[rule.after] * self._steps[rule.level]
                    s[place + ck.RULE_CYCLES] = rule.cycles
                    place += ck.RULE_WORDS

    def _write_channel(self, s: np.ndarray, c: int, interval: int) -> None:
        for word in (
            ck.CC_FRONT_HEAD,
            ck.CC_FRONT_TAIL,
            ck.CC_PENDING_HEAD,
            ck.CC_PENDING_TAIL,
            ck.CC_DONE_HEAD,
            ck.CC_DONE_TAIL,
        ):
            s[c + word] = ck.NIL
        s[c + ck.CC_LAST] = s[c + ck.CC_PENDING_LAST] = -1
        s[c + ck.CC_REFRESH_AT] = interval
        s[c + ck.CC_NEXT] = interval - 1 if interval else ck.NEVER
        s[c + ck.CC_UNITS] = c + self._ranks
        at = {name: c + place for name, place in self._tables.items()}
        s[c + ck.CC_GROUPS] = at["groups"]
        s[c + ck.CC_TIMES] = at["times"]
        s[c + ck.CC_STAMPS] = at["stamps"]
        s[c + ck.CC_BANKS] = at["banks"]
        s[c + ck.CC_QUEUES] = at["queues"]
        s[c + ck.CC_COUNTS] = at["counts"]
        s[c + ck.CC_ROWS] = at["rows"]
        sizes = self.device.organization
        for rank in range(sizes.ranks):
            word = c + self._ranks + rank * ck.RANK_WORDS + ck.RANK_RING
            s[word : word + 4] = -ck.NEVER
        for bank in range(self.device.banks):
            word = at["banks"] + bank * ck.BANK_WORDS
            group = bank // sizes.banks
            s[word + ck.BANK_ACTIVE] = ck.NIL
            s[word + ck.BANK_UNITS] = c + ck.CC_EARLIEST
            s[word + ck.BANK_UNITS + RANK] = c + self._ranks + group // sizes.groups * ck.RANK_WORDS
            s[word + ck.BANK_UNITS + GROUP] = at["groups"] + group
            s[word + ck.BANK_UNITS + 3] = at["times"] + bank
        s[at["stamps"] : at["banks"]] = ck.NEVER
        queues = s[at["queues"] : at["counts"]].reshape(-1, ck.Q_WORDS)
        queues[:, [ck.Q_HITS, ck.Q_OTHERS]] = ck.NO_ENDS
        queues[:, ck.Q_OPEN] = -1
        rows = s[at["rows"] :][: self._num_rows * ck.ROW_WORDS].reshape(-1, ck.ROW_WORDS)
        rows[:, ck.ROW_NEXT] = np.arange(1, self._num_rows + 1)


def _write_field(words: np.ndarray, field: AddressField) -> None:
    words[ck.FIELD_SHIFT] = field.shift
    words[ck.FIELD_MASK] = (1 << field.bits) - 1
    for index, (shift, bits, place) in enumerate(field.added):
        at = ck.FIELD_ADDED + 3 * index
        words[at : at + 3] = shift, (1 << bits) - 1, place
