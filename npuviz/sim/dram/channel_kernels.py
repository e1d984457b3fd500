"""Simulate one channel of command-level DRAM: which command to issue in a tick, and when to look again.

Ref: systolic.md section 8: banks, rows and timing rules, first-ready first-come scheduling with an
active buffer, write mode by watermarks, refresh.
"""

from typing import Any, NamedTuple

from numba import int64

from npuviz.sim.dram.buffer_kernels import (
    close_row,
    count_oldest_other,
    open_row,
    remove_hit,
    stamps_of,
    take_front,
)
from npuviz.sim.dram.queue_kernels import push_pending, request_of, respond, take_head
from npuviz.sim.dram.records_kernels import (
    ACT,
    BANK,
    CHANNEL,
    LIST,
    NEVER,
    NIL,
    PRE,
    PREA,
    RANK,
    RD,
    REF,
    RULE,
)
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros


class Bank(NamedTuple):
    """A bank of a channel."""

    channel: Any
    """Row CHANNEL."""
    number: Any
    row: Any
    """Row BANK."""


@inlined
def bank_at(words, channel, number):
    """Return a bank by its number."""
    return Bank(channel, number, BANK(words, channel.banks, number))


# --- issue ------------------------------------------------------------------------------------------


@inlined
def delay(s, word, time):
    """Raise the earliest time in a word to `time`."""
    if s[word] < time:
        s[word] = time


@kernel
def delay_siblings(dram, channel, own, command, clk):
    """Apply a command's rules for the other ranks of the channel; `own` is the word of the rank that it goes
    to."""
    words, device = dram.words, dram.device
    first = device.sibling_rules[command].first
    count = device.sibling_rules[command].count
    for rank in range(device.ranks):
        unit = channel.units + rank * RANK.num_words
        if unit != own:
            for index in range(count):
                rule = RULE(words, first, index)
                delay(words, unit + rule.after, clk + rule.cycles)


@kernel
def issue(dram, channel, bank_row, command, clk):
    """Apply the timing rules of a command to its bank (for PREA and REF: to the rank of that bank)."""
    words, device = dram.words, dram.device
    channel.commands[command] += 1
    first = device.rules[command].first
    for index in range(device.rules[command].count):
        rule = RULE(words, first, index)
        word = bank_row[rule.level] + rule.after
        delay(words, word, clk + rule.cycles)
    if device.siblings == 1:
        delay_siblings(dram, channel, bank_row.units[1], command, clk)


@inlined
def count_first(channel, key, kind):
    """Count a request as hit (kind 0), miss (1) or conflict (2) at its first command, if it is not counted
    yet."""
    if key & 1 == 0:
        channel.row[kind] += 1


@kernel
def flush_pending(dram, channel, tick):
    """Let reads respond whose data have arrived by `tick`."""
    while channel.pending_head != NIL:
        node = channel.pending_head
        time = request_of(dram, node).time
        if time > tick:
            break
        take_head(dram, LIST(channel, CHANNEL.pending_head))
        respond(dram, channel, node, time)


@kernel
def access(dram, bank, node, command, tick):
    """Issue RD or WR for a request that has left its buffer."""
    device, channel = dram.device, bank.channel
    issue(dram, channel, bank.row, command, tick + 1)
    dram.words[channel.counts + device.banks + bank.number] += 1
    if command == RD:
        # Due at clock tick + 1 + latency, and a tick's responses leave after its clock has advanced.
        push_pending(dram, channel, node, tick + device.read_latency)
    else:
        flush_pending(dram, channel, tick)
        respond(dram, channel, node, tick)


@kernel
def activate(dram, bank, buffer, key, tick):
    """Issue ACT for the oldest request of a closed bank and make it the bank's activated request."""
    words, device = dram.words, dram.device
    channel, number, bank_row = bank
    node = open_row(dram, channel, number, buffer)
    count_first(channel, key, int64(1))
    clk = tick + 1
    issue(dram, channel, bank_row, int64(ACT), clk)
    if device.window > 0:
        rank = RANK(words, bank_row.units[1])
        turn = rank.turn
        rank.ring[turn] = clk
        turn = (turn + 1) & 3
        rank.turn = turn
        time = rank.ring[turn] + device.window
        if rank.earliest[ACT] < time:
            rank.earliest[ACT] = time
    words[channel.counts + number] += 1
    bank_row.active = node
    bank_row.stamp = key
    bank_row.write = buffer
    channel.active |= 1 << number
    channel.open |= 1 << number


@kernel
def precharge(dram, bank, buffer, key, tick):
    """Issue PRE for a bank, unless its activated request has not been served yet."""
    channel, number = bank.channel, bank.number
    if channel.active >> number & 1 == 1:
        return
    count_first(channel, key, int64(2))
    count_oldest_other(dram, channel, number, buffer)
    issue(dram, channel, bank.row, int64(PRE), tick + 1)
    channel.open &= ~(1 << number)
    close_row(dram, channel, number)


@kernel
def refresh(dram, channel, tick):
    """Serve the first rank that needs a refresh and can be served; return the clock of the next chance.

    A rank's banks are closed first, once their activated requests are served.
    """
    words = dram.words
    clk = tick + 1
    soonest = NEVER
    banks = dram.device.rank_banks
    waiting = channel.refresh
    while waiting != 0:
        rank = trailing_zeros(waiting)
        waiting &= waiting - 1
        bank_row = BANK(words, channel.banks, rank * banks)
        mask = ((1 << banks) - 1) << (rank * banks)
        command = PREA if channel.open & mask else REF
        time = channel.earliest[command]
        own = words[bank_row.units[1] + command]
        if own > time:
            time = own
        if time > clk:
            if time < soonest:
                soonest = time
            continue
        if command == REF:
            issue(dram, channel, bank_row, int64(REF), clk)
            channel.refresh &= ~(1 << rank)
            channel.refreshed += 1
        elif channel.active & mask == 0:
            issue(dram, channel, bank_row, int64(PREA), clk)
            channel.open &= ~mask
            for bank in range(rank * banks, (rank + 1) * banks):
                close_row(dram, channel, bank)
        return clk + 1
    return soonest


# --- choice -----------------------------------------------------------------------------------------


@kernel
def oldest_ready(dram, channel, among, command, clk):
    """Find the bank with the smallest stamp that allows a command now.

    among  a mask of banks, and the word of bank 0's stamp, which those of the other banks follow
    Returns (bank or -1, its stamp or NEVER, earliest clock after `clk` at which another bank may allow it).
    """
    banks, stamps = among
    words, device = dram.words, dram.device
    best = -1
    best_stamp = NEVER
    soonest = NEVER
    if banks != 0:
        time = channel.earliest[command]
        if time > clk:
            soonest = time
        else:
            size = device.rank_banks
            low = (1 << size) - 1
            times = channel.times + command * device.banks
            groups = channel.groups + command * device.groups
            bits = device.bank_bits
            rank = channel.units + command
            first = 0
            while banks >> first != 0:
                mask = banks & (low << first)
                time = words[rank]
                rank += RANK.num_words
                first += size
                if mask != 0 and time > clk:
                    if time < soonest:
                        soonest = time
                    mask = 0
                while mask != 0:
                    bank = trailing_zeros(mask)
                    mask &= mask - 1
                    time = words[times + bank]
                    other = words[groups + (bank >> bits)]
                    if other > time:
                        time = other
                    if time > clk:
                        if time < soonest:
                            soonest = time
                    else:
                        stamp = words[stamps + bank]
                        if stamp < best_stamp:
                            best_stamp = stamp
                            best = bank
    return best, best_stamp, soonest


@kernel
def serve_active(dram, channel, tick):
    """Serve the oldest activated request that can be served; return the clock of the next chance."""
    words, device = dram.words, dram.device
    clk = tick + 1
    best = -1
    best_stamp = NEVER
    soonest = NEVER
    mask = channel.active
    while mask != 0:
        bank = trailing_zeros(mask)
        mask &= mask - 1
        bank_row = BANK(words, channel.banks, bank)
        command = RD + bank_row.write
        time = words[channel.times + command * device.banks + bank]
        other = words[channel.groups + command * device.groups + (bank >> device.bank_bits)]
        if other > time:
            time = other
        other = words[bank_row.units[1] + command]
        if other > time:
            time = other
        other = channel.earliest[command]
        if other > time:
            time = other
        if time > clk:
            if time < soonest:
                soonest = time
        elif bank_row.stamp < best_stamp:
            best_stamp = bank_row.stamp
            best = bank
    if best >= 0:
        chosen = bank_at(words, channel, best)
        channel.active &= ~(1 << best)
        access(dram, chosen, chosen.row.active, RD + chosen.row.write, tick)
        chosen.row.active = NIL
        soonest = clk
    return soonest


@kernel
def serve_buffer(dram, channel, buffer, tick):
    """Serve the oldest request of a buffer whose next command can be issued; return the clock of the next
    chance."""
    device = dram.device
    clk = tick + 1
    hit_stamps = stamps_of(device, channel, buffer, int64(0))
    other_stamps = stamps_of(device, channel, buffer, int64(1))
    hits = channel.hits[buffer]
    others = channel.others[buffer]
    is_open = channel.open
    best, best_stamp, soonest = oldest_ready(dram, channel, (hits, hit_stamps), RD + buffer, clk)
    kind = RD + buffer
    bank, stamp, time = oldest_ready(dram, channel, (others & ~is_open, other_stamps), int64(ACT), clk)
    if stamp < best_stamp:
        best, best_stamp, kind = bank, stamp, ACT
    if time < soonest:
        soonest = time
    bank, stamp, time = oldest_ready(dram, channel, (others & is_open, other_stamps), int64(PRE), clk)
    if stamp < best_stamp:
        best, best_stamp, kind = bank, stamp, PRE
    if time < soonest:
        soonest = time
    if best >= 0:
        soonest = clk
        chosen = bank_at(dram.words, channel, best)
        if kind == ACT:
            activate(dram, chosen, buffer, best_stamp, tick)
        elif kind == PRE:
            precharge(dram, chosen, buffer, best_stamp, tick)
        else:
            node = remove_hit(dram, channel, best, buffer)
            count_first(channel, best_stamp, int64(0))
            access(dram, chosen, node, kind, tick)
    return soonest


@inlined
def update_mode(device, channel):
    """Enter or leave write mode by the watermarks."""
    if channel.writing == 0:
        if channel.held[1] > device.many or channel.held[0] == 0:
            channel.writing = 1
            channel.issue_at = 0
    elif channel.held[1] < device.few and channel.held[0] > 0:
        channel.writing = 0
        channel.issue_at = 0


# --- a tick -----------------------------------------------------------------------------------------


@kernel
def serve(dram, channel, tick):
    """Issue a command if one may be issued; return the clock of the next chance, always a later one."""
    clk = tick + 1
    soonest = NEVER
    if channel.active != 0:
        soonest = serve_active(dram, channel, tick)
    if soonest > clk:
        if channel.refresh != 0:
            time = refresh(dram, channel, tick)
        else:
            update_mode(dram.device, channel)
            time = serve_buffer(dram, channel, channel.writing, tick)
        if time < soonest:
            soonest = time
    return soonest if soonest > clk else clk + 1


@kernel
def channel_cycle(dram, channel, tick):
    """Run one tick of a channel and set its `next`. The ticks left out before it changed nothing but the
    mode."""
    device = dram.device
    if tick > channel.last + 1 and channel.refresh == 0:
        # In the first tick left out no command could be issued, so that only the mode was updated.
        update_mode(device, channel)
    channel.last = tick
    channel.was[0] = channel.held[0]
    channel.was[1] = channel.held[1]
    is_blocked = False
    if channel.front_head != NIL and request_of(dram, channel.front_head).time <= tick:
        is_blocked = not take_front(dram, channel, tick)
    flush_pending(dram, channel, tick)
    interval = device.interval
    following = NEVER
    if interval > 0:
        if tick + 1 >= channel.refresh_at:
            channel.refresh = (1 << device.ranks) - 1
            channel.refresh_at += interval
            channel.issue_at = 0
        following = channel.refresh_at
    clk = tick + 1
    if channel.issue_at > clk and channel.refresh == 0:
        update_mode(device, channel)
    if channel.issue_at <= clk:
        channel.issue_at = serve(dram, channel, tick)
    soonest = channel.issue_at
    if soonest < following:
        following = soonest
    # Convert clocks to ticks.
    following -= 1
    if channel.front_head != NIL and not is_blocked:
        time = request_of(dram, channel.front_head).time
        if time <= tick:
            time = tick + 1
        if time < following:
            following = time
    if channel.pending_head != NIL:
        time = request_of(dram, channel.pending_head).time
        if time < following:
            following = time
    channel.next = following
