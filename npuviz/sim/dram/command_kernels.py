"""Command-level DRAM: all channels together, for the owner of the state.

Ref: systolic.md section 8. Channels are independent. A channel does something only in its own next
tick, which it works out itself: the earliest tick in which a command may be issued, a request may be
taken, a response leaves or a refresh is due. Word DC_NEXT is the earliest of all channels; the owner
calls `dram_cycle` for that tick and takes responses with `dram_take`.

The owner's calls: `dram_can_accept`, `dram_offer`, `dram_cycle`, `dram_take`, `dram_is_busy`, and
`dram_watch` where there are stop rows.
"""

from npuviz.sim.dram.channel_kernels import channel_cycle
from npuviz.sim.dram.queue_kernels import (
    append,
    node_word,
    take_head,
)
from npuviz.sim.dram.records_kernels import (
    CC_DONE_HEAD,
    CC_DONE_TAIL,
    CC_FRONT_COUNT,
    CC_FRONT_HEAD,
    CC_FRONT_TAIL,
    CC_HELD,
    CC_LAST,
    CC_NEXT,
    CC_WAS,
    DC_CHANNEL_WORDS,
    DC_CHANNELS,
    DC_DONE,
    DC_FAR,
    DC_FIRST,
    DC_FRONT_LIMIT,
    DC_INSIDE,
    DC_NEXT,
    DC_NOW,
    DC_SLOTS,
    DC_WHEEL,
    NEVER,
    NIL,
    NODE_ADDRESS,
    NODE_TIME,
    WHEEL_MASKS,
    WHEEL_TICKS,
)
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.watch_kernels import watch_queue


@inlined
def channel_word(s, dram, channel):
    """Word of a channel."""
    return s[dram + DC_FIRST] + channel * s[dram + DC_CHANNEL_WORDS]


@kernel
def note_next(s, dram, channel, tick):
    """Enter a channel's next tick into the wheel, or note that it is beyond it."""
    if tick - s[dram + DC_NOW] < WHEEL_TICKS:
        slot = tick & (WHEEL_TICKS - 1)
        s[s[dram + DC_WHEEL] + slot * WHEEL_MASKS + (channel >> 5)] |= 1 << (channel & 31)
        s[dram + DC_SLOTS] |= 1 << slot
    elif tick < s[dram + DC_FAR]:
        s[dram + DC_FAR] = tick
    if tick < s[dram + DC_NEXT]:
        s[dram + DC_NEXT] = tick


@kernel
def collect_far(s, dram, tick):
    """Enter channels that were beyond the wheel into it, as far as it now reaches."""
    s[dram + DC_FAR] = NEVER
    for channel in range(s[dram + DC_CHANNELS]):
        time = s[channel_word(s, dram, channel) + CC_NEXT]
        if time < NEVER - 1 and time >= tick:
            note_next(s, dram, channel, time)


@kernel
def set_next(s, dram):
    """Set DC_NEXT from the wheel and the channels beyond it."""
    following = s[dram + DC_FAR]
    slots = s[dram + DC_SLOTS]
    if slots != 0:
        first = (s[dram + DC_NOW] + 1) & (WHEEL_TICKS - 1)
        turned = (slots >> first | slots << (WHEEL_TICKS - first)) & 0xFFFF_FFFF
        time = s[dram + DC_NOW] + 1 + trailing_zeros(turned)
        if time < following:
            following = time
    s[dram + DC_NEXT] = following


@kernel
def dram_cycle(s, dram, tick):
    """Tick DC_NEXT of all channels that have something to do in it."""
    if s[dram + DC_FAR] <= tick:
        s[dram + DC_NOW] = tick - 1
        collect_far(s, dram, tick)
    s[dram + DC_NOW] = tick
    slot = tick & (WHEEL_TICKS - 1)
    s[dram + DC_SLOTS] &= ~(1 << slot)
    s[dram + DC_NEXT] = NEVER
    word = s[dram + DC_WHEEL] + slot * WHEEL_MASKS
    for part in range((s[dram + DC_CHANNELS] + 31) >> 5):
        mask = s[word + part]
        s[word + part] = 0
        while mask != 0:
            channel = 32 * part + trailing_zeros(mask)
            mask &= mask - 1
            c = channel_word(s, dram, channel)
            if s[c + CC_NEXT] == tick:
                channel_cycle(s, dram, c, tick)
                if s[c + CC_DONE_HEAD] != NIL:
                    s[dram + DC_DONE + part] |= 1 << (channel & 31)
                if s[c + CC_NEXT] < NEVER - 1:
                    note_next(s, dram, channel, s[c + CC_NEXT])
    set_next(s, dram)


@inlined
def dram_can_accept(s, dram, channel):
    """Whether a channel's front list has room."""
    return s[channel_word(s, dram, channel) + CC_FRONT_COUNT] < s[dram + DC_FRONT_LIMIT]


@inlined
def dram_offer(s, dram, channel, node, address, tick):
    """Put a request into a channel's front list; it is offered to the buffers from `tick` on.

    `tick` is later than every tick done; `address` is the byte address inside the channel.
    """
    c = channel_word(s, dram, channel)
    word = node_word(s, dram, node)
    s[word + NODE_TIME] = tick
    s[word + NODE_ADDRESS] = address
    append(s, dram, c + CC_FRONT_HEAD, c + CC_FRONT_TAIL, node)
    s[c + CC_FRONT_COUNT] += 1
    s[dram + DC_INSIDE] += 1
    if tick < s[c + CC_NEXT] and s[c + CC_FRONT_HEAD] == node:
        s[c + CC_NEXT] = tick
        note_next(s, dram, channel, tick)


@kernel
def dram_take(s, dram, channel):
    """Take a channel's first response; returns its node (the tick in NODE_TIME), or NIL."""
    c = channel_word(s, dram, channel)
    if s[c + CC_DONE_HEAD] == NIL:
        return NIL
    s[dram + DC_INSIDE] -= 1
    return take_head(s, dram, c + CC_DONE_HEAD, c + CC_DONE_TAIL)


@kernel
def dram_watch(s, dram, x, first_queue, tick, cycle):
    """Test queue stop rows for the buffers of the channels that did something in a tick.

    The buffers are queues `first_queue` + 2 * channel (+ 1: write buffer) of the machine.
    """
    for channel in range(s[dram + DC_CHANNELS]):
        c = channel_word(s, dram, channel)
        if s[c + CC_LAST] == tick:
            for buffer in range(2):
                before, after = s[c + CC_WAS + buffer], s[c + CC_HELD + buffer]
                if before != after:
                    watch_queue(x, first_queue + 2 * channel + buffer, before, after, cycle)


@inlined
def dram_is_busy(s, dram):
    """Whether any request is inside; refreshes of an idle DRAM do not count."""
    return s[dram + DC_INSIDE] > 0
