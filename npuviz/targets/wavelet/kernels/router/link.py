"""Find the nodes behind the links of a router, and count and record the words on the links."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import is_recording, record_interval
from npuviz.targets.wavelet.kernels.faults import FAULT_UNROUTED
from npuviz.targets.wavelet.kernels.program_records import LAYOUT, NODE, TRACKS
from npuviz.targets.wavelet.kernels.records import (
    CHANNEL,
    FRONTIER,
)
from npuviz.targets.wavelet.kernels.router.ring import opposite
from npuviz.targets.wavelet.kernels.time.events import band_of, block_of, fault_of
from npuviz.targets.wavelet.kernels.time.seats import are_sorted, block_behind

LINKS = 0x1E
"""Mask of the outputs that are links; bit 0 is the ramp."""
CYCLE_BITS = 32
"""Low bits of a BLOCK's `linked`, which hold a cycle; the others hold a count."""
CYCLE_MASK = (1 << CYCLE_BITS) - 1
KIND_LINK = 100
"""First interval kind of links: add the color."""


@inlined
def count_load(program, pe, port, t):
    """Count a word in the present window of a port."""
    start = pe.load_start
    if t >= start + program.window:
        is_next = t < start + 2 * program.window
        for k in range(5):
            link = pe.links[k]
            link.load = (link.load & 0xFFFF_FFFF) << 32 if is_next else 0
        pe.load_start = t // program.window * program.window
    pe.links[port].load += 1


@inlined
def note_link(machine, pe, port, color, t):
    """Count a word on a link, and extend or begin the link's interval in the trace."""
    link = pe.links[port]
    count_load(machine.program, pe, port, t)
    linked, behind = pe.linked, (t + 1) & CYCLE_MASK
    if linked & CYCLE_MASK != behind:
        pe.linked = ((linked >> CYCLE_BITS) + 1) << CYCLE_BITS | behind
    if link.end == t and link.color == color:
        link.end = t + 1
        return
    end_link_run(machine, pe, port)
    link.start = t
    link.color = color
    link.end = t + 1


@kernel
def end_link_run(machine, pe, port):
    """Emit the interval of the last run of words on a link, if its node is watched."""
    program = machine.program
    link = pe.links[port]
    if link.end > 0 and is_recording(machine):
        track = TRACKS(program, program.tracks, pe.node).link[port]
        if track >= 0:
            kind = KIND_LINK + link.color
            record_interval(machine, track, kind, (link.start, link.end), -1)
    link.end = 0


@kernel
def find_neighbour(machine, pe, port):
    """Remember the node behind an output port. Returns the word of its block, 0 at the edge of the fabric."""
    wafer, program = machine.wafer, machine.program
    receiver = NODE(program, program.nodes, pe.node).neighbour[port]
    if receiver < 0:
        return 0
    neighbour = block_of(wafer, program, receiver)
    pe.links[port].block = neighbour
    return neighbour


@kernel
def make_targets(machine, pe):
    """Make the blocks of the nodes that a router may send to. If no seat is new, it leaves the frontier."""
    wafer, program, node = machine.wafer, machine.program, pe.node
    layout = LAYOUT(program, pe.layout)
    links = 0
    for i in range(layout.num_channels):
        channel = CHANNEL(pe, program[layout.channel_list + i])
        for k in range(4):
            links |= (channel.positions[k] >> 8) & LINKS
    for port in range(1, 5):
        if (links >> port) & 1 and block_behind(wafer, program, node, port) == 0:
            block_of(wafer, program, NODE(program, program.nodes, node).neighbour[port])
    if are_sorted(wafer):
        pe.channels &= ~FRONTIER


@kernel
def find_target(machine, pe, channel, neighbour, port):
    """Remember the channel that takes a channel's words behind an output port; a fault if there is none.

    Returns the word of that channel, 0 without one.
    """
    wafer = machine.wafer
    place = LAYOUT(machine.program, neighbour.layout).channel[channel.color]
    if place == 0 or CHANNEL(neighbour, place).routed == 0:
        arrival = channel.color | (opposite(port) << 8)
        fault_of(wafer, band_of(wafer, pe), neighbour.node, FAULT_UNROUTED, arrival)
        return 0
    target = word_of(wafer, neighbour) + place
    channel.ports[port].target = target
    return target
