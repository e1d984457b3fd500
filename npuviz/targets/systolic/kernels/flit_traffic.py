"""Requests and responses over the flit-level network, whatever the DRAM.

One call of `flit_cycle` is one cycle of the network clock (Ref: systolic.md section 3.6): cores send
and take at their ports, channels take and answer, then the network has its own cycle. A packet's
payload is the node of the pool that holds the request.
"""

from numba import int64

from npuviz.sim.dram.command_kernels import dram_can_accept, dram_take
from npuviz.sim.dram.records_kernels import (
    DC_DONE,
    NIL,
    NODE_TIME,
    WHEEL_MASKS,
)
from npuviz.sim.dram.simple_kernels import dram_accept, dram_arrive
from npuviz.sim.network.flit_kernels import net_can_inject, net_inject, net_next, net_step, net_take
from npuviz.sim.network.records_kernels import (
    NET_NODE_MASKS,
    NET_READY,
    NET_WAITING,
    READ_REPLY,
    READ_REQUEST,
    WRITE_REPLY,
    WRITE_REQUEST,
)
from npuviz.sim.network.simple_kernels import LOW_MASK, NOC_POOL, NOC_STRIDE, allocate_node, free_node
from npuviz.sim.parts.bits_kernels import kernel, trailing_zeros
from npuviz.targets.systolic.kernels.records import (
    B_ENTRY,
    BURST_WORDS,
    FAR,
    H_BURST_CAPACITY,
    H_BURSTS,
    H_BURSTS_WAITING,
    H_CHANNELS,
    H_CORE_WORDS,
    H_CORES,
    H_CORES_COUNT,
    H_DOORS,
    H_DOORS_WAITING,
    H_DRAM,
    H_DRAM_KIND,
    H_NET,
    H_NOC,
    H_NOC_LAST,
    H_NOC_NEXT,
    H_NOC_PERIOD,
    H_PORTS,
    H_READS,
    H_REQUEST_BYTES,
    H_SENDING,
    H_WRITES,
    H_WRITES_OUT,
    K_BURST_COUNT,
    K_BURST_HEAD,
    K_BURST_START,
    K_REQUEST,
    K_REQUEST_END,
    K_REQUEST_I,
    K_REQUEST_J,
    K_REQUEST_LAST,
    N_CORE,
    N_LEFT,
)
from npuviz.targets.systolic.kernels.replies import STORE_FLAG, deliver, run_dram
from npuviz.targets.systolic.kernels.traffic import (
    channel_of,
    enter_row,
    finish_burst,
    give,
    place_node,
    queue_at_door,
    take_from_door,
    tick_behind,
)


@kernel
def send_one(s, p, x, ev, c, port, cycle, now):
    """Let the head of a core's request list enter at a port, if the port's source queue has room."""
    k = s[H_CORES] + c * s[H_CORE_WORDS]
    noc = s[H_NOC]
    net = s[H_NET]
    place = c * s[H_BURST_CAPACITY] + s[k + K_BURST_HEAD]
    burst = s[H_BURSTS] + place * BURST_WORDS
    entry = s[burst + B_ENTRY]
    kind = READ_REQUEST if entry != 0 else WRITE_REQUEST
    source = c * s[H_PORTS] + port
    if not net_can_inject(s, net, source, kind):
        return
    if s[k + K_REQUEST] < 0:
        enter_row(s, p, k, burst, int64(0), int64(0), int64(-1))
        s[k + K_BURST_START] = now
    address = s[k + K_REQUEST]
    if address >= 0:
        node = allocate_node(s, noc)
        word = s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]
        s[word] = entry if entry != 0 else STORE_FLAG | c
        place_node(s, noc, node, address)
        target = s[H_CORES_COUNT] * s[H_PORTS] + channel_of(s, p, address)
        net_inject(s, net, source, target, kind, node, cycle)
        if entry != 0:
            s[entry + N_LEFT] += 1
            s[H_READS] += 1
        else:
            s[H_WRITES_OUT] += 1
            s[H_WRITES] += 1
        s[k + K_REQUEST] = address + s[H_REQUEST_BYTES]
        if s[k + K_REQUEST] >= s[k + K_REQUEST_END]:
            s[k + K_REQUEST_LAST] = address
            enter_row(s, p, k, burst, s[k + K_REQUEST_I], s[k + K_REQUEST_J] + 1, address)
    if s[k + K_REQUEST] < 0:
        finish_burst(s, p, x, ev, c, burst, now)


@kernel
def take_at_core(s, noc, node, c, cycle):
    """A response reaches its core."""
    word = s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]
    payload = s[word] & LOW_MASK
    free_node(s, noc, node)
    deliver(s, payload, c, cycle)


@kernel
def answer(s, noc, channel, node, enters):
    """Put a response into its channel's list, from where it enters the network in `enters` or later."""
    word = s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]
    s[word + NODE_TIME] = enters
    queue_at_door(s, noc, channel, node)
    if enters < s[H_NOC_NEXT]:
        s[H_NOC_NEXT] = enters


@kernel
def take_at_channel(s, noc, node, channel, cycle):
    """A request reaches its channel."""
    if s[H_DRAM_KIND] == 1:
        give(s, noc, channel, node, tick_behind(s, cycle))
        return
    word = s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]
    enters = dram_accept(s, s[H_DRAM], channel, s[word] & STORE_FLAG != 0)
    answer(s, noc, channel, node, enters)


@kernel
def send_answers(s, noc, cycle):
    """One response per channel enters the network; returns the next cycle in which another may."""
    net = s[H_NET]
    ports = s[H_PORTS]
    sources = s[H_CORES_COUNT] * ports
    following = FAR
    for channel in range(s[H_CHANNELS]):
        door = s[H_DOORS] + 2 * channel
        node = s[door]
        if node == NIL:
            continue
        word = s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]
        time = s[word + NODE_TIME]
        if time <= cycle:
            time = cycle + 1
            payload = s[word] & LOW_MASK
            is_read = payload & STORE_FLAG == 0
            kind = READ_REPLY if is_read else WRITE_REPLY
            if net_can_inject(s, net, sources + channel, kind):
                c = s[payload + N_CORE] if is_read else payload & ~STORE_FLAG
                take_from_door(s, noc, channel)
                net_inject(s, net, sources + channel, c * ports + channel % ports, kind, node, cycle)
                if s[door] == NIL:
                    continue
        if time < following:
            following = time
    return following


@kernel
def flit_cycle(s, p, x, ev, cycle, now):
    """One cycle of the network, in core cycle `now`. Sets H_NOC_NEXT."""
    noc = s[H_NOC]
    net = s[H_NET]
    ports = s[H_PORTS]
    sources = s[H_CORES_COUNT] * ports
    if s[H_BURSTS_WAITING] > 0:
        for part in range((s[H_CORES_COUNT] + 63) >> 6):
            sending = s[s[H_SENDING] + part]
            while sending != 0:
                c = 64 * part + trailing_zeros(sending)
                sending &= sending - 1
                k = s[H_CORES] + c * s[H_CORE_WORDS]
                port = 0
                while port < ports and s[k + K_BURST_COUNT] > 0:
                    send_one(s, p, x, ev, c, port, cycle, now)
                    port += 1
    if s[net + NET_WAITING] > 0:
        if s[H_DRAM_KIND] == 0:
            dram_arrive(s, s[H_DRAM], cycle * s[H_NOC_PERIOD])
        for index in range(s[net + NET_NODE_MASKS]):
            ready = s[s[net + NET_READY] + index]
            while ready != 0:
                place = 64 * index + trailing_zeros(ready)
                ready &= ready - 1
                if place < sources:
                    take_at_core(s, noc, net_take(s, net, place), place // ports, cycle)
                elif s[H_DRAM_KIND] == 0 or dram_can_accept(s, s[H_DRAM], place - sources):
                    take_at_channel(s, noc, net_take(s, net, place), place - sources, cycle)
    following = send_answers(s, noc, cycle) if s[H_DOORS_WAITING] > 0 else FAR
    net_step(s, net, cycle)
    s[H_NOC_LAST] = cycle
    time = net_next(s, net, cycle)
    if time < following:
        following = time
    if s[H_BURSTS_WAITING] > 0 or s[net + NET_WAITING] > 0:
        following = cycle + 1
    s[H_NOC_NEXT] = following


@kernel
def dram_answers(s, x):
    """Run the next tick of command-level DRAM; its responses wait for the network."""
    dram = s[H_DRAM]
    noc = s[H_NOC]
    enters = run_dram(s, x)
    for part in range(WHEEL_MASKS):
        mask = s[dram + DC_DONE + part]
        s[dram + DC_DONE + part] = 0
        while mask != 0:
            channel = 32 * part + trailing_zeros(mask)
            mask &= mask - 1
            node = dram_take(s, dram, channel)
            while node != NIL:
                answer(s, noc, channel, node, enters)
                node = dram_take(s, dram, channel)
