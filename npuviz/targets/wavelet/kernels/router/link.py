"""The links of a router: the nodes behind them, and what is counted of them."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import INTERVAL, emit, is_recording
from npuviz.targets.wavelet.kernels.program_records import (
    K_LINK,
    L_CHANNEL,
    L_CHANNEL_LIST,
    L_NUM_CHANNELS,
    NODE_NEIGHBOUR,
    NODE_WORDS,
    P_NODES,
    P_TRACKS,
    P_WINDOW,
    TRACK_WORDS,
)
from npuviz.targets.wavelet.kernels.records import (
    B_CHANNELS,
    B_CLASS,
    B_LINKS,
    B_LOAD_START,
    B_NODE,
    C_COLOR,
    C_PORTS,
    C_POSITIONS,
    C_ROUTED,
    FAULT_EDGE,
    FAULT_UNROUTED,
    FRONTIER,
    LINK_BLOCK,
    LINK_COLOR,
    LINK_END,
    LINK_LOAD,
    LINK_START,
    LINK_WORDS,
    PORT_WORDS,
    R_TARGET,
)
from npuviz.targets.wavelet.kernels.router.ring import opposite
from npuviz.targets.wavelet.kernels.time.events import band_at, block_of, fault, fault_of
from npuviz.targets.wavelet.kernels.time.seats import are_sorted, block_behind

LINKS = 0x1E
"""Mask of the outputs that are links; the first one is the ramp."""
KIND_LINK = 100
"""Interval kinds of links: this plus the color."""


@inlined
def link_of(b, port):
    """Word of an output port's record."""
    return b + B_LINKS + port * LINK_WORDS


@inlined
def count_load(s, p, b, port, t):
    """Count a word in the present window of a port."""
    start = s[b + B_LOAD_START]
    if t >= start + p[P_WINDOW]:
        is_next = t < start + 2 * p[P_WINDOW]
        for k in range(5):
            load = link_of(b, k) + LINK_LOAD
            s[load] = (s[load] & 0xFFFF_FFFF) << 32 if is_next else 0
        s[b + B_LOAD_START] = t // p[P_WINDOW] * p[P_WINDOW]
    s[link_of(b, port) + LINK_LOAD] += 1


@inlined
def note_link(s, p, x, ev, b, node, port, color, t):
    """Counts of a link and its interval in the trace."""
    link = link_of(b, port)
    count_load(s, p, b, port, t)
    if s[link + LINK_END] == t and s[link + LINK_COLOR] == color:
        s[link + LINK_END] = t + 1
        return
    end_link_run(s, p, x, ev, b, node, port)
    s[link + LINK_START] = t
    s[link + LINK_COLOR] = color
    s[link + LINK_END] = t + 1


@kernel
def end_link_run(s, p, x, ev, b, node, port):
    """Emit the interval of the last run of words on a link, if its node is watched."""
    link = link_of(b, port)
    if s[link + LINK_END] > 0 and is_recording(x):
        track = p[p[P_TRACKS] + node * TRACK_WORDS + K_LINK + port]
        if track >= 0:
            kind = KIND_LINK + s[link + LINK_COLOR]
            emit(x, ev, INTERVAL, track, kind, s[link + LINK_START], s[link + LINK_END], -1)
    s[link + LINK_END] = 0


@kernel
def find_neighbour(s, p, b, node, color, port):
    """Remember the node behind an output port, with a fault if there is none; returns its block or 0."""
    receiver = p[p[P_NODES] + node * NODE_WORDS + NODE_NEIGHBOUR + port]
    if receiver < 0:
        fault(s, node, FAULT_EDGE, color | (port << 8))
        return 0
    nb = block_of(s, p, receiver)
    s[link_of(b, port) + LINK_BLOCK] = nb
    return nb


@kernel
def make_targets(s, p, b, node):
    """Give the nodes to which a router may send their blocks. Without new seats it leaves the frontier."""
    places = p[s[b + B_CLASS] + L_CHANNEL_LIST]
    links = 0
    for i in range(p[s[b + B_CLASS] + L_NUM_CHANNELS]):
        positions = b + p[places + i] + C_POSITIONS
        for k in range(4):
            links |= (s[positions + k] >> 8) & LINKS
    for port in range(1, 5):
        if (links >> port) & 1 and block_behind(s, p, node, port) == 0:
            block_of(s, p, p[p[P_NODES] + node * NODE_WORDS + NODE_NEIGHBOUR + port])
    if are_sorted(s):
        s[b + B_CHANNELS] &= ~FRONTIER


@kernel
def find_target(s, p, b, ch, nb, port):
    """Remember the channel that takes a channel's words behind an output port, with a fault if there is none.

    Returns its word, 0 without.
    """
    place = p[s[nb + B_CLASS] + L_CHANNEL + s[ch + C_COLOR]]
    if place == 0 or s[nb + place + C_ROUTED] == 0:
        fault_of(s, band_at(s, b), s[nb + B_NODE], FAULT_UNROUTED, s[ch + C_COLOR] | (opposite(port) << 8))
        return 0
    s[ch + C_PORTS + port * PORT_WORDS + R_TARGET] = nb + place
    return nb + place
