"""Lines of the state that the actors of a cycle are about to read, asked for before their turn.

A large wafer does not fit into the caches, and a cycle reads a few lines of each of its blocks: without this
64 x 64 PEs take 1.0 to 1.7 times as long (three paired runs). Nothing here changes the state.
"""

from npuviz.sim.parts.bits_kernels import fetch, inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.program_records import (
    L_CHANNEL_LIST,
    L_THREADS,
)
from npuviz.targets.wavelet.kernels.records import (
    A_ADDRESS,
    B_CHANNELS,
    B_CLASS,
    B_DUE,
    B_LAST,
    B_MEMORY,
    B_SHUT,
    B_STALLED,
    B_THREADS,
    C_HELD,
    C_PORTS,
    ENTRY_WORDS,
    FAN_SHIFT,
    FRONTIER,
    H_NOW,
    H_SEATS,
    H_WHEEL_END,
    KIND_BITS,
    KIND_INPUT,
    KIND_LINE,
    KIND_OUTPUT,
    LINE_WORDS,
    LINK_BLOCK,
    OPERAND_WORDS,
    PORT_WORDS,
    Q_RING,
    R_HEAD,
    R_TARGET,
    STALLED_OUTPUT,
    T_FABRIC,
    T_KINDS,
    T_OPERANDS,
    T_RECORD,
    THREAD_WORDS,
)
from npuviz.targets.wavelet.kernels.router.link import LINKS, link_of
from npuviz.targets.wavelet.kernels.router.ring import opposite, ring_of, routes_now
from npuviz.targets.wavelet.kernels.time.wheel import word_at

CACHED_ACTORS = 512
"""Actors of a cycle whose blocks are near without being asked for."""
KIND_MASK = (1 << KIND_BITS) - 1
HEADER_LINES = 5
"""Lines at the beginning of a block that an event reads."""
CHANNEL_LINES = 4
"""Lines of a channel in front of its rings."""


@inlined
def _next_thread(s, b):
    """The thread that probably takes the datapath, -1 for none."""
    stalled = s[b + B_STALLED]
    mask = s[b + B_THREADS] & ~(stalled | (stalled >> STALLED_OUTPUT))
    if mask == 0:
        return -1
    later = mask & ~((2 << s[b + B_LAST]) - 1) if s[b + B_LAST] >= 0 else mask
    return trailing_zeros(later) if later else trailing_zeros(mask)


@kernel
def _fetch_headers(s, first, word):
    """Ask for the blocks of the actors in a word of the wheel, whose lowest bit is actor `first`."""
    seats = s[H_SEATS] + (first >> 1)
    while word:
        k = trailing_zeros(word) & ~1
        word &= ~(3 << k)
        b = s[seats + (k >> 1)]
        if b > 0:
            for line in range(HEADER_LINES):
                fetch(s, b + line * LINE_WORDS)
            fetch(s, b + B_DUE)


@inlined
def _next_channels(s, b):
    """Mask of the channels that the router will look at."""
    mask = s[b + B_CHANNELS] & ~s[b + B_SHUT] & ~FRONTIER
    found = mask
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        if s[b + B_DUE + k] > s[H_NOW]:
            found &= ~(1 << k)
    return found


@kernel
def _fetch_records(s, p, first, word):
    """Ask for the threads and channels that the blocks of these actors name."""
    seats = s[H_SEATS] + (first >> 1)
    while word:
        k = trailing_zeros(word)
        word &= word - 1
        b = s[seats + (k >> 1)]
        if b <= 0:
            continue
        c = s[b + B_CLASS]
        if k & 1:
            number = _next_thread(s, b)
            if number >= 0:
                th = b + p[c + L_THREADS] + number * THREAD_WORDS
                fetch(s, th)
                fetch(s, th + T_OPERANDS)
                fetch(s, th + T_OPERANDS + OPERAND_WORDS)
        else:
            channels = _next_channels(s, b)
            while channels:
                ch = b + p[p[c + L_CHANNEL_LIST] + trailing_zeros(channels)]
                channels &= channels - 1
                for line in range(CHANNEL_LINES):
                    fetch(s, ch + line * LINE_WORDS)


@kernel
def _fetch_targets(s, p, first, word):
    """Ask for what those threads and channels name: memory, queues, the next routers."""
    seats = s[H_SEATS] + (first >> 1)
    while word:
        k = trailing_zeros(word)
        word &= word - 1
        b = s[seats + (k >> 1)]
        if b <= 0:
            continue
        c = s[b + B_CLASS]
        if k & 1:
            number = _next_thread(s, b)
            if number >= 0:
                _fetch_operands(s, b, b + p[c + L_THREADS] + number * THREAD_WORDS)
        else:
            channels = _next_channels(s, b)
            while channels:
                _fetch_way(s, b, b + p[p[c + L_CHANNEL_LIST] + trailing_zeros(channels)])
                channels &= channels - 1


@kernel
def fetch_ahead(s, p, slot, w, is_known):
    """Ask for the lines of the actors in word `w` of a slot before they run, and for the blocks of the next.

    is_known  the blocks of word `w` were asked for with the word before it
    """
    word = s[word_at(s, w, slot)]
    if not is_known:
        _fetch_headers(s, w << FAN_SHIFT, word)
    if w + 1 < s[H_WHEEL_END]:
        _fetch_headers(s, (w + 1) << FAN_SHIFT, s[word_at(s, w + 1, slot)])
    _fetch_records(s, p, w << FAN_SHIFT, word)
    _fetch_targets(s, p, w << FAN_SHIFT, word)


@inlined
def _fetch_operands(s, b, th):
    kinds = s[th + T_KINDS]
    fetch(s, s[th + T_RECORD])
    if s[th + T_FABRIC] == KIND_INPUT:
        fetch(s, s[th + T_RECORD] + Q_RING)
    if (kinds & KIND_MASK) == KIND_LINE:
        fetch(s, s[b + B_MEMORY] + (s[th + T_OPERANDS + A_ADDRESS] >> 3))
    elif (kinds & KIND_MASK) == KIND_OUTPUT:
        fetch(s, s[th + T_RECORD] + LINE_WORDS)
        fetch(s, s[th + T_RECORD] + C_PORTS)
    if (kinds >> KIND_BITS) & KIND_MASK == KIND_LINE:
        fetch(s, s[b + B_MEMORY] + (s[th + T_OPERANDS + OPERAND_WORDS + A_ADDRESS] >> 3))


@inlined
def _fetch_way(s, b, ch):
    """The head of a channel, and where it goes."""
    routes = routes_now(s, ch)
    held = routes & s[ch + C_HELD]
    if held == 0:
        return
    port = trailing_zeros(held)
    fetch(s, ring_of(s, ch, port) + s[ch + C_PORTS + port * PORT_WORDS + R_HEAD] * ENTRY_WORDS + 2)
    links = (routes >> 8) & LINKS
    if links:
        port = trailing_zeros(links)
        fetch(s, link_of(b, port))
        target = s[ch + C_PORTS + port * PORT_WORDS + R_TARGET]
        if target:
            fetch(s, target)
            fetch(s, target + LINE_WORDS)
            fetch(s, target + C_PORTS + opposite(port) * PORT_WORDS)
            fetch(s, ring_of(s, target, opposite(port)))
            fetch(s, s[link_of(b, port) + LINK_BLOCK] + B_CHANNELS)
