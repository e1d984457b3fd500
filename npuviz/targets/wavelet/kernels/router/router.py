"""Simulate the router of a node: buffers per color and port, routes, switches, filters, one word per link and
cycle.

A word that leaves a router at cycle t can leave the next one at t + hop. A slot that becomes free at t is
seen by the sender at t + 1. Among colors that want one output in one cycle the one that was served the
longest ago goes first, then the lower one. Assumed, as wavelet-fabric.md section 3.1 leaves it open.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.watch_kernels import is_watched, watch_queue
from npuviz.targets.wavelet.kernels.jitter import MORE_LINK, MORE_RAMP, UNIT_LINK, UNIT_QUEUE, more_cycles
from npuviz.targets.wavelet.kernels.log_numbers import LOG_LEFT, LOG_TWO_ARRIVALS
from npuviz.targets.wavelet.kernels.program_records import LAYOUT, NODE, TRACKS
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    CHANNEL,
    FAR,
    FRONTIER,
    HELD_SHIFT,
    MARK_ADVANCE,
    MARK_BUSY,
    MARK_CONTROL,
    MARKED,
    NONE,
    ONE,
    QUEUE,
    TRAIL_DROPPED,
    TRAIL_HOP,
    TRAIL_TAKEN,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.link import (
    LINKS,
    count_load,
    find_neighbour,
    find_target,
    make_targets,
    note_link,
)
from npuviz.targets.wavelet.kernels.router.ring import (
    Word,
    drop_head,
    has_room,
    head_of,
    is_full,
    opposite,
    push_queue,
    push_word,
    queue_has_room,
    routes_now,
)
from npuviz.targets.wavelet.kernels.router.switch import (
    advance_switch,
    command_effect,
    filter_takes,
    reaches_processor,
)
from npuviz.targets.wavelet.kernels.taps import READ_WORD, WORK_HOST_OUT, is_tapped, tap_work, touch
from npuviz.targets.wavelet.kernels.time.events import (
    Stage,
    band_of,
    end_part,
    hazard,
    leave_trail,
    wake_processor,
    wake_router,
)
from npuviz.targets.wavelet.kernels.time.stops import PART_ROUTER, element_of, watch_part, watch_word
from npuviz.targets.wavelet.kernels.time.wheel import postpone

LATER, OPEN, BUSY, FULL = 0, 1, 2, 3


@kernel
def _swapped(program, neighbour, color, port):
    """Return a mask of the channels (1: same color, 2: the other of the pair) that take an arrival."""
    axis = 1 if port == 2 or port == 4 else 2
    own = LAYOUT(program, neighbour.layout).channel[color]
    other = LAYOUT(program, neighbour.layout).channel[color ^ 1]
    mask = 1 if own != 0 and (CHANNEL(neighbour, own).swap & axis) == 0 else 0
    if other != 0 and (CHANNEL(neighbour, other).swap & axis):
        mask |= 2
    return mask


@kernel
def _swap_has_room(program, neighbour, color, port, t):
    """Return whether a link behind which colors of a pair may be swapped has room for a word."""
    mask = _swapped(program, neighbour, color, port)
    for k in range(2):
        if (mask >> k) & 1:
            target = CHANNEL(neighbour, LAYOUT(program, neighbour.layout).channel[color ^ k])
            if not has_room(target, opposite(port), t):
                return False
    return True


@inlined
def _is_open(machine, pe, channel, outputs, payload):
    """Return whether all outputs of a word can take it now: OPEN, LATER, BUSY (a link is busy) or FULL."""
    wafer, program = machine.wafer, machine.program
    t = wafer.now
    links = outputs & LINKS
    while links:
        port = trailing_zeros(links)
        links &= links - 1
        link = pe.links[port]
        if link.free >= (t + 1) * 1000:
            return BUSY
        b = link.block
        if b == 0:
            b = find_neighbour(machine, pe, port)
            if b == 0:
                # The edge of the fabric takes every word.
                continue
        neighbour = BLOCK(wafer, b)
        if program.swap:
            if not _swap_has_room(program, neighbour, channel.color, port, t):
                return LATER
            continue
        at = channel.ports[port].target
        if at == 0:
            at = find_target(machine, pe, channel, neighbour, port)
        if at == 0:
            return LATER
        target = CHANNEL(wafer, at)
        if not has_room(target, opposite(port), t):
            return FULL if is_full(target, opposite(port)) else LATER
    if outputs & 1 and reaches_processor(channel, payload):
        number = channel.queue
        if number < 0:
            return FULL
        queue = QUEUE(pe, LAYOUT(program, pe.layout).queue[number])
        if not queue_has_room(queue, t):
            return FULL if queue.count >= queue.room else LATER
    return OPEN


@kernel
def _watch_arrival(machine, pe, channel, payload, t):
    """Test stop rows about a word for the processor and about the queue it enters."""
    program, node, number = machine.program, pe.node, channel.queue
    place = NODE(program, program.nodes, node)
    watch_word(machine, element_of(program, node), channel.color, payload, t)
    first = TRACKS(program, program.tracks, node).queues
    if first >= 0:
        layout = LAYOUT(program, place.layout)
        queue = QUEUE(pe, layout.queue[number])
        for k in range(number):
            if layout.queue[k]:
                first += 1
        watch_queue(machine, first, queue.count - 1, queue.count, t)


@inlined
def _to_processor(machine, pe, channel, word, t):
    """Hand a word to the input queue of its color, unless a filter or the ignore bit of its command drops
    it."""
    wafer, program = machine.wafer, machine.program
    payload, identity = word.payload, word.identity
    is_ignored = (payload & MARK_CONTROL) != 0 and ((payload >> 24) & 1) != 0
    takes = not is_ignored
    if channel.filter_kind:
        takes = filter_takes(channel, payload, ONE) and takes
    if not takes:
        band_of(wafer, pe).dropped += 1
        leave_trail(wafer, pe, identity, Stage(TRAIL_DROPPED, ZERO, channel.color, ZERO), payload & MARKED)
        return
    number = channel.queue
    queue = QUEUE(pe, LAYOUT(program, pe.layout).queue[number])
    ready = t + wafer.ramp + more_cycles(machine, pe.node, UNIT_QUEUE, MORE_RAMP)
    push_queue(pe, queue, payload, identity, ready)
    if is_watched(machine):
        _watch_arrival(machine, pe, channel, payload & MARKED, t)
    pe.filled |= 1 << number
    wake_processor(wafer, pe, ready)
    leave_trail(
        wafer, pe, identity, Stage(TRAIL_TAKEN, ZERO, channel.color, t - word.ready), payload & MARKED
    )


@inlined
def _send_over(machine, pe, channel, port, word):
    """Send a word over a link to the router behind it, now."""
    wafer, program = machine.wafer, machine.program
    t = wafer.now
    link = pe.links[port]
    color = channel.color
    if link.block == 0:
        _leave_fabric(wafer, pe, color, port, word)
        return
    neighbour = BLOCK(wafer, link.block)
    ready = t + wafer.hop + more_cycles(machine, pe.node, UNIT_LINK + port, MORE_LINK)
    arriving = Word(word.payload, word.identity, ready)
    if program.swap:
        mask = _swapped(program, neighbour, color, port)
        for k in range(2):
            if (mask >> k) & 1:
                target = CHANNEL(neighbour, LAYOUT(program, neighbour.layout).channel[color ^ k])
                push_word(wafer, neighbour, target, opposite(port), arriving)
    else:
        target = CHANNEL(wafer, channel.ports[port].target)
        push_word(wafer, neighbour, target, opposite(port), arriving)
    wake_router(wafer, neighbour, ready)
    free = link.free
    if free < t * 1000:
        free = t * 1000
    link.free = free + wafer.link
    band_of(wafer, pe).hops += 1
    note_link(machine, pe, port, color, t)


@kernel
def _leave_fabric(wafer, pe, color, port, word):
    """Drop a word that a route sends over the edge of the fabric, with a hazard."""
    hazard(wafer, pe.node, LOG_LEFT, color | (port << 8), NONE)
    band_of(wafer, pe).dropped += 1
    stage = Stage(TRAIL_DROPPED, ZERO, color, ZERO)
    leave_trail(wafer, pe, word.identity, stage, word.payload & MARKED)


@inlined
def _move(machine, pe, channel, port, outputs):
    """Take the head of a port's ring and send it to all outputs, now."""
    wafer = machine.wafer
    t = wafer.now
    head = head_of(channel, port)
    payload, identity, ready = head.payload, head.identity, head.ready
    count = channel.ports[port].count
    limit = channel.limit_ramp if port == 0 else channel.limit
    drop_head(machine, pe, channel, port, t)
    channel.served = t
    color = channel.color
    if is_watched(machine):
        watch_part(machine, element_of(machine.program, pe.node), PART_ROUTER, ZERO, t)
    going_on = payload & ~MARK_ADVANCE
    if t > ready:
        # The cycles that a word was held, and why, are kept beside its payload.
        held = (t - ready) << HELD_SHIFT
        payload, going_on = payload + held, going_on + held
    if payload & MARK_CONTROL:
        was_torn = pe.teardown
        commands = command_effect(wafer, pe, channel, payload & 0xFFFF_FFFF, t)
        going_on = (going_on & ~0xFFFF_FFFF) | commands
        if pe.teardown != was_torn:
            pe.torn_by = identity
    if payload & MARK_ADVANCE:
        advance_switch(wafer, pe.node, channel)
    links = outputs & LINKS
    while links:
        output = trailing_zeros(links)
        links &= links - 1
        _send_over(machine, pe, channel, output, Word(going_on, identity, ready))
        leave_trail(wafer, pe, identity, Stage(TRAIL_HOP, output, color, t - ready), going_on & MARKED)
    if outputs & 1:
        _to_processor(machine, pe, channel, Word(payload & ~MARK_ADVANCE, identity, ready), t)
        count_load(machine.program, pe, ZERO, t)
    if outputs == 0:
        band_of(wafer, pe).dropped += 1
        stage = Stage(TRAIL_DROPPED, ZERO, color, t - ready)
        leave_trail(wafer, pe, identity, stage, payload & (MARKED | MARK_ADVANCE))
    if count >= limit - 1:
        if port > 0:
            b = pe.links[port].block
            if b == 0:
                b = find_neighbour(machine, pe, port)
            sender = BLOCK(wafer, b)
            sender.shut = 0
            wake_router(wafer, sender, t + 1)
        else:
            wake_processor(wafer, pe, t + 1)
    elif port == 0 and (count >= limit - 3 or count == 1):
        wake_processor(wafer, pe, t + 1)


@inlined
def _has_turn(port, outputs):
    """Return whether a word that comes in by a port changes its direction."""
    return port > 0 and (outputs & 0x1E & ~(1 << opposite(port))) != 0


@inlined
def _head_port(wafer, channel):
    """Return the port whose head goes next and the first cycle at which it may: port | cycle << 3, -1 if
    none."""
    routes = routes_now(channel)
    best = FAR
    found = -1
    mask = routes & channel.held
    while mask:
        port = trailing_zeros(mask)
        mask &= mask - 1
        ready = head_of(channel, port).ready
        if wafer.turn and _has_turn(port, (routes >> 8) & 0x1F):
            ready += wafer.turn
        if ready < best:
            best = ready
            found = port
    return found | (best << 3) if found >= 0 else -1


@inlined
def _due(wafer, channel):
    """Return when to look at a channel with a route: the cycle from which its head may go, FAR if it
    cannot."""
    if channel.closed:
        return FAR
    head = _head_port(wafer, channel)
    return head >> 3 if head >= 0 else FAR


@kernel
def _to_host(machine, pe, channel, t):
    """Let the host take a word of a color without a route; return when it looks again, FAR if never."""
    wafer = machine.wafer
    if channel.ports[0].count == 0 or channel.out_left == 0:
        return FAR
    head = head_of(channel, ZERO)
    ready = head.ready
    if ready < channel.out_next:
        ready = channel.out_next
    if ready > t:
        return ready
    machine.host[channel.out_at] = head.payload & 0xFFFF_FFFF
    if is_tapped(machine):
        tap_work(machine, pe.node, WORK_HOST_OUT, channel.out_command, NONE)
        touch(machine, pe.node, READ_WORD, head.identity, ONE)
    stage = Stage(TRAIL_TAKEN, ZERO, channel.color, t - head.ready)
    channel.out_word = head.identity
    leave_trail(wafer, pe, head.identity, stage, head.payload & (MARKED | MARK_ADVANCE))
    channel.out_at += 1
    channel.out_left -= 1
    channel.out_next = t + wafer.host_word
    drop_head(machine, pe, channel, ZERO, t)
    wake_processor(wafer, pe, t + 1)
    if channel.out_left == 0:
        end_part(wafer, channel.out_command, t)
    return t + 1


@kernel
def router_step(machine, seat, t):
    """Run cycle `t` of the router with a seat: every color moves at most one word."""
    wafer, program = machine.wafer, machine.program
    pe = BLOCK(wafer, wafer[wafer.seats + seat])
    if pe.channels & FRONTIER:
        if wafer.alone == 0:
            postpone(wafer, 2 * seat)
            return
        make_targets(machine, pe)
    layout = LAYOUT(program, pe.layout)
    places = layout.channel_list
    candidates = 0
    wake = FAR
    mask = pe.channels & ~pe.shut & ~FRONTIER
    while mask:
        i = trailing_zeros(mask)
        mask &= mask - 1
        due = pe.due[i]
        if due <= t:
            channel = CHANNEL(pe, program[places + i])
            if channel.routed:
                due = _due(wafer, channel)
                if due <= t:
                    candidates |= 1 << i
                    continue
            else:
                due = _to_host(machine, pe, channel, t)
            pe.due[i] = due
        if due < wake:
            wake = due
    used = 0
    while candidates:
        first = trailing_zeros(candidates)
        mask = candidates & (candidates - 1)
        while mask:
            i = trailing_zeros(mask)
            mask &= mask - 1
            if CHANNEL(pe, program[places + i]).served < CHANNEL(pe, program[places + first]).served:
                first = i
        candidates &= ~(1 << first)
        channel = CHANNEL(pe, program[places + first])
        port = _head_port(wafer, channel) & 7
        outputs = (routes_now(channel) >> 8) & 0x1F
        if outputs & used:
            wake = t + 1
            continue
        payload = head_of(channel, port).payload
        state = _is_open(machine, pe, channel, outputs, payload)
        if state == OPEN:
            if channel.held & (channel.held - 1):
                _look_for_two(wafer, channel, port, pe.node)
            _move(machine, pe, channel, port, outputs)
            used |= outputs
            if channel.held:
                due = _due(wafer, channel)
                pe.due[first] = due
                if due < wake:
                    wake = due
        elif state == BUSY:
            head_of(channel, port).payload |= MARK_BUSY
            wake = t + 1
        elif state == FULL:
            pe.shut |= 1 << first
    if wake < FAR:
        wake_router(wafer, pe, wake)


@kernel
def _look_for_two(wafer, channel, port, node):
    """Log two arrivals of a color in one cycle, which are undefined; words that wait do not count."""
    routes = routes_now(channel)
    ready = head_of(channel, port).ready
    for other in range(5):
        is_held = channel.ports[other].count > 0
        if other != port and (routes >> other) & 1 and is_held and head_of(channel, other).ready == ready:
            hazard(wafer, node, LOG_TWO_ARRIVALS, channel.color, NONE)
