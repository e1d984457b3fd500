"""One channel of command-level DRAM: which command to issue in a tick, and when to look again.

Ref: systolic.md section 8: banks, rows and timing rules, first-ready first-come scheduling with an
active buffer, write mode by watermarks, refresh.
"""

from numba import int64

from npuviz.sim.dram.buffer_kernels import (
    close_row,
    count_oldest_other,
    open_row,
    remove_hit,
    stamps_of,
    take_front,
)
from npuviz.sim.dram.queue_kernels import node_word, push_pending, respond, take_head
from npuviz.sim.dram.records_kernels import (
    ACT,
    BANK_ACTIVE,
    BANK_STAMP,
    BANK_UNITS,
    BANK_WORDS,
    BANK_WRITE,
    CC_ACTIVE,
    CC_BANKS,
    CC_COMMANDS,
    CC_COUNTS,
    CC_EARLIEST,
    CC_FRONT_HEAD,
    CC_GROUPS,
    CC_HELD,
    CC_HITS,
    CC_ISSUE_AT,
    CC_LAST,
    CC_NEXT,
    CC_OPEN,
    CC_OTHERS,
    CC_PENDING_HEAD,
    CC_PENDING_TAIL,
    CC_REFRESH,
    CC_REFRESH_AT,
    CC_REFRESHED,
    CC_ROW,
    CC_TIMES,
    CC_UNITS,
    CC_WAS,
    CC_WRITING,
    DC_BANK_BITS,
    DC_BANKS,
    DC_FEW,
    DC_GROUPS,
    DC_INTERVAL,
    DC_MANY,
    DC_RANK_BANKS,
    DC_RANKS,
    DC_READ_LATENCY,
    DC_RULES,
    DC_SIBLING_RULES,
    DC_SIBLINGS,
    DC_WINDOW,
    NEVER,
    NIL,
    NODE_TIME,
    PRE,
    PREA,
    RANK_RING,
    RANK_TURN,
    RANK_WORDS,
    RD,
    REF,
    RULE_AFTER,
    RULE_CYCLES,
    RULE_LEVEL,
    RULE_WORDS,
)
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros

# --- issue ------------------------------------------------------------------------------------------


@inlined
def delay(s, word, time):
    """Raise an earliest time."""
    if s[word] < time:
        s[word] = time


@kernel
def delay_siblings(s, dram, c, own, command, clk):
    """Rules between the ranks of a channel; `own` is the word of the rank that the command goes to."""
    index = dram + DC_SIBLING_RULES + 2 * command
    for rank in range(s[dram + DC_RANKS]):
        unit = s[c + CC_UNITS] + rank * RANK_WORDS
        rule = s[index]
        if unit != own:
            for _ in range(s[index + 1]):
                delay(s, unit + s[rule + RULE_AFTER], clk + s[rule + RULE_CYCLES])
                rule += RULE_WORDS


@kernel
def issue(s, dram, c, bank_word, command, clk):
    """Apply the timing rules of a command to a bank (or, of PREA and REF, to the rank of a bank)."""
    s[c + CC_COMMANDS + command] += 1
    index = dram + DC_RULES + 2 * command
    rule = s[index]
    for _ in range(s[index + 1]):
        word = s[bank_word + s[rule + RULE_LEVEL]] + s[rule + RULE_AFTER]
        delay(s, word, clk + s[rule + RULE_CYCLES])
        rule += RULE_WORDS
    if s[dram + DC_SIBLINGS] == 1:
        delay_siblings(s, dram, c, s[bank_word + BANK_UNITS + 1], command, clk)


@inlined
def count_first(s, c, key, kind):
    """Count a request as hit (0), miss (1) or conflict (2) at its first command."""
    if key & 1 == 0:
        s[c + CC_ROW + kind] += 1


@kernel
def flush_pending(s, dram, c, tick):
    """Reads whose data have come by `tick` respond."""
    while s[c + CC_PENDING_HEAD] != NIL:
        node = s[c + CC_PENDING_HEAD]
        time = s[node_word(s, dram, node) + NODE_TIME]
        if time > tick:
            break
        take_head(s, dram, c + CC_PENDING_HEAD, c + CC_PENDING_TAIL)
        respond(s, dram, c, node, time)


@kernel
def access(s, dram, c, bank, bank_word, node, command, tick):
    """Issue RD or WR for a request that has left its buffer."""
    issue(s, dram, c, bank_word, command, tick + 1)
    s[s[c + CC_COUNTS] + s[dram + DC_BANKS] + bank] += 1
    if command == RD:
        # Due at clock tick + 1 + latency, and a tick's responses leave after its clock has advanced.
        push_pending(s, dram, c, node, tick + s[dram + DC_READ_LATENCY])
    else:
        flush_pending(s, dram, c, tick)
        respond(s, dram, c, node, tick)


@kernel
def activate(s, dram, c, bank, bank_word, buffer, key, tick):
    """Issue ACT for the oldest request of a closed bank, which moves on to the active buffer."""
    node = open_row(s, dram, c, bank, buffer)
    count_first(s, c, key, int64(1))
    clk = tick + 1
    issue(s, dram, c, bank_word, int64(ACT), clk)
    if s[dram + DC_WINDOW] > 0:
        rank = s[bank_word + BANK_UNITS + 1]
        turn = s[rank + RANK_TURN]
        s[rank + RANK_RING + turn] = clk
        turn = (turn + 1) & 3
        s[rank + RANK_TURN] = turn
        delay(s, rank + ACT, s[rank + RANK_RING + turn] + s[dram + DC_WINDOW])
    s[s[c + CC_COUNTS] + bank] += 1
    s[bank_word + BANK_ACTIVE] = node
    s[bank_word + BANK_STAMP] = key
    s[bank_word + BANK_WRITE] = buffer
    s[c + CC_ACTIVE] |= 1 << bank
    s[c + CC_OPEN] |= 1 << bank


@kernel
def precharge(s, dram, c, bank, bank_word, buffer, key, tick):
    """Issue PRE for a bank, unless its activated request is not served yet."""
    if s[c + CC_ACTIVE] >> bank & 1 == 1:
        return
    count_first(s, c, key, int64(2))
    count_oldest_other(s, dram, c, bank, buffer)
    issue(s, dram, c, bank_word, int64(PRE), tick + 1)
    s[c + CC_OPEN] &= ~(1 << bank)
    close_row(s, dram, c, bank)


@kernel
def refresh(s, dram, c, tick):
    """Serve the first rank in need of a refresh that can be served; returns the clock of the next chance.

    A rank's banks are closed first, once their activated requests are served.
    """
    clk = tick + 1
    soonest = NEVER
    banks = s[dram + DC_RANK_BANKS]
    waiting = s[c + CC_REFRESH]
    while waiting != 0:
        rank = trailing_zeros(waiting)
        waiting &= waiting - 1
        bank_word = s[c + CC_BANKS] + rank * banks * BANK_WORDS
        mask = ((1 << banks) - 1) << (rank * banks)
        command = PREA if s[c + CC_OPEN] & mask else REF
        time = s[c + CC_EARLIEST + command]
        own = s[s[bank_word + BANK_UNITS + 1] + command]
        if own > time:
            time = own
        if time > clk:
            if time < soonest:
                soonest = time
            continue
        if command == REF:
            issue(s, dram, c, bank_word, int64(REF), clk)
            s[c + CC_REFRESH] &= ~(1 << rank)
            s[c + CC_REFRESHED] += 1
        elif s[c + CC_ACTIVE] & mask == 0:
            issue(s, dram, c, bank_word, int64(PREA), clk)
            s[c + CC_OPEN] &= ~mask
            for bank in range(rank * banks, (rank + 1) * banks):
                close_row(s, dram, c, bank)
        return clk + 1
    return soonest


# --- choice -----------------------------------------------------------------------------------------


@kernel
def oldest_ready(s, dram, c, banks, command, stamps, clk):
    """Among `banks` (a mask) the one with the smallest stamp that allows a command now.

    Bank 0's stamp is at word `stamps`, the others' behind it. Returns (bank or -1, its stamp or NEVER,
    earliest clock beyond `clk` from which another one may allow it).
    """
    best = -1
    best_stamp = NEVER
    soonest = NEVER
    if banks != 0:
        time = s[c + CC_EARLIEST + command]
        if time > clk:
            soonest = time
        else:
            size = s[dram + DC_RANK_BANKS]
            low = (1 << size) - 1
            times = s[c + CC_TIMES] + command * s[dram + DC_BANKS]
            groups = s[c + CC_GROUPS] + command * s[dram + DC_GROUPS]
            bits = s[dram + DC_BANK_BITS]
            rank = s[c + CC_UNITS] + command
            first = 0
            while banks >> first != 0:
                mask = banks & (low << first)
                time = s[rank]
                rank += RANK_WORDS
                first += size
                if mask != 0 and time > clk:
                    if time < soonest:
                        soonest = time
                    mask = 0
                while mask != 0:
                    bank = trailing_zeros(mask)
                    mask &= mask - 1
                    time = s[times + bank]
                    other = s[groups + (bank >> bits)]
                    if other > time:
                        time = other
                    if time > clk:
                        if time < soonest:
                            soonest = time
                    else:
                        stamp = s[stamps + bank]
                        if stamp < best_stamp:
                            best_stamp = stamp
                            best = bank
    return best, best_stamp, soonest


@kernel
def serve_active(s, dram, c, tick):
    """Serve the oldest activated request that can be; returns the clock of the next chance."""
    clk = tick + 1
    best = -1
    best_stamp = NEVER
    soonest = NEVER
    mask = s[c + CC_ACTIVE]
    while mask != 0:
        bank = trailing_zeros(mask)
        mask &= mask - 1
        bank_word = s[c + CC_BANKS] + bank * BANK_WORDS
        command = RD + s[bank_word + BANK_WRITE]
        time = s[s[c + CC_TIMES] + command * s[dram + DC_BANKS] + bank]
        other = s[s[c + CC_GROUPS] + command * s[dram + DC_GROUPS] + (bank >> s[dram + DC_BANK_BITS])]
        if other > time:
            time = other
        other = s[s[bank_word + BANK_UNITS + 1] + command]
        if other > time:
            time = other
        other = s[c + CC_EARLIEST + command]
        if other > time:
            time = other
        if time > clk:
            if time < soonest:
                soonest = time
        elif s[bank_word + BANK_STAMP] < best_stamp:
            best_stamp = s[bank_word + BANK_STAMP]
            best = bank
    if best >= 0:
        bank_word = s[c + CC_BANKS] + best * BANK_WORDS
        command = RD + s[bank_word + BANK_WRITE]
        s[c + CC_ACTIVE] &= ~(1 << best)
        access(s, dram, c, best, bank_word, s[bank_word + BANK_ACTIVE], command, tick)
        s[bank_word + BANK_ACTIVE] = NIL
        soonest = clk
    return soonest


@kernel
def serve_buffer(s, dram, c, buffer, tick):
    """Serve the oldest request of a buffer whose next command can be issued; returns the next chance."""
    clk = tick + 1
    hit_stamps = stamps_of(s, dram, c, buffer, int64(0))
    other_stamps = stamps_of(s, dram, c, buffer, int64(1))
    hits = s[c + CC_HITS + buffer]
    others = s[c + CC_OTHERS + buffer]
    is_open = s[c + CC_OPEN]
    best, best_stamp, soonest = oldest_ready(s, dram, c, hits, RD + buffer, hit_stamps, clk)
    kind = RD + buffer
    bank, stamp, time = oldest_ready(s, dram, c, others & ~is_open, int64(ACT), other_stamps, clk)
    if stamp < best_stamp:
        best, best_stamp, kind = bank, stamp, ACT
    if time < soonest:
        soonest = time
    bank, stamp, time = oldest_ready(s, dram, c, others & is_open, int64(PRE), other_stamps, clk)
    if stamp < best_stamp:
        best, best_stamp, kind = bank, stamp, PRE
    if time < soonest:
        soonest = time
    if best >= 0:
        soonest = clk
        bank_word = s[c + CC_BANKS] + best * BANK_WORDS
        if kind == ACT:
            activate(s, dram, c, best, bank_word, buffer, best_stamp, tick)
        elif kind == PRE:
            precharge(s, dram, c, best, bank_word, buffer, best_stamp, tick)
        else:
            node = remove_hit(s, dram, c, best, buffer)
            count_first(s, c, best_stamp, int64(0))
            access(s, dram, c, best, bank_word, node, kind, tick)
    return soonest


@inlined
def update_mode(s, dram, c):
    """Enter or leave write mode by the watermarks."""
    if s[c + CC_WRITING] == 0:
        if s[c + CC_HELD + 1] > s[dram + DC_MANY] or s[c + CC_HELD] == 0:
            s[c + CC_WRITING] = 1
            s[c + CC_ISSUE_AT] = 0
    elif s[c + CC_HELD + 1] < s[dram + DC_FEW] and s[c + CC_HELD] > 0:
        s[c + CC_WRITING] = 0
        s[c + CC_ISSUE_AT] = 0


# --- a tick -----------------------------------------------------------------------------------------


@kernel
def serve(s, dram, c, tick):
    """Issue a command if one may be issued; returns the clock of the next chance, which is a later one."""
    clk = tick + 1
    soonest = NEVER
    if s[c + CC_ACTIVE] != 0:
        soonest = serve_active(s, dram, c, tick)
    if soonest > clk:
        if s[c + CC_REFRESH] != 0:
            time = refresh(s, dram, c, tick)
        else:
            update_mode(s, dram, c)
            time = serve_buffer(s, dram, c, s[c + CC_WRITING], tick)
        if time < soonest:
            soonest = time
    return soonest if soonest > clk else clk + 1


@kernel
def channel_cycle(s, dram, c, tick):
    """One tick of a channel; sets CC_NEXT. Ticks in between changed nothing."""
    if tick > s[c + CC_LAST] + 1 and s[c + CC_REFRESH] == 0:
        # In the first of the ticks left out nothing could be issued, so the mode was looked at.
        update_mode(s, dram, c)
    s[c + CC_LAST] = tick
    s[c + CC_WAS] = s[c + CC_HELD]
    s[c + CC_WAS + 1] = s[c + CC_HELD + 1]
    is_blocked = False
    if s[c + CC_FRONT_HEAD] != NIL and s[node_word(s, dram, s[c + CC_FRONT_HEAD]) + NODE_TIME] <= tick:
        is_blocked = not take_front(s, dram, c, tick)
    flush_pending(s, dram, c, tick)
    interval = s[dram + DC_INTERVAL]
    following = NEVER
    if interval > 0:
        if tick + 1 >= s[c + CC_REFRESH_AT]:
            s[c + CC_REFRESH] = (1 << s[dram + DC_RANKS]) - 1
            s[c + CC_REFRESH_AT] += interval
            s[c + CC_ISSUE_AT] = 0
        following = s[c + CC_REFRESH_AT]
    clk = tick + 1
    if s[c + CC_ISSUE_AT] > clk and s[c + CC_REFRESH] == 0:
        update_mode(s, dram, c)
    if s[c + CC_ISSUE_AT] <= clk:
        s[c + CC_ISSUE_AT] = serve(s, dram, c, tick)
    soonest = s[c + CC_ISSUE_AT]
    if soonest < following:
        following = soonest
    # From clocks to ticks.
    following -= 1
    if s[c + CC_FRONT_HEAD] != NIL and not is_blocked:
        time = s[node_word(s, dram, s[c + CC_FRONT_HEAD]) + NODE_TIME]
        if time <= tick:
            time = tick + 1
        if time < following:
            following = time
    if s[c + CC_PENDING_HEAD] != NIL:
        time = s[node_word(s, dram, s[c + CC_PENDING_HEAD]) + NODE_TIME]
        if time < following:
            following = time
    s[c + CC_NEXT] = following
