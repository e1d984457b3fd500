"""Seats: in which order nodes that have work lie in the time wheel, and which of them may run side by side.

A node takes the next seat when something first happens there. With it come two actors: its router, 2 seat,
and its processor, 2 seat + 1. So what has work lies side by side however far apart it is on the wafer. When
many new nodes have come, or none for long, the seats are sorted by node and the sorted ones cut into bands.

A node at the frontier has a neighbour whose seat is not sorted, or may send to one that has no block yet.
Its router runs after all others of a cycle, when nothing runs beside it, and so does what has a new seat: a
thread that runs a band never comes near that, and only what runs alone makes blocks.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.program_records import NODE_NEIGHBOUR, NODE_SEAT, NODE_WORDS, P_NODES
from npuviz.targets.wavelet.kernels.records import (
    B_CHANNELS,
    B_NODE,
    B_SEAT,
    BORDERS_OF_A_BAND,
    FAN_SHIFT,
    FRONTIER,
    H_BAND_SHIFT,
    H_BANDS_COUNT,
    H_BANDS_FILLED,
    H_BORDER,
    H_NODES,
    H_NODES_COUNT,
    H_NOW,
    H_SEATED_AT,
    H_SEATS,
    H_SEATS_COUNT,
    H_SORTED,
    H_WHEEL,
    SLOT_SHIFT,
    SLOTS,
)
from npuviz.targets.wavelet.kernels.time.wheel import end_slot, set_bit

SEATS_SHIFT = FAN_SHIFT - 1
"""A word of the wheel has 1 << this seats."""
GROWTH = 8
"""Seats are sorted when one in so many is new."""
QUIET = 256
"""Cycles without a new seat after which they are sorted."""


@kernel
def take_seat(s, p, b, node):
    """Give a node with a new block its seat; it and its neighbours are at the frontier now."""
    row = p[P_NODES] + node * NODE_WORDS
    seat = p[row + NODE_SEAT]
    if seat < 0:
        seat = s[H_SEATS_COUNT]
        s[H_SEATS_COUNT] = seat + 1
    s[H_SEATED_AT] = s[H_NOW]
    s[s[H_SEATS] + seat] = b
    s[b + B_SEAT] = seat
    s[b + B_CHANNELS] |= FRONTIER
    for port in range(1, 5):
        nb = block_behind(s, p, node, port)
        if nb > 0:
            s[nb + B_CHANNELS] |= FRONTIER


@inlined
def block_behind(s, p, node, port):
    """Block of the node behind a port; 0 if it has none yet, -1 if there is no node."""
    neighbour = p[p[P_NODES] + node * NODE_WORDS + NODE_NEIGHBOUR + port]
    return s[s[H_NODES] + neighbour] if neighbour >= 0 else -1


@inlined
def words_of(seats):
    """Words of the wheel for so many seats."""
    return ((seats - 1) >> SEATS_SHIFT) + 1


@inlined
def are_sorted(s):
    """Whether there is no new seat."""
    return s[H_SORTED] == s[H_SEATS_COUNT]


@inlined
def words_of_sorted(s):
    """Words of the wheel without a new seat."""
    if s[H_SORTED] < s[H_SEATS_COUNT]:
        return s[H_SORTED] >> SEATS_SHIFT
    return words_of(s[H_SORTED])


@inlined
def have_to_be_sorted(s):
    """Whether it is time to sort the seats."""
    new = s[H_SEATS_COUNT] - s[H_SORTED]
    return new > 0 and (new * GROWTH >= s[H_SEATS_COUNT] or s[H_NOW] - s[H_SEATED_AT] >= QUIET)


@kernel
def sort_seats(s, p, aside):
    """Give the nodes that have seats those in the order of nodes, and cut them into bands.

    aside  word behind the heap; three words a node and some are 0 from there on, and will be again
    """
    size = words_of(s[H_SEATS_COUNT]) << SLOT_SHIFT
    new_seat = aside + size
    for i in range(size):
        s[aside + i] = s[s[H_WHEEL] + i]
        s[s[H_WHEEL] + i] = 0
    for slot in range(SLOTS):
        end_slot(s, slot)
    count = 0
    for node in range(s[H_NODES_COUNT]):
        b = s[s[H_NODES] + node]
        if b > 0:
            s[new_seat + s[b + B_SEAT]] = count
            s[s[H_SEATS] + count] = b
            s[b + B_SEAT] = count
            count += 1
    for i in range(size):
        word = s[aside + i]
        s[aside + i] = 0
        while word:
            actor = ((i >> SLOT_SHIFT) << FAN_SHIFT) + trailing_zeros(word)
            word &= word - 1
            set_bit(s, 2 * s[new_seat + (actor >> 1)] + (actor & 1), i & (SLOTS - 1))
    for seat in range(count):
        s[new_seat + seat] = 0
    s[H_SORTED] = count
    _cut_bands(s, _widest(s, p))


@kernel
def _widest(s, p):
    """The largest distance between the seats of two neighbours."""
    found = 1
    for seat in range(s[H_SORTED]):
        node = s[s[s[H_SEATS] + seat] + B_NODE]
        for port in range(1, 5):
            nb = block_behind(s, p, node, port)
            if nb > 0 and s[nb + B_SEAT] - seat > found:
                found = s[nb + B_SEAT] - seat
    return found


@kernel
def _cut_bands(s, widest):
    """Cut the seats into bands. Without borders no two have a neighbour or a word of the wheel in common.

    widest  how far the seats of neighbours are apart at most
    """
    border = (2 * words_of(widest)) << SEATS_SHIFT
    shift = SEATS_SHIFT
    while (1 << shift) < BORDERS_OF_A_BAND * border or (s[H_SORTED] - 1) >> shift >= s[H_BANDS_COUNT]:
        shift += 1
    s[H_BAND_SHIFT] = shift
    s[H_BANDS_FILLED] = ((s[H_SORTED] - 1) >> shift) + 1
    s[H_BORDER] = border
