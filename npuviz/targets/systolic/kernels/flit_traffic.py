"""Requests and responses over the flit-level network, whatever the DRAM.

One call of `flit_cycle` is one cycle of the network clock (Ref: systolic.md section 3.6): cores send
and take at their ports, channels take and answer, then the network has its own cycle. A packet's
payload is the node of the pool that holds the request.
"""

from numba import int64

from npuviz.sim.dram.command_kernels import dram_can_accept, dram_take
from npuviz.sim.dram.records_kernels import NIL, REQUEST_NODE, WHEEL_MASKS, dram_at
from npuviz.sim.dram.simple_kernels import SIMPLE_DRAM, dram_accept, dram_arrive
from npuviz.sim.network.flit_kernels import net_can_inject, net_inject, net_next, net_step, net_take
from npuviz.sim.network.records_kernels import (
    READ_REPLY,
    READ_REQUEST,
    WRITE_REPLY,
    WRITE_REQUEST,
    network_at,
)
from npuviz.sim.network.simple_kernels import LOW_MASK, NOC, allocate_node, free_node
from npuviz.sim.parts.bits_kernels import kernel, trailing_zeros
from npuviz.sim.parts.record_kernels import word_of
from npuviz.targets.systolic.kernels.records import BURST, CORE, ENTRY, FAR
from npuviz.targets.systolic.kernels.replies import CORE_MASK, STORE_FLAG, deliver, run_dram
from npuviz.targets.systolic.kernels.traffic import (
    channel_of,
    enter_row,
    finish_burst,
    give,
    place_node,
    queue_at_door,
    store_payload,
    take_from_door,
    tick_behind,
)


@kernel
def send_one(machine, c, port, cycle, now):
    """Let the head of a core's request list enter at a port, if the port's source queue has room."""
    chip = machine.chip
    core = CORE(chip, chip.cores + c * chip.core_words)
    noc = NOC(chip, chip.noc)
    network = network_at(chip, chip.net)
    place = c * chip.burst_capacity + core.burst_head
    burst = BURST(chip, chip.bursts, place)
    entry = burst.entry
    entry_of_entry = ENTRY(chip, entry)
    kind = READ_REQUEST if entry != 0 else WRITE_REQUEST
    source = c * chip.ports + port
    if not net_can_inject(network, source, kind):
        return
    if core.request < 0:
        enter_row(machine, core, burst, (int64(0), int64(0)), int64(-1))
        core.burst_start = now
    address = core.request
    if address >= 0:
        node = allocate_node(chip, noc)
        word = noc.pool + node * noc.stride
        chip[word] = entry if entry != 0 else store_payload(machine, burst, c)
        place_node(chip, noc, node, address)
        target = chip.cores_count * chip.ports + channel_of(machine, address)
        net_inject(network, source, (target, kind, node), cycle)
        if entry != 0:
            entry_of_entry.left += 1
            chip.reads += 1
        else:
            chip.writes_out += 1
            chip.writes += 1
        core.requested += 1
        core.request = address + chip.request_bytes
        if core.request >= core.request_end:
            core.request_last = address
            enter_row(machine, core, burst, (core.request_i, core.request_j + 1), address)
    if core.request < 0:
        finish_burst(machine, c, burst, now)


@kernel
def take_at_core(chip, noc, node, c, cycle):
    """Deliver a response to its core."""
    word = noc.pool + node * noc.stride
    entry = ENTRY(chip, (chip[word] & LOW_MASK))
    free_node(chip, noc, node)
    deliver(chip, word_of(chip, entry), c, cycle)


@kernel
def answer(chip, noc, channel, node, enters):
    """Put a response into its channel's list; it enters the network in cycle `enters` or later."""
    request = REQUEST_NODE(chip, noc.pool + node * noc.stride)
    request.time = enters
    queue_at_door(chip, noc, channel, node)
    if enters < chip.noc_next:
        chip.noc_next = enters


@kernel
def take_at_channel(chip, noc, node, channel, cycle):
    """Hand a request to its channel's DRAM."""
    if chip.dram_kind == 1:
        give(chip, noc, channel, node, tick_behind(chip, cycle))
        return
    word = noc.pool + node * noc.stride
    enters = dram_accept(SIMPLE_DRAM(chip, chip.dram), channel, chip[word] & STORE_FLAG != 0)
    answer(chip, noc, channel, node, enters)


@kernel
def send_answers(chip, noc, cycle):
    """Inject one response per channel into the network; returns the next cycle in which another may enter."""
    network = network_at(chip, chip.net)
    ports = chip.ports
    sources = chip.cores_count * ports
    following = FAR
    for channel in range(chip.channels):
        door = chip.doors[0] + 2 * channel
        node = chip[door]
        if node == NIL:
            continue
        request = REQUEST_NODE(chip, noc.pool + node * noc.stride)
        time = request.time
        if time <= cycle:
            time = cycle + 1
            payload = request[0] & LOW_MASK
            entry = ENTRY(chip, payload)
            is_read = payload & STORE_FLAG == 0
            kind = READ_REPLY if is_read else WRITE_REPLY
            if net_can_inject(network, sources + channel, kind):
                c = entry.core if is_read else payload & CORE_MASK
                take_from_door(chip, noc, channel)
                packet = (c * ports + channel % ports, kind, node)
                net_inject(network, sources + channel, packet, cycle)
                if chip[door] == NIL:
                    continue
        if time < following:
            following = time
    return following


@kernel
def flit_cycle(machine, cycle, now):
    """Run one cycle of the network, in core cycle `now`. Sets `noc_next` of the chip."""
    chip = machine.chip
    noc = NOC(chip, chip.noc)
    network = network_at(chip, chip.net)
    ports = chip.ports
    sources = chip.cores_count * ports
    if chip.bursts_waiting > 0:
        for part in range((chip.cores_count + 63) >> 6):
            sending = chip[chip.sending + part]
            while sending != 0:
                c = 64 * part + trailing_zeros(sending)
                sending &= sending - 1
                core = CORE(chip, chip.cores + c * chip.core_words)
                port = 0
                while port < ports and core.burst_count > 0:
                    send_one(machine, c, port, cycle, now)
                    port += 1
    if network.net.waiting > 0:
        if chip.dram_kind == 0:
            dram_arrive(SIMPLE_DRAM(chip, chip.dram), cycle * chip.noc_period)
        for index in range(network.net.node_masks):
            ready = chip[network.net.ready + index]
            while ready != 0:
                place = 64 * index + trailing_zeros(ready)
                ready &= ready - 1
                if place < sources:
                    take_at_core(chip, noc, net_take(network, place), place // ports, cycle)
                elif chip.dram_kind == 0 or dram_can_accept(dram_at(chip, chip.dram), place - sources):
                    take_at_channel(chip, noc, net_take(network, place), place - sources, cycle)
    following = send_answers(chip, noc, cycle) if chip.doors_waiting > 0 else FAR
    net_step(network, cycle)
    chip.noc_last = cycle
    time = net_next(network, cycle)
    if time < following:
        following = time
    if chip.bursts_waiting > 0 or network.net.waiting > 0:
        following = cycle + 1
    chip.noc_next = following


@kernel
def dram_answers(machine):
    """Run the next tick of command-level DRAM; its responses wait for the network."""
    chip = machine.chip
    dram = dram_at(chip, chip.dram)
    noc = NOC(chip, chip.noc)
    enters = run_dram(machine)
    for part in range(WHEEL_MASKS):
        mask = dram.device.done[part]
        dram.device.done[part] = 0
        while mask != 0:
            channel = 32 * part + trailing_zeros(mask)
            mask &= mask - 1
            node = dram_take(dram, channel)
            while node != NIL:
                answer(chip, noc, channel, node, enters)
                node = dram_take(dram, channel)
