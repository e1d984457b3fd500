"""The router of a node: buffers per color and port, routes, switches, filters, one word per link and cycle.

A word that leaves a router at cycle t can leave the next one at t + hop. A slot that becomes free at t is
seen by the sender at t + 1. Among colors that want one output in one cycle the one that was served the
longest ago goes first, then the lower one. Assumed, as wavelet-fabric.md section 3.1 leaves it open.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.watch_kernels import is_watched, watch_queue
from npuviz.targets.wavelet.kernels.program_records import (
    K_QUEUES,
    L_CHANNEL,
    L_CHANNEL_LIST,
    L_QUEUE,
    NODE_CLASS,
    NODE_COLUMN,
    NODE_ROW,
    NODE_WORDS,
    P_COLUMNS,
    P_HOP,
    P_HOST_WORD,
    P_LINK,
    P_NODES,
    P_RAMP,
    P_SWAP,
    P_TRACKS,
    P_TURN,
    TRACK_WORDS,
)
from npuviz.targets.wavelet.kernels.records import (
    B_CHANNELS,
    B_CLASS,
    B_DUE,
    B_MAIN_MASK,
    B_NODE,
    B_SHUT,
    BAND_DROPPED,
    BAND_HOPS,
    C_CLOSED,
    C_COLOR,
    C_FILTER,
    C_HELD,
    C_LIMIT,
    C_LIMIT_RAMP,
    C_OUT_AT,
    C_OUT_COMMAND,
    C_OUT_LEFT,
    C_OUT_NEXT,
    C_PORTS,
    C_QUEUE,
    C_ROUTED,
    C_SERVED,
    C_SWAP,
    ENTRY_WORDS,
    FAR,
    FRONTIER,
    H_ALONE,
    H_SEATS,
    LINK_BLOCK,
    LINK_FREE,
    LOG_TWO_ARRIVALS,
    MARK_ADVANCE,
    MARK_CONTROL,
    NONE,
    ONE,
    PORT_WORDS,
    Q_COUNT,
    Q_LIMIT,
    R_COUNT,
    R_HEAD,
    R_TARGET,
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
    link_of,
    make_targets,
    note_link,
)
from npuviz.targets.wavelet.kernels.router.ring import (
    drop_head,
    has_room,
    is_full,
    opposite,
    push_queue,
    push_word,
    queue_has_room,
    ring_of,
    routes_now,
)
from npuviz.targets.wavelet.kernels.router.switch import (
    advance_switch,
    command_effect,
    filter_takes,
    reaches_processor,
)
from npuviz.targets.wavelet.kernels.time.events import (
    band_at,
    end_part,
    hazard,
    leave_trail,
    wake_processor,
    wake_router,
)
from npuviz.targets.wavelet.kernels.time.stops import watch_word
from npuviz.targets.wavelet.kernels.time.wheel import postpone

LATER, OPEN, BUSY, FULL = 0, 1, 2, 3


@kernel
def _swapped(s, p, nb, color, port):
    """Mask of the channels (1: same color, 2: the other of the pair) that take an arrival."""
    axis = 1 if port == 2 or port == 4 else 2
    own = p[s[nb + B_CLASS] + L_CHANNEL + color]
    other = p[s[nb + B_CLASS] + L_CHANNEL + (color ^ 1)]
    mask = 1 if own != 0 and (s[nb + own + C_SWAP] & axis) == 0 else 0
    if other != 0 and (s[nb + other + C_SWAP] & axis):
        mask |= 2
    return mask


@kernel
def _swap_has_room(s, p, nb, color, port, t):
    """`_is_open` for a link behind which colors of a pair may be swapped."""
    mask = _swapped(s, p, nb, color, port)
    for k in range(2):
        if (mask >> k) & 1:
            other = nb + p[s[nb + B_CLASS] + L_CHANNEL + (color ^ k)]
            if not has_room(s, other, opposite(port), t):
                return False
    return True


@inlined
def _is_open(s, p, b, node, ch, outputs, payload, t):
    """Whether all outputs of a word can take it at cycle `t`: OPEN, LATER, BUSY (a link is) or FULL."""
    links = outputs & LINKS
    while links:
        port = trailing_zeros(links)
        links &= links - 1
        link = link_of(b, port)
        if s[link + LINK_FREE] >= (t + 1) * 1000:
            return BUSY
        nb = s[link + LINK_BLOCK]
        if nb == 0:
            nb = find_neighbour(s, p, b, node, s[ch + C_COLOR], port)
            if nb == 0:
                return LATER
        if p[P_SWAP]:
            if not _swap_has_room(s, p, nb, s[ch + C_COLOR], port, t):
                return LATER
            continue
        target = s[ch + C_PORTS + port * PORT_WORDS + R_TARGET]
        if target == 0:
            target = find_target(s, p, b, ch, nb, port)
        if target == 0:
            return LATER
        if not has_room(s, target, opposite(port), t):
            return FULL if is_full(s, target, opposite(port)) else LATER
    if outputs & 1 and reaches_processor(s, ch, payload):
        number = s[ch + C_QUEUE]
        if number < 0:
            return FULL
        q = b + p[s[b + B_CLASS] + L_QUEUE + number]
        if not queue_has_room(s, q, t):
            return FULL if s[q + Q_COUNT] >= s[q + Q_LIMIT] else LATER
    return OPEN


@kernel
def _watch_arrival(s, p, x, node, q, number, color, payload, t):
    """Test stop rows about a word for the processor and about the queue it enters."""
    row = p[P_NODES] + node * NODE_WORDS
    element = p[row + NODE_ROW] * p[P_COLUMNS] + p[row + NODE_COLUMN]
    watch_word(x, element, color, payload & 0xFFFF_FFFF, (payload & MARK_CONTROL) != 0, t)
    first = p[p[P_TRACKS] + node * TRACK_WORDS + K_QUEUES]
    if first >= 0:
        c = p[row + NODE_CLASS]
        for k in range(number):
            if p[c + L_QUEUE + k]:
                first += 1
        watch_queue(x, first, s[q + Q_COUNT] - 1, s[q + Q_COUNT], t)


@inlined
def _to_processor(s, p, x, b, node, ch, payload, identity, waited, t):
    """Hand a word to the input queue of its color, unless a filter or its own mark keeps it away."""
    is_ignored = (payload & MARK_CONTROL) != 0 and ((payload >> 24) & 1) != 0
    takes = not is_ignored
    if s[ch + C_FILTER]:
        takes = filter_takes(s, ch, payload, ONE) and takes
    if not takes:
        s[band_at(s, b) + BAND_DROPPED] += 1
        leave_trail(s, b, identity, ZERO, TRAIL_DROPPED, ZERO, s[ch + C_COLOR], payload)
        return
    number = s[ch + C_QUEUE]
    q = b + p[s[b + B_CLASS] + L_QUEUE + number]
    ready = t + p[P_RAMP]
    push_queue(s, b, q, payload, identity, ready)
    if is_watched(x):
        _watch_arrival(s, p, x, node, q, number, s[ch + C_COLOR], payload, t)
    s[b + B_MAIN_MASK] |= 1 << number
    wake_processor(s, b, ready)
    leave_trail(s, b, identity, ZERO, TRAIL_TAKEN, waited, s[ch + C_COLOR], payload)


@inlined
def _send_over(s, p, x, ev, b, node, ch, port, payload, identity, t):
    """Send a word over a link to the router behind it."""
    link = link_of(b, port)
    nb = s[link + LINK_BLOCK]
    color = s[ch + C_COLOR]
    ready = t + p[P_HOP]
    if p[P_SWAP]:
        mask = _swapped(s, p, nb, color, port)
        for k in range(2):
            if (mask >> k) & 1:
                target = nb + p[s[nb + B_CLASS] + L_CHANNEL + (color ^ k)]
                push_word(s, nb, target, opposite(port), payload, identity, ready)
    else:
        target = s[ch + C_PORTS + port * PORT_WORDS + R_TARGET]
        push_word(s, nb, target, opposite(port), payload, identity, ready)
    wake_router(s, nb, ready)
    free = s[link + LINK_FREE]
    if free < t * 1000:
        free = t * 1000
    s[link + LINK_FREE] = free + p[P_LINK]
    s[band_at(s, b) + BAND_HOPS] += 1
    note_link(s, p, x, ev, b, node, port, color, t)


@inlined
def _move(s, p, x, ev, b, node, ch, port, outputs, t):
    """Take the head of a port's ring and send it to all outputs."""
    r = ch + C_PORTS + port * PORT_WORDS
    at = ring_of(s, ch, port) + s[r + R_HEAD] * ENTRY_WORDS
    payload, identity, ready = s[at], s[at + 1], s[at + 2]
    count = s[r + R_COUNT]
    limit = s[ch + C_LIMIT_RAMP] if port == 0 else s[ch + C_LIMIT]
    drop_head(s, p, b, ch, port, t)
    s[ch + C_SERVED] = t
    color = s[ch + C_COLOR]
    going_on = payload & ~MARK_ADVANCE
    if payload & MARK_CONTROL:
        going_on = (going_on & ~0xFFFF_FFFF) | command_effect(s, b, node, ch, payload & 0xFFFF_FFFF, t)
    if payload & MARK_ADVANCE:
        advance_switch(s, node, ch)
    links = outputs & LINKS
    while links:
        output = trailing_zeros(links)
        links &= links - 1
        _send_over(s, p, x, ev, b, node, ch, output, going_on, identity, t)
        leave_trail(s, b, identity, output, TRAIL_HOP, t - ready, color, going_on)
    if outputs & 1:
        _to_processor(s, p, x, b, node, ch, payload & ~MARK_ADVANCE, identity, t - ready, t)
        count_load(s, p, b, ZERO, t)
    if outputs == 0:
        s[band_at(s, b) + BAND_DROPPED] += 1
        leave_trail(s, b, identity, ZERO, TRAIL_DROPPED, t - ready, color, payload)
    if count >= limit - 1:
        if port > 0:
            sb = s[link_of(b, port) + LINK_BLOCK]
            if sb == 0:
                sb = find_neighbour(s, p, b, node, color, port)
            s[sb + B_SHUT] = 0
            wake_router(s, sb, t + 1)
        else:
            wake_processor(s, b, t + 1)
    elif port == 0 and (count >= limit - 3 or count == 1):
        wake_processor(s, b, t + 1)


@inlined
def _has_turn(port, outputs):
    """Whether a word that comes in by a port changes its direction."""
    return port > 0 and (outputs & 0x1E & ~(1 << opposite(port))) != 0


@inlined
def _head_port(s, p, ch, t):
    """The port whose head is to go next and the cycle from which it may: port | cycle << 3, -1 if none."""
    routes = routes_now(s, ch)
    best = FAR
    found = -1
    mask = routes & s[ch + C_HELD]
    while mask:
        port = trailing_zeros(mask)
        mask &= mask - 1
        r = ch + C_PORTS + port * PORT_WORDS
        ready = s[ring_of(s, ch, port) + s[r + R_HEAD] * ENTRY_WORDS + 2]
        if p[P_TURN] and _has_turn(port, (routes >> 8) & 0x1F):
            ready += p[P_TURN]
        if ready < best:
            best = ready
            found = port
    return found | (best << 3) if found >= 0 else -1


@inlined
def _due(s, p, ch, t):
    """When to look at a channel with a route: the cycle from which its head may go, FAR if it cannot."""
    if s[ch + C_CLOSED]:
        return FAR
    head = _head_port(s, p, ch, t)
    return head >> 3 if head >= 0 else FAR


@kernel
def _to_host(s, p, h, b, node, ch, t):
    """Let the host take a word of a color without a route; returns when it looks again, FAR if never."""
    r = ch + C_PORTS
    if s[r + R_COUNT] == 0 or s[ch + C_OUT_LEFT] == 0:
        return FAR
    at = ring_of(s, ch, 0) + s[r + R_HEAD] * ENTRY_WORDS
    ready = s[at + 2]
    if ready < s[ch + C_OUT_NEXT]:
        ready = s[ch + C_OUT_NEXT]
    if ready > t:
        return ready
    h[s[ch + C_OUT_AT]] = s[at] & 0xFFFF_FFFF
    leave_trail(s, b, s[at + 1], ZERO, TRAIL_TAKEN, t - s[at + 2], s[ch + C_COLOR], s[at])
    s[ch + C_OUT_AT] += 1
    s[ch + C_OUT_LEFT] -= 1
    s[ch + C_OUT_NEXT] = t + p[P_HOST_WORD]
    drop_head(s, p, b, ch, ZERO, t)
    wake_processor(s, b, t + 1)
    if s[ch + C_OUT_LEFT] == 0:
        end_part(s, s[ch + C_OUT_COMMAND], t)
    return t + 1


@kernel
def router_step(s, p, h, x, ev, seat, t):
    """Cycle `t` of the router with a seat: every color moves at most one word."""
    b = s[s[H_SEATS] + seat]
    node = s[b + B_NODE]
    if s[b + B_CHANNELS] & FRONTIER:
        if s[H_ALONE] == 0:
            postpone(s, 2 * seat)
            return
        make_targets(s, p, b, node)
    c = s[b + B_CLASS]
    places = p[c + L_CHANNEL_LIST]
    candidates = 0
    wake = FAR
    mask = s[b + B_CHANNELS] & ~s[b + B_SHUT] & ~FRONTIER
    while mask:
        i = trailing_zeros(mask)
        mask &= mask - 1
        due = s[b + B_DUE + i]
        if due <= t:
            ch = b + p[places + i]
            if s[ch + C_ROUTED]:
                due = _due(s, p, ch, t)
                if due <= t:
                    candidates |= 1 << i
                    continue
            else:
                due = _to_host(s, p, h, b, node, ch, t)
            s[b + B_DUE + i] = due
        if due < wake:
            wake = due
    used = 0
    while candidates:
        first = trailing_zeros(candidates)
        mask = candidates & (candidates - 1)
        while mask:
            i = trailing_zeros(mask)
            mask &= mask - 1
            if s[b + p[places + i] + C_SERVED] < s[b + p[places + first] + C_SERVED]:
                first = i
        candidates &= ~(1 << first)
        ch = b + p[places + first]
        port = _head_port(s, p, ch, t) & 7
        outputs = (routes_now(s, ch) >> 8) & 0x1F
        if outputs & used:
            wake = t + 1
            continue
        r = ch + C_PORTS + port * PORT_WORDS
        payload = s[ring_of(s, ch, port) + s[r + R_HEAD] * ENTRY_WORDS]
        state = _is_open(s, p, b, node, ch, outputs, payload, t)
        if state == OPEN:
            if s[ch + C_HELD] & (s[ch + C_HELD] - 1):
                _look_for_two(s, ch, port, node, t)
            _move(s, p, x, ev, b, node, ch, port, outputs, t)
            used |= outputs
            if s[ch + C_HELD]:
                due = _due(s, p, ch, t)
                s[b + B_DUE + first] = due
                if due < wake:
                    wake = due
        elif state == BUSY:
            wake = t + 1
        elif state == FULL:
            s[b + B_SHUT] |= 1 << first
    if wake < FAR:
        wake_router(s, b, wake)


@kernel
def _look_for_two(s, ch, port, node, t):
    """Two arrivals of a color in one cycle are undefined: log them. Words that wait are none."""
    routes = routes_now(s, ch)
    at = ring_of(s, ch, port) + s[ch + C_PORTS + port * PORT_WORDS + R_HEAD] * ENTRY_WORDS
    for other in range(5):
        if other != port and (routes >> other) & 1:
            r = ch + C_PORTS + other * PORT_WORDS
            if s[r + R_COUNT] > 0:
                place = ring_of(s, ch, other) + s[r + R_HEAD] * ENTRY_WORDS
                if s[place + 2] == s[at + 2]:
                    hazard(s, node, LOG_TWO_ARRIVALS, s[ch + C_COLOR], NONE)
