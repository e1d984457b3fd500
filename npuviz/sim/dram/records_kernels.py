"""Word positions of command-level DRAM inside a machine's root state.

A header at word `dram`, tables whose words the header names, and requests in nodes of a pool that the
owner of the state keeps (the simple interconnect's, where that is the network). A node has at least
NODE_WORDS words, so that a request goes through network and DRAM without being copied.
"""

# --- a node -----------------------------------------------------------------------------------------
NODE_LINK = 0  # next node << 32 | payload of the owner
# Front list: tick in which it may be offered. Buffer: key of the request behind it in its row. Finished: tick
# of the response.
NODE_TIME = 1
NODE_ADDRESS = 2  # byte address inside the channel
NODE_STAMP = 3  # tick in which a buffer took it * 2: its key as long as it is not counted
NODE_WORDS = 4
WRITE_FLAG = 1 << 31  # of the payload

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

# --- header: the device and the controller ----------------------------------------------------------
DC_CHANNELS = 0
DC_PERIOD = 1  # ps of a tick
DC_FIRST = 2  # word of channel 0
DC_CHANNEL_WORDS = 3
DC_POOL = 4  # word of node 0
DC_STRIDE = 5  # words of a node
DC_RANKS = 6
DC_RANK_BANKS = 7  # banks of a rank
DC_BANKS = 8  # banks of a channel
DC_READ_LATENCY = 9
DC_DEPTH = 10  # a buffer takes a request while it holds at most so many
DC_FEW = 11  # write mode ends below so many writes
DC_MANY = 12  # and begins above so many
DC_INTERVAL = 13  # ticks between refreshes, 0: none
DC_WINDOW = 14  # ticks from an activation to the fourth one after it, per rank; 0: no such rule
DC_FRONT_LIMIT = 15  # requests that a front list holds
DC_SIBLINGS = 16  # rules between ranks
DC_IS_MIXED = 17  # 1: parts of the address are added to its fields
DC_RULES = 18  # two words per command: word of its first rule, number of rules
DC_SIBLING_RULES = 30  # the same for rules between ranks
DC_FIELDS = 42  # rank, group, bank, row: FIELD_WORDS each
DC_GROUP_BITS = 74
DC_BANK_BITS = 75
# --- header: what changes ---------------------------------------------------------------------------
DC_NEXT = 76  # next tick in which a channel has something to do
DC_INSIDE = 77  # requests in all channels
DC_NOW = 78  # tick from which the wheel's slots are counted
DC_SLOTS = 79  # bits of the wheel's slots with channels in them
DC_FAR = 80  # earliest tick of channels that are beyond the wheel
DC_WHEEL = 81  # word of the wheel
DC_DONE = 82  # WHEEL_MASKS words: channels with responses to be taken
DC_GROUPS = 84  # bank groups of a channel
DC_HEADER = 88

FIELD_SHIFT = 0
FIELD_MASK = 1
FIELD_ADDED = 2  # two parts: shift, mask, place
FIELD_WORDS = 8

RULE_LEVEL = 0  # word of a bank's BANK_UNITS
RULE_AFTER = 1  # how far behind the unit's word the time of the delayed command is
RULE_CYCLES = 2
RULE_WORDS = 3

WHEEL_TICKS = 32  # slots; each has WHEEL_MASKS words of 32 channels
WHEEL_MASKS = 2

# --- a channel --------------------------------------------------------------------------------------
CC_NEXT = 0  # next tick with something to do
CC_LAST = 1  # last tick done
CC_WRITING = 2  # 1: write mode
CC_HELD = 3  # two words: requests in the read and the write buffer
CC_FRONT_HEAD = 5
CC_FRONT_TAIL = 6
CC_FRONT_COUNT = 7
CC_PENDING_HEAD = 8
CC_PENDING_TAIL = 9
CC_PENDING_LAST = 10  # tick in which the newest of them responds
CC_DONE_HEAD = 11  # responses for the owner to take, in order
CC_DONE_TAIL = 12
CC_ACTIVE = 13  # mask of banks with an activated request that is not served yet
CC_OPEN = 14  # mask of open banks
CC_HITS = 15  # two words: banks where a buffer's request finds its row open
CC_OTHERS = 17  # two words: banks where one finds its row closed
CC_REFRESH = 19  # mask of ranks to be refreshed
CC_REFRESH_AT = 20  # clock of the next refresh
CC_SEEN = 21  # two words: reads, writes taken
CC_ROW = 23  # three words: hits, misses, conflicts
CC_REFRESHED = 26
CC_FORWARDED = 27  # reads answered by the write buffer
CC_UNITS = 28  # word of the first rank
CC_GROUPS = 29  # words of the groups' and the banks' earliest times: those of one command side by side
CC_TIMES = 30
CC_BANKS = 31
CC_QUEUES = 32
CC_STAMPS = (
    33  # word of stamps by bank: oldest hits, oldest others of the read buffer, then of the write buffer
)
CC_COMMANDS = 34  # six words: commands issued
CC_EARLIEST = 40  # six words: earliest clock of each command, as far as the channel goes
CC_PEAK = 46  # two words: largest number of requests in the read and the write buffer
CC_WAS = 48  # two words: requests in them before the last tick done
CC_COUNTS = 50  # word of activations by bank, then accesses
CC_ROWS = 51  # word of the row records
CC_FREE_ROW = 52  # first of those not in use
CC_ISSUE_AT = 53  # no command may be issued before this clock; 0: not known, look
CHANNEL_HEAD = 56

# --- units ------------------------------------------------------------------------------------------
RANK_RING = 8  # after six earliest times: the newest four activations
RANK_TURN = 12
RANK_WORDS = 16

BANK_ACTIVE = 0  # node of the activated request
BANK_STAMP = 1  # its key
BANK_WRITE = 2  # 1: it is a write
BANK_UNITS = 4  # four words: words of its channel's, rank's, group's and its own earliest times
BANK_WORDS = 8

# The requests of one buffer for one bank. Those of a row are linked in order of age. A row that is not open
# has a record: nothing searches requests, and the records of a channel fit into the nearest cache.
#
# Key of a request: tick in which the buffer took it (one request a tick) * 2, + 1 once its hit, miss or
# conflict is counted. Only the oldest of a row can be counted while it waits, so that keys are kept beside
# the lists, and choosing among requests reads none of them.
Q_HITS = 0  # for the open row: oldest << 32 | newest; NO_ENDS if there is none
Q_OTHERS = 1  # for other rows, or any if the bank is closed: record of the oldest's row << 32 | last record
Q_ROWS = 2  # how many records there are by row modulo ROW_CLASSES, four bits each; 15: that many or more
Q_OPEN = 3  # the open row, -1 if the bank is closed (in both buffers: a request looks at one line)
Q_WORDS = 4
ROW_CLASSES = 15

ROW_NEXT = 0  # row << 32 | record of the row whose oldest request is the next by age
ROW_ENDS = 1  # its oldest request << 32 | its newest
ROW_STAMP = 2  # key of its oldest request
ROW_WORDS = 3
