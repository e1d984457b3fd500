"""Run all channels of command-level DRAM for the owner of the state.

Ref: systolic.md section 8. Channels are independent. A channel acts only in its own next
tick, which it computes itself: the earliest tick in which a command may be issued, a request may be
taken, a response leaves or a refresh is due. `next` of the device is the earliest of all channels; the owner
calls `dram_cycle` for that tick and takes responses with `dram_take`.

The owner calls, with what `dram_at` returns: `dram_can_accept`, `dram_offer`, `dram_cycle`, `dram_take`,
`dram_is_busy`, and `dram_watch` where there are stop rows.
"""

from npuviz.sim.dram.channel_kernels import channel_cycle
from npuviz.sim.dram.queue_kernels import append, request_of, take_head
from npuviz.sim.dram.records_kernels import CHANNEL, LIST, NEVER, NIL, WHEEL_MASKS, WHEEL_TICKS
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.watch_kernels import watch_queue


@inlined
def channel_at(dram, number):
    """Return a channel by its number."""
    device = dram.device
    return CHANNEL(dram.words, device.first + number * device.channel_words)


@kernel
def note_next(dram, number, tick):
    """Enter a channel's next tick into the wheel, or keep it as the earliest one beyond the wheel."""
    device = dram.device
    if tick - device.now < WHEEL_TICKS:
        slot = tick & (WHEEL_TICKS - 1)
        dram.words[device.wheel + slot * WHEEL_MASKS + (number >> 5)] |= 1 << (number & 31)
        device.slots |= 1 << slot
    elif tick < device.far:
        device.far = tick
    if tick < device.next:
        device.next = tick


@kernel
def collect_far(dram, tick):
    """Enter those channels into the wheel that it now reaches, and find the earliest one still beyond it."""
    device = dram.device
    device.far = NEVER
    for number in range(device.channels):
        time = channel_at(dram, number).next
        if time < NEVER - 1 and time >= tick:
            note_next(dram, number, time)


@kernel
def set_next(device):
    """Set the device's `next` from the wheel and the channels beyond it."""
    following = device.far
    slots = device.slots
    if slots != 0:
        first = (device.now + 1) & (WHEEL_TICKS - 1)
        turned = (slots >> first | slots << (WHEEL_TICKS - first)) & 0xFFFF_FFFF
        time = device.now + 1 + trailing_zeros(turned)
        if time < following:
            following = time
    device.next = following


@kernel
def dram_cycle(dram, tick):
    """Run tick `next` of all channels that have something to do in it."""
    words, device = dram.words, dram.device
    if device.far <= tick:
        device.now = tick - 1
        collect_far(dram, tick)
    device.now = tick
    slot = tick & (WHEEL_TICKS - 1)
    device.slots &= ~(1 << slot)
    device.next = NEVER
    word = device.wheel + slot * WHEEL_MASKS
    for part in range((device.channels + 31) >> 5):
        mask = words[word + part]
        words[word + part] = 0
        while mask != 0:
            number = 32 * part + trailing_zeros(mask)
            mask &= mask - 1
            channel = channel_at(dram, number)
            if channel.next == tick:
                channel_cycle(dram, channel, tick)
                if channel.done_head != NIL:
                    device.done[part] |= 1 << (number & 31)
                if channel.next < NEVER - 1:
                    note_next(dram, number, channel.next)
    set_next(device)


@inlined
def dram_can_accept(dram, number):
    """Whether a channel's front list has room."""
    return channel_at(dram, number).front_count < dram.device.front_limit


@inlined
def dram_offer(dram, number, node, address, tick):
    """Put a request into a channel's front list; it is offered to the buffers from `tick` on.

    `tick` is later than every tick done; `address` is the byte address inside the channel.
    """
    channel = channel_at(dram, number)
    request = request_of(dram, node)
    request.time = tick
    request.address = address
    append(dram, LIST(channel, CHANNEL.front_head), node)
    channel.front_count += 1
    dram.device.inside += 1
    if tick < channel.next and channel.front_head == node:
        channel.next = tick
        note_next(dram, number, tick)


@kernel
def dram_take(dram, number):
    """Take a channel's first response; return its node (the request's `time` is the tick), or NIL."""
    channel = channel_at(dram, number)
    if channel.done_head == NIL:
        return NIL
    dram.device.inside -= 1
    return take_head(dram, LIST(channel, CHANNEL.done_head))


@kernel
def dram_watch(machine, dram, first_queue, tick, cycle):
    """Test queue stop rows for the buffers of the channels that did something in a tick.

    The buffers are queues `first_queue` + 2 * channel (+ 1: write buffer) of the machine, see watch_kernels.
    """
    for number in range(dram.device.channels):
        channel = channel_at(dram, number)
        if channel.last == tick:
            for buffer in range(2):
                before, after = channel.was[buffer], channel.held[buffer]
                if before != after:
                    watch_queue(machine, first_queue + 2 * number + buffer, before, after, cycle)


@inlined
def dram_is_busy(dram):
    """Whether any request is inside a channel; refreshes of an idle DRAM do not count."""
    return dram.device.inside > 0
