"""Define the records of command-level DRAM inside a machine's root state.

A header lies at word `dram`, with tables whose words it names; requests lie in nodes of a pool that the
owner of the state keeps (the simple interconnect's, where that is the network). A node has at least
the words of REQUEST_NODE, so that a request goes through network and DRAM without being copied.
"""

from typing import Any, NamedTuple

from npuviz.sim.parts.bits_kernels import inlined
from npuviz.sim.parts.record_kernels import Gap, Record, Rows, Words

# --- a node -----------------------------------------------------------------------------------------

REQUEST_NODE = Record(
    "request in a node",
    link="next node << 32 | payload of the owner",
    time=(
        "front list: tick in which it may be offered; buffer: key of the request behind it in its "
        "row; finished: tick of the response"
    ),
    address="byte address inside the channel",
    stamp="tick in which a buffer took it * 2: its key as long as it is not counted",
)

LIST = Record(
    "list of nodes",
    head="first node, NIL if there is none",
    tail="last node, NIL if there is none",
)

WRITE_FLAG = 1 << 31  # a bit of the payload

NIL = 0x7FFF_FFFF
LOW_HALF = 0xFFFF_FFFF
NO_ENDS = NIL << 32 | NIL
NEVER = 1 << 60

# --- commands ---------------------------------------------------------------------------------------
ACT = 0
PRE = 1
RD = 2
WR = 3
PREA = 4
REF = 5
COMMANDS = 6

WHEEL_TICKS = 32  # slots; each has WHEEL_MASKS words of 32 channels
WHEEL_MASKS = 2
ROW_CLASSES = 15

# --- header: the device and the controller ----------------------------------------------------------

FIELD = Record(
    "field of an address",
    shift="its lowest bit",
    mask="its bits, shifted down",
    added=Words(6, "two parts that are added to it: shift, mask, place"),
)

RULES = Record(
    "timing rules of a command",
    first="word of the first rule",
    count="how many there are",
)

DRAM = Record(
    "command-level DRAM",
    channels="channels",
    period="ps of a tick",
    first="word of channel 0",
    channel_words="words of a channel",
    pool="word of node 0",
    stride="words of a node",
    ranks="ranks of a channel",
    rank_banks="banks of a rank",
    banks="banks of a channel",
    read_latency="ticks from a read command to its data",
    depth="a buffer takes a request while it holds at most so many",
    few="write mode ends below so many writes",
    many="write mode begins above so many writes",
    interval="ticks between refreshes, 0: none",
    window="ticks from an activation to the fourth one after it, per rank; 0: no such rule",
    front_limit="requests that a front list holds",
    siblings="1: there are rules between ranks",
    is_mixed="1: parts of the address are added to its fields",
    rules=Rows(RULES, COMMANDS, "by command: what it delays"),
    sibling_rules=Rows(RULES, COMMANDS, "by command: what it delays in the other ranks"),
    address_fields=Rows(FIELD, 4, "rank, group, bank, row"),
    group_bits="bits of a group's number",
    bank_bits="bits of a bank's number in its group",
    next="next tick in which a channel has something to do",
    inside="requests in all channels",
    now="tick from which the wheel's slots are counted",
    slots="bits of the wheel's slots with channels in them",
    far="earliest tick of channels that are beyond the wheel",
    wheel="word of the wheel",
    done=Words(WHEEL_MASKS, "channels with responses to be taken, a bit each"),
    groups="bank groups of a channel",
    at_least=88,
)

RULE = Record(
    "timing rule",
    level="position in a bank's row of the word of the unit that is delayed",
    after="how far behind the unit's word the time of the delayed command is",
    cycles="cycles of delay",
)

# --- a channel --------------------------------------------------------------------------------------

CHANNEL = Record(
    "DRAM channel",
    next="next tick with something to do",
    last="last tick done",
    writing="1: write mode",
    held=Words(2, "requests in the read and the write buffer"),
    front_head="requests that the buffers have not taken: first node",
    front_tail="their last node",
    front_count="how many they are",
    pending_head="reads whose data are on their way: first node",
    pending_tail="their last node",
    pending_last="tick in which the newest of them responds",
    done_head="responses for the owner to take, in order: first node",
    done_tail="their last node",
    active="mask of banks with an activated request that is not served yet",
    open="mask of open banks",
    hits=Words(2, "banks where a buffer's request finds its row open"),
    others=Words(2, "banks where one finds its row closed"),
    refresh="mask of ranks to be refreshed",
    refresh_at="clock of the next refresh",
    seen=Words(2, "reads, writes taken"),
    row=Words(3, "hits, misses, conflicts"),
    refreshed="refreshes",
    forwarded="reads answered by the write buffer",
    units="word of the first rank",
    groups="word of the groups' earliest times: those of one command side by side",
    times="word of the banks' earliest times, likewise",
    banks="word of the banks",
    queues="word of the requests by bank and buffer",
    stamps=(
        "word of stamps by bank: oldest hits, oldest others of the read buffer, then of the write buffer"
    ),
    commands=Words(COMMANDS, "commands issued"),
    earliest=Words(COMMANDS, "earliest clock of each command, as far as the channel goes"),
    peak=Words(2, "largest number of requests in the read and the write buffer"),
    was=Words(2, "requests in them before the last tick done"),
    counts="word of activations by bank, then accesses",
    rows="word of the row records",
    free_row="first row record not in use",
    issue_at="no command may be issued before this clock; 0: not known, look",
    at_least=56,
)

# --- units ------------------------------------------------------------------------------------------

RANK = Record(
    "rank",
    earliest=Words(COMMANDS, "earliest clock of each command"),
    _6=Gap(2),
    ring=Words(4, "clocks of the newest four activations"),
    turn="the oldest of them",
    at_least=16,
)

BANK = Record(
    "bank",
    active="node of the activated request",
    stamp="key of that request",
    write="1: it is a write",
    _3=Gap(1),
    units=Words(4, "words of its channel's, rank's, group's and its own earliest times"),
)


# The requests of one buffer for one bank. Those of a row are linked in order of age. A row that is not open
# has a record: nothing searches requests, and the records of a channel fit into the nearest cache.
#
# Key of a request: tick in which the buffer took it (one request a tick) * 2, + 1 once its hit, miss or
# conflict is counted. Only the oldest of a row can be counted while it waits, so that keys are kept beside
# the lists, and choosing among requests reads none of them.
QUEUE = Record(
    "requests of a buffer for a bank",
    hits="for the open row: oldest << 32 | newest; NO_ENDS if there is none",
    others="for other rows, or any if the bank is closed: record of the oldest's row << 32 | last record",
    rows="how many records there are by row modulo ROW_CLASSES, four bits each; 15: that many or more",
    open="the open row, -1 if the bank is closed (in both buffers: a request looks at one line)",
)

ROW_RECORD = Record(
    "requests for a row that is not open",
    next="row << 32 | record of the row whose oldest request is the next by age",
    ends="its oldest request << 32 | its newest",
    stamp="key of its oldest request",
)


# --- what kernels pass to each other ----------------------------------------------------------------


class Dram(NamedTuple):
    """Command-level DRAM and the array of words that holds it."""

    words: Any
    """The owner's state."""
    device: Any
    """Row DRAM."""


@inlined
def dram_at(words, first):
    """Return the DRAM whose header is at word `first`."""
    return Dram(words, DRAM(words, first))
