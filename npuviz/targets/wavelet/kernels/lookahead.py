"""Prefetch the lines of the state that the actors of a cycle are about to read.

A large wafer does not fit into the caches, and a cycle reads a few lines of each of its blocks: without
prefetching 64 x 64 PEs take 1.0 to 1.7 times as long (three paired runs). Nothing here changes the state.
"""

from npuviz.sim.parts.bits_kernels import fetch, inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.program_records import LAYOUT
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    CHANNEL,
    ENTRY,
    FAN_SHIFT,
    FRONTIER,
    KIND_BITS,
    KIND_INPUT,
    KIND_LINE,
    KIND_OUTPUT,
    LINE_WORDS,
    OPERAND,
    QUEUE,
    STALLED_OUTPUT,
    THREAD,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.link import LINKS
from npuviz.targets.wavelet.kernels.router.ring import entry_of, head_of, opposite, routes_now
from npuviz.targets.wavelet.kernels.time.wheel import word_at

CACHED_ACTORS = 512
"""Most actors of a cycle whose blocks stay in the caches without prefetching."""
KIND_MASK = (1 << KIND_BITS) - 1
HEADER_LINES = 5
"""Lines at the beginning of a block that an event reads."""
CHANNEL_LINES = 4
"""Lines of a channel in front of its rings."""


@inlined
def _next_thread(pe):
    """Return the thread that probably takes the datapath next, -1 for none."""
    stalled = pe.stalled
    mask = pe.threads & ~(stalled | (stalled >> STALLED_OUTPUT))
    if mask == 0:
        return -1
    later = mask & ~((2 << pe.last) - 1) if pe.last >= 0 else mask
    return trailing_zeros(later) if later else trailing_zeros(mask)


@kernel
def _fetch_headers(wafer, first, word):
    """Prefetch the blocks of the actors in a word of the wheel, whose lowest bit is actor `first`."""
    seats = wafer.seats + (first >> 1)
    while word:
        k = trailing_zeros(word) & ~1
        word &= ~(3 << k)
        b = wafer[seats + (k >> 1)]
        if b > 0:
            for line in range(HEADER_LINES):
                fetch(wafer, b + line * LINE_WORDS)
            fetch(wafer, b + BLOCK.due)


@inlined
def _next_channels(wafer, pe):
    """Return a mask of the channels that the router will look at."""
    mask = pe.channels & ~pe.shut & ~FRONTIER
    found = mask
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        if pe.due[k] > wafer.now:
            found &= ~(1 << k)
    return found


@kernel
def _fetch_records(machine, first, word):
    """Prefetch the threads and channels that the blocks of these actors name."""
    wafer, program = machine.wafer, machine.program
    seats = wafer.seats + (first >> 1)
    while word:
        k = trailing_zeros(word)
        word &= word - 1
        b = wafer[seats + (k >> 1)]
        if b <= 0:
            continue
        pe = BLOCK(wafer, b)
        layout = LAYOUT(program, pe.layout)
        if k & 1:
            number = _next_thread(pe)
            if number >= 0:
                thread = layout.threads + number * THREAD.num_words
                fetch(pe, thread)
                fetch(pe, thread + THREAD.operands)
                fetch(pe, thread + THREAD.operands + OPERAND.num_words)
        else:
            channels = _next_channels(wafer, pe)
            while channels:
                channel = program[layout.channel_list + trailing_zeros(channels)]
                channels &= channels - 1
                for line in range(CHANNEL_LINES):
                    fetch(pe, channel + line * LINE_WORDS)


@kernel
def _fetch_targets(machine, first, word):
    """Prefetch what the threads and channels of these actors name: memory, queues, the next routers."""
    wafer, program = machine.wafer, machine.program
    seats = wafer.seats + (first >> 1)
    while word:
        k = trailing_zeros(word)
        word &= word - 1
        b = wafer[seats + (k >> 1)]
        if b <= 0:
            continue
        pe = BLOCK(wafer, b)
        layout = LAYOUT(program, pe.layout)
        if k & 1:
            number = _next_thread(pe)
            if number >= 0:
                _fetch_operands(wafer, pe, THREAD(pe, layout.threads, number))
        else:
            channels = _next_channels(wafer, pe)
            while channels:
                place = program[layout.channel_list + trailing_zeros(channels)]
                channels &= channels - 1
                _fetch_way(wafer, pe, CHANNEL(pe, place))


@kernel
def fetch_ahead(machine, slot, w, is_known):
    """Prefetch the lines of the actors in word `w` of a slot before they run, and the blocks of the next
    word.

    is_known  whether the blocks of word `w` were prefetched together with the word before it
    """
    wafer = machine.wafer
    word = wafer[word_at(wafer, w, slot)]
    if not is_known:
        _fetch_headers(wafer, w << FAN_SHIFT, word)
    if w + 1 < wafer.wheel_end:
        _fetch_headers(wafer, (w + 1) << FAN_SHIFT, wafer[word_at(wafer, w + 1, slot)])
    _fetch_records(machine, w << FAN_SHIFT, word)
    _fetch_targets(machine, w << FAN_SHIFT, word)


@inlined
def _fetch_operands(wafer, pe, thread):
    kinds = thread.kinds
    fetch(wafer, thread.record)
    if thread.fabric == KIND_INPUT:
        fetch(wafer, thread.record + QUEUE.ring)
    if (kinds & KIND_MASK) == KIND_LINE:
        fetch(wafer, pe.memory + (thread.operands[0].address >> 3))
    elif (kinds & KIND_MASK) == KIND_OUTPUT:
        fetch(wafer, thread.record + LINE_WORDS)
        fetch(wafer, thread.record + CHANNEL.ports)
    if (kinds >> KIND_BITS) & KIND_MASK == KIND_LINE:
        fetch(wafer, pe.memory + (thread.operands[1].address >> 3))


@inlined
def _fetch_way(wafer, pe, channel):
    """Prefetch the head of a channel and the channel that it goes to."""
    routes = routes_now(channel)
    held = routes & channel.held
    if held == 0:
        return
    port = trailing_zeros(held)
    fetch(head_of(channel, port), ENTRY.ready)
    links = (routes >> 8) & LINKS
    if links:
        port = trailing_zeros(links)
        fetch(pe.links[port], 0)
        at = channel.ports[port].target
        if at:
            target = CHANNEL(wafer, at)
            fetch(target, 0)
            fetch(target, LINE_WORDS)
            fetch(target.ports[opposite(port)], 0)
            fetch(entry_of(target, opposite(port), ZERO), 0)
            fetch(wafer, pe.links[port].block + BLOCK.channels)
