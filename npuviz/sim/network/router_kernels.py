"""Run one cycle of an input-buffered router: routing, VC allocation and switch allocation, one stage each.

Every stage works on the state before the cycle (Ref: systolic.md section 9, BOOK iq_router.cpp). Both
allocators are iSLIP: a resource grants the first requester at or after its pointer, a requester
accepts the first grant at or after its own, and in the first pass both pointers move past a match.
Requests are kept as lists per output in the scratch words, so that the work grows with the requests.
"""

from numba import int64

from npuviz.sim.network.link_kernels import send_credit, send_flit
from npuviz.sim.network.records_kernels import (
    FLIT,
    INPUT_VC,
    NIL,
    OUTPUT_VC,
    OWNER_FREE,
    OWNER_PACKET,
    OWNER_TAIL,
    TAIL_BIT,
    VC_ACTIVE,
    VC_IDLE,
    VC_ROUTING,
    VC_SHIFT,
    VC_WAITING,
)
from npuviz.sim.network.routing_kernels import find_route
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros

ROW_WORDS = 4


@inlined
def set_bit(s, mask, index):
    """Set a bit of a mask of words."""
    s[mask + (index >> 6)] |= int64(1) << (index & 63)


@inlined
def clear_bit(s, mask, index):
    """Clear a bit of a mask of words."""
    s[mask + (index >> 6)] &= ~(int64(1) << (index & 63))


@kernel
def _request_switch(network, router, mask):
    """Gather the switch requests of a router; return the number of outputs that are requested.

    If several VCs of an expanded input want the same output, only the one that is first in
    rotation requests it. Scratch: per output head, tail and winner; then the outputs asked
    for; then per request (next, expanded input, VC).
    """
    words, net = network.words, network.net
    vcs = net.vcs
    ports = net.ports
    in_speedup = net.input_speedup
    scratch = net.scratch
    outs = ports
    asked = scratch + 3 * outs
    rows = asked + outs
    count = 0
    used = 0
    for index in range(net.mask_words):
        word = words[mask + index]
        while word != 0:
            low = trailing_zeros(word)
            word ^= int64(1) << low
            bit = (index << 6) + low
            port = bit // vcs
            vc = bit - port * vcs
            input_vc = INPUT_VC(words, net.input_vcs, router * ports * vcs + bit)
            target = input_vc.out
            if OUTPUT_VC(words, net.output_vcs, target).count >= net.buffer:
                continue
            source = port * in_speedup + vc % in_speedup
            output = target // vcs - router * ports
            entry = scratch + 3 * output
            if words[entry] == NIL:
                words[asked + count] = output
                count += 1
            # Requests of one input are neighbours in a list: an older one of this input is among the newest.
            row = words[entry + 1] if words[entry] != NIL else NIL
            while row != NIL and words[rows + 4 * row + 1] // in_speedup == port:
                if words[rows + 4 * row + 1] == source:
                    break
                row = words[rows + 4 * row + 3]
            if row != NIL and words[rows + 4 * row + 1] == source:
                offset = words[net.switch_offset + router * ports * in_speedup + source]
                if (vc - offset + vcs) % vcs < (words[rows + 4 * row + 2] - offset + vcs) % vcs:
                    words[rows + 4 * row + 2] = vc
                continue
            row = rows + 4 * used
            words[row] = NIL
            words[row + 1] = source
            words[row + 2] = vc
            if words[entry] == NIL:
                words[entry] = used
                words[row + 3] = NIL
            else:
                words[rows + 4 * words[entry + 1]] = used
                words[row + 3] = words[entry + 1]
            words[entry + 1] = used
            used += 1
    return count


@inlined
def _in_rotation(s, rows, first, pointer, wins):
    """Return the row of a list whose expanded input is first at or after `pointer` and has not won yet, or
    NIL.

    Inputs are in order in the list, but the expanded inputs of one input (input speedup) need not be.
    """
    best = NIL
    least = NIL
    row = first
    while row != NIL:
        source = s[rows + 4 * row + 1]
        if s[wins + source] == NIL:
            distance = source - pointer if source >= pointer else source - pointer + (NIL >> 1)
            if distance < least:
                least = distance
                best = row
        row = s[rows + 4 * row]
    return best


@kernel
def match_switch(network, router):
    """Allocate the switch of a router; return the number of winners.

    The winners are written to the table `winners` as (expanded input, output, VC).
    """
    words, net = network.words, network.net
    vcs = net.vcs
    ports = net.ports
    mask = net.switch_masks + router * net.mask_words
    count = _request_switch(network, router, mask)
    if count == 0:
        return 0
    ins = ports * net.input_speedup
    outs = ports
    asked = net.scratch + 3 * outs
    rows = asked + outs
    wins = rows + 4 * ports * vcs  # per expanded input: its winning request or NIL; then its best grant
    grants = wins + ins
    winners = net.winners
    grant_pointer = net.switch_grant + router * outs
    accept_pointer = net.switch_accept + router * ins
    number = 0
    for iteration in range(net.switch_iterations):
        before = number
        for index in range(count):
            output = words[asked + index]
            entry = net.scratch + 3 * output
            if words[entry + 2] != NIL:
                continue
            row = _in_rotation(words, rows, words[entry], words[grant_pointer + output], wins)
            if row == NIL:
                continue
            source = words[rows + 4 * row + 1]
            # A grant is (output << 32 | request); the input keeps the one that is first in its rotation.
            granted = words[grants + source]
            start = words[accept_pointer + source]
            distance = output - start if output >= start else output - start + outs
            other = granted >> 32
            if granted == NIL or distance < (other - start if other >= start else other - start + outs):
                words[grants + source] = (output << 32) | row
        for index in range(count):
            row = words[net.scratch + 3 * words[asked + index]]
            while row != NIL:
                source = words[rows + 4 * row + 1]
                granted = words[grants + source]
                if granted != NIL and words[wins + source] == NIL:
                    output = granted >> 32
                    words[wins + source] = granted & NIL
                    words[net.scratch + 3 * output + 2] = source
                    words[winners + 3 * number] = source
                    words[winners + 3 * number + 1] = output
                    words[winners + 3 * number + 2] = words[rows + 4 * (granted & NIL) + 2]
                    number += 1
                    if iteration == 0:
                        words[grant_pointer + output] = source + 1 if source + 1 < ins else 0
                        words[accept_pointer + source] = output + 1 if output + 1 < outs else 0
                words[grants + source] = NIL
                row = words[rows + 4 * row]
        if number == before:
            break
    for index in range(count):
        entry = net.scratch + 3 * words[asked + index]
        row = words[entry]
        while row != NIL:
            words[wins + words[rows + 4 * row + 1]] = NIL
            row = words[rows + 4 * row]
        words[entry] = words[entry + 1] = words[entry + 2] = NIL
    return number


@kernel
def _alone(network, mask):
    """Return the only set bit of a mask of input VCs; -1 if there are several, NIL if there is none."""
    found = NIL
    for index in range(network.net.mask_words):
        word = network.words[mask + index]
        if word != 0:
            low = trailing_zeros(word)
            if found != NIL or word != int64(1) << low:
                return -1
            found = (index << 6) + low
    return found


@kernel
def _own(network, router, bit, place, is_first):
    """Give an output VC, number `place` of its router, to an input VC.

    The input VC asks for the switch from the next cycle on. If `is_first`, the allocator's
    pointers move past the match.
    """
    words, net = network.words, network.net
    vcs = net.vcs
    ports = net.ports
    mask_words = net.mask_words
    target = router * ports * vcs + place
    OUTPUT_VC(words, net.output_vcs, target).owner = OWNER_PACKET
    input_vc = INPUT_VC(words, net.input_vcs, router * ports * vcs + bit)
    input_vc.out = target
    input_vc.state = VC_ACTIVE
    if is_first:
        size = ports * vcs
        words[net.vc_grant + target] = bit + 1 if bit + 1 < size else 0
        after = place + 1
        words[net.vc_accept + router * size + bit] = after if after < size else 0
    clear_bit(words, net.alloc_masks + router * mask_words, bit)
    set_bit(words, net.switch_masks + router * mask_words, bit)


@inlined
def _accept_start(network, router, bit, output):
    """Return the VC of one output at which the rotation of an input VC begins (0 if it points to another
    output)."""
    net = network.net
    vcs = net.vcs
    start = network.words[net.vc_accept + router * net.ports * vcs + bit] - output * vcs
    return start if 0 <= start < vcs else 0


@kernel
def _take_alone(network, router, bit, route):
    """Give the only input VC that asks for an output its first free VC in rotation, if there is one."""
    net = network.net
    output = route >> 16
    base = net.output_vcs + (router * net.ports + output) * net.vcs * OUTPUT_VC.num_words
    start = _accept_start(network, router, bit, output)
    chosen = -1
    for vc in range((route >> 8) & 255, (route & 255) + 1):
        if OUTPUT_VC(network.words, base, vc).owner == OWNER_FREE:
            if vc >= start:
                chosen = vc
                break
            if chosen < 0:
                chosen = vc
    if chosen >= 0:
        _own(network, router, bit, output * net.vcs + chosen, True)


@inlined
def _grant_vc(s, rows, first, vc, pointer):
    """Return the request of a list that an output VC grants: the first at or after its pointer, or NIL."""
    chosen = NIL
    row = first
    while row != NIL:
        route = s[rows + ROW_WORDS * row + 2]
        if s[rows + ROW_WORDS * row + 3] >= 0 and (route >> 8) & 255 <= vc <= route & 255:
            if s[rows + ROW_WORDS * row + 1] >= pointer:
                return row
            if chosen == NIL:
                chosen = row
        row = s[rows + ROW_WORDS * row]
    return chosen


@kernel
def _match_output(network, router, output, first, rows):
    """Match the input VCs of a list with the free VCs of one output by iSLIP.

    An input VC asks for VCs of one output only, so that each output of a router is matched on its own.
    """
    words, net = network.words, network.net
    vcs = net.vcs
    base = (router * net.ports + output) * vcs
    for iteration in range(net.vc_iterations):
        granted = 0
        for vc in range(vcs):
            if OUTPUT_VC(words, net.output_vcs, base + vc).owner != OWNER_FREE:
                continue
            chosen = _grant_vc(words, rows, first, vc, words[net.vc_grant + base + vc])
            if chosen == NIL:
                continue
            granted += 1
            at = rows + ROW_WORDS * chosen
            start = _accept_start(network, router, words[at + 1], output)
            held = words[at + 3] - 1
            if held < 0 or (vc - start + vcs) % vcs < (held - start + vcs) % vcs:
                words[at + 3] = vc + 1
        if granted == 0:
            return
        row = first
        while row != NIL:
            at = rows + ROW_WORDS * row
            if words[at + 3] > 0:
                _own(network, router, words[at + 1], output * vcs + words[at + 3] - 1, iteration == 0)
                words[at + 3] = -1
            row = words[at]


@kernel
def match_vcs(network, router):
    """Allocate output VCs to the input VCs of a router that wait for one.

    Scratch: per output head and tail of its list; the outputs asked for; rows of (next, input VC,
    route, state), state 0: asking, v + 1: holds a grant of VC v, -1: served.
    """
    words, net = network.words, network.net
    vcs = net.vcs
    ports = net.ports
    mask = net.alloc_masks + router * net.mask_words
    ivs = net.input_vcs + router * ports * vcs * INPUT_VC.num_words
    bit = _alone(network, mask)
    if bit == NIL:
        return
    if bit >= 0:
        _take_alone(network, router, bit, INPUT_VC(words, ivs, bit).route)
        return
    heads = net.alloc_scratch
    asked = heads + 2 * ports
    rows = asked + ports
    count = 0
    used = 0
    for index in range(net.mask_words):
        word = words[mask + index]
        while word != 0:
            low = trailing_zeros(word)
            word ^= int64(1) << low
            bit = (index << 6) + low
            route = INPUT_VC(words, ivs, bit).route
            output = route >> 16
            row = rows + ROW_WORDS * used
            words[row] = NIL
            words[row + 1] = bit
            words[row + 2] = route
            words[row + 3] = 0
            if words[heads + 2 * output] == NIL:
                words[heads + 2 * output] = used
                words[asked + count] = output
                count += 1
            else:
                words[rows + ROW_WORDS * words[heads + 2 * output + 1]] = used
            words[heads + 2 * output + 1] = used
            used += 1
    for index in range(count):
        output = words[asked + index]
        first = words[heads + 2 * output]
        words[heads + 2 * output] = NIL
        row = rows + ROW_WORDS * first
        if words[row] == NIL:
            _take_alone(network, router, words[row + 1], words[row + 2])
        else:
            _match_output(network, router, output, first, rows)


@kernel
def route_vcs(network, router):
    """Find the routes of packets that are new at the head of their VC, and let them ask for an output VC."""
    words, net = network.words, network.net
    size = net.mask_words
    vcs = net.vcs
    mask = net.route_masks + router * size
    for index in range(size):
        word = words[mask + index]
        words[mask + index] = 0
        words[net.alloc_masks + router * size + index] |= word
        while word != 0:
            low = trailing_zeros(word)
            word ^= int64(1) << low
            bit = (index << 6) + low
            input_vc = INPUT_VC(words, net.input_vcs, router * net.ports * vcs + bit)
            input_vc.route = find_route(network, router, bit // vcs, input_vc.head)
            input_vc.state = VC_WAITING


@kernel
def traverse(network, router, winner, cycle, left):
    """Send the first flit of an input VC that has won the switch; `left` more router cycles follow in
    `cycle`.

    winner  word of its row in the table `winners`
    """
    words, net = network.words, network.net
    source, vc = words[winner], words[winner + 2]
    vcs = net.vcs
    ports = net.ports
    size = net.mask_words
    speedup = net.input_speedup
    port = source // speedup
    bit = port * vcs + vc
    offset = vc + speedup
    words[net.switch_offset + router * ports * speedup + source] = offset % vcs
    input_vc = INPUT_VC(words, net.input_vcs, router * ports * vcs + bit)
    flit = input_vc.head
    target = input_vc.out
    flit_row = FLIT(words, net.pool, flit)
    word = flit_row.word
    following = flit_row.next >> 32
    input_vc.head = following
    input_vc.count -= 1
    flit_row.word = (word & ~(63 << VC_SHIFT)) | (target % vcs << VC_SHIFT)
    output_vc = OUTPUT_VC(words, net.output_vcs, target)
    output_vc.count += 1
    send_flit(network, target // vcs, flit, cycle, left)
    send_credit(network, router * ports + port, vc, cycle, left)
    is_tail = word & TAIL_BIT != 0
    if is_tail:
        output_vc.owner = OWNER_TAIL if net.wait_tail == 1 else OWNER_FREE
    if is_tail or following == NIL:
        clear_bit(words, net.switch_masks + router * size, bit)
    if following == NIL:
        input_vc.tail = NIL
        if is_tail:
            input_vc.state = VC_IDLE
    elif is_tail:
        start_packet(network, router, bit)


@kernel
def start_packet(network, router, bit):
    """Route a head flit that is now first in its input VC, or let it ask for a VC at once."""
    words, net = network.words, network.net
    size = net.mask_words
    input_vc = INPUT_VC(words, net.input_vcs, router * net.ports * net.vcs + bit)
    if net.routing_delay > 0:
        input_vc.state = VC_ROUTING
        set_bit(words, net.route_masks + router * size, bit)
    else:
        # Look-ahead routing: the previous router has found the route already.
        input_vc.route = find_route(network, router, bit // net.vcs, input_vc.head)
        input_vc.state = VC_WAITING
        set_bit(words, net.alloc_masks + router * size, bit)


@kernel
def router_cycle(network, router, cycle, left):
    """Run one cycle of a router; return whether a VC still has something to do."""
    words, net = network.words, network.net
    winners = net.winners
    number = match_switch(network, router)
    match_vcs(network, router)
    route_vcs(network, router)
    for index in range(number):
        traverse(network, router, winners + 3 * index, cycle, left)
    size = net.mask_words
    for index in range(router * size, router * size + size):
        busy = words[net.route_masks + index] | words[net.alloc_masks + index]
        if busy | words[net.switch_masks + index] != 0:
            return True
    return False
