"""Give nodes that have work a seat in the time wheel, and cut the seats into bands that may run side by side.

A node takes the next seat when something first happens there. With it come two actors: its router, 2 seat,
and its processor, 2 seat + 1. So nodes with work lie side by side however far apart they are on the wafer.
When many new nodes have come, or none for long, the seats are sorted by node and the sorted ones cut into
bands.

A node is at the frontier if a neighbour's seat is not sorted, or if it may send to a node that has no block
yet. Its router runs after all others of a cycle, with nothing beside it, and so do nodes with a new seat: a
thread that runs a band never touches these, and only what runs alone makes blocks.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.record_kernels import word_of
from npuviz.targets.wavelet.kernels.program_records import NODE
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    BORDERS_OF_A_BAND,
    FAN_SHIFT,
    FRONTIER,
    SLOT_SHIFT,
    SLOTS,
)
from npuviz.targets.wavelet.kernels.time.wheel import end_slot, set_bit

SEATS_SHIFT = FAN_SHIFT - 1
"""A word of the wheel has 1 << SEATS_SHIFT seats."""
GROWTH = 8
"""Seats are sorted when at least one in GROWTH is new."""
QUIET = 256
"""Cycles without a new seat after which the seats are sorted."""


@kernel
def take_seat(wafer, program, pe, node):
    """Give a node with a new block its seat; the node and its neighbours are at the frontier from now on."""
    place = NODE(program, program.nodes, node)
    seat = place.seat
    if seat < 0:
        seat = wafer.seats_count
        wafer.seats_count = seat + 1
    wafer.seated_at = wafer.now
    wafer[wafer.seats + seat] = word_of(wafer, pe)
    pe.seat = seat
    pe.channels |= FRONTIER
    for port in range(1, 5):
        b = block_behind(wafer, program, node, port)
        if b > 0:
            BLOCK(wafer, b).channels |= FRONTIER


@inlined
def block_behind(wafer, program, node, port):
    """Return the word of the block of the node behind a port; 0 if it has none yet, -1 if there is no
    node."""
    neighbour = NODE(program, program.nodes, node).neighbour[port]
    return wafer[wafer.nodes + neighbour] if neighbour >= 0 else -1


@inlined
def words_of(seats):
    """Return the words of the wheel that hold this many seats."""
    return ((seats - 1) >> SEATS_SHIFT) + 1


@inlined
def are_sorted(wafer):
    """Return whether all seats are sorted."""
    return wafer.sorted == wafer.seats_count


@inlined
def words_of_sorted(wafer):
    """Return how many words of the wheel hold sorted seats only."""
    if wafer.sorted < wafer.seats_count:
        return wafer.sorted >> SEATS_SHIFT
    return words_of(wafer.sorted)


@inlined
def have_to_be_sorted(wafer):
    """Return whether it is time to sort the seats."""
    new = wafer.seats_count - wafer.sorted
    return new > 0 and (new * GROWTH >= wafer.seats_count or wafer.now - wafer.seated_at >= QUIET)


@kernel
def sort_seats(machine, aside):
    """Give the nodes that have seats new ones in the order of nodes, and cut these into bands.

    aside  word behind the heap; three words a node and some are 0 from there on, and will be again
    """
    wafer = machine.wafer
    size = words_of(wafer.seats_count) << SLOT_SHIFT
    new_seat = aside + size
    for i in range(size):
        wafer[aside + i] = wafer[wafer.wheel + i]
        wafer[wafer.wheel + i] = 0
    for slot in range(SLOTS):
        end_slot(wafer, slot)
    count = 0
    for node in range(wafer.nodes_count):
        b = wafer[wafer.nodes + node]
        if b > 0:
            pe = BLOCK(wafer, b)
            wafer[new_seat + pe.seat] = count
            wafer[wafer.seats + count] = b
            pe.seat = count
            count += 1
    for i in range(size):
        word = wafer[aside + i]
        wafer[aside + i] = 0
        while word:
            actor = ((i >> SLOT_SHIFT) << FAN_SHIFT) + trailing_zeros(word)
            word &= word - 1
            set_bit(wafer, 2 * wafer[new_seat + (actor >> 1)] + (actor & 1), i & (SLOTS - 1))
    for seat in range(count):
        wafer[new_seat + seat] = 0
    wafer.sorted = count
    _cut_bands(wafer, _widest(machine))


@kernel
def _widest(machine):
    """Return the largest distance between the seats of two neighbours."""
    wafer = machine.wafer
    found = 1
    for seat in range(wafer.sorted):
        node = BLOCK(wafer, wafer[wafer.seats + seat]).node
        for port in range(1, 5):
            b = block_behind(wafer, machine.program, node, port)
            if b > 0 and BLOCK(wafer, b).seat - seat > found:
                found = BLOCK(wafer, b).seat - seat
    return found


@kernel
def _cut_bands(wafer, widest):
    """Cut the seats into bands. Without their borders, no two bands share neighbours or a word of the wheel.

    widest  largest distance between the seats of neighbours
    """
    border = (2 * words_of(widest)) << SEATS_SHIFT
    shift = SEATS_SHIFT
    while (1 << shift) < BORDERS_OF_A_BAND * border or (wafer.sorted - 1) >> shift >= wafer.bands_count:
        shift += 1
    wafer.band_shift = shift
    wafer.bands_filled = ((wafer.sorted - 1) >> shift) + 1
    wafer.border = border
