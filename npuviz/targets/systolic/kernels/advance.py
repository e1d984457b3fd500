"""The machine's main loop: from event to event until it has to stop.

Three clocks, times in picoseconds; at equal time CORE runs before NOC (the DRAM's cycle between them
needs no event of its own, see npuviz.sim.dram.simple_kernels). Cycles in which nothing changes are
never visited.
"""

from numba import int64

from npuviz.sim.dram.command_kernels import dram_is_busy
from npuviz.sim.dram.records_kernels import DC_NEXT
from npuviz.sim.network.flit_kernels import net_room
from npuviz.sim.network.simple_kernels import NOC_CAPACITY, NOC_LATENCY, NOC_LIVE, NOC_SOURCES
from npuviz.sim.parts.bits_kernels import entry, inlined, kernel, pointer_to
from npuviz.sim.parts.watch_kernels import X_CAPACITY, X_EVENTS, X_UNTIL
from npuviz.targets.systolic.kernels.core import core_cycle
from npuviz.targets.systolic.kernels.flit_traffic import dram_answers, flit_cycle
from npuviz.targets.systolic.kernels.records import (
    FAR,
    FAULT_HANG,
    FREE_BURSTS,
    H_BURST_CAPACITY,
    H_BURSTS_TIGHT,
    H_BURSTS_WAITING,
    H_CHANNELS,
    H_CORE_PERIOD,
    H_CORE_WORDS,
    H_CORES,
    H_CORES_COUNT,
    H_CYCLE,
    H_DRAM,
    H_DRAM_KIND,
    H_DRAM_PERIOD,
    H_FINAL,
    H_LAST_ACK,
    H_LAST_BUSY,
    H_LAUNCH,
    H_LAUNCHES_TOTAL,
    H_LAYER,
    H_LAYERS_DONE,
    H_LAYERS_LEFT,
    H_LAYERS_TOTAL,
    H_NET,
    H_NET_FLITS,
    H_NOC,
    H_NOC_NEXT,
    H_NOC_PERIOD,
    H_NOC_SHIFT,
    H_PORTS,
    H_REPLY_QUEUED,
    H_SCHED,
    H_SCHEDULER_WAKE,
    H_STATUS,
    H_WAKE,
    H_WAKES,
    H_WRITES_OUT,
    K_BURST_COUNT,
    K_FINISHED,
    K_GEMM_COUNT,
    K_NEXT_TILE,
    K_TILES,
    K_USED,
    K_VEC,
    RESULT_EVENTS,
    RESULT_FAULT,
    RESULT_FINISHED,
    RESULT_GROW_BURSTS,
    RESULT_GROW_FLITS,
    RESULT_GROW_POOL,
    RESULT_UNTIL,
    STATUS_FAULT,
    STATUS_FINISHED,
    STATUS_RUNNING,
)
from npuviz.targets.systolic.kernels.replies import dram_responses
from npuviz.targets.systolic.kernels.runtime_scheduler import count_polls, end_cycle, poll
from npuviz.targets.systolic.kernels.scheduler import scheduler_cycle
from npuviz.targets.systolic.kernels.sram import empty_half, fault
from npuviz.targets.systolic.kernels.traffic import lone_cycles, noc_cycle


@inlined
def first_wake(s):
    """Earliest core cycle in which the scheduler or a core has something to do."""
    wake = s[H_SCHEDULER_WAKE]
    wakes = s[H_WAKES]
    for c in range(s[H_CORES_COUNT]):
        if s[wakes + c] < wake:
            wake = s[wakes + c]
    return wake


@kernel
def run_cores(s, p, x, ev, t):
    """Core cycle `t` of the whole chip: the scheduler, then the cores in order."""
    is_simple = s[H_SCHED] == 0
    if not is_simple:
        count_polls(s, t)
    if s[H_SCHEDULER_WAKE] <= t:
        scheduler_cycle(s, p, x, ev, t)
    wakes = s[H_WAKES]
    for c in range(s[H_CORES_COUNT]):
        if s[wakes + c] <= t:
            core_cycle(s, p, x, ev, c, t)
            k = s[H_CORES] + c * s[H_CORE_WORDS]
            if s[k + K_TILES] + s[k + K_FINISHED] + s[k + K_GEMM_COUNT] > 0 or s[k + K_VEC] >= 0:
                s[H_LAST_BUSY] = t
        elif not is_simple:
            k = s[H_CORES] + c * s[H_CORE_WORDS]
            if s[k + K_TILES] < 2 and s[k + K_NEXT_TILE] < 0:
                poll(s, p, x, c, t)
    if not is_simple:
        end_cycle(s, p, t)
    s[H_WAKE] = first_wake(s)


@kernel
def has_burst_room(s):
    """Whether every core can add its bursts of one cycle."""
    if s[H_BURSTS_TIGHT] == 0:
        return True
    for c in range(s[H_CORES_COUNT]):
        k = s[H_CORES] + c * s[H_CORE_WORDS]
        if s[k + K_BURST_COUNT] + FREE_BURSTS > s[H_BURST_CAPACITY]:
            return False
    s[H_BURSTS_TIGHT] = 0
    return True


@inlined
def is_over(s):
    """Whether all layers have ended and all writes are acknowledged."""
    return (
        s[H_LAYERS_DONE] >= s[H_LAYERS_TOTAL]
        and s[H_LAUNCH] >= s[H_LAUNCHES_TOTAL]
        and s[H_WRITES_OUT] == 0
        and s[H_BURSTS_WAITING] == 0
    )


@kernel
def settle(s, x, ev):
    """Nothing is left to do: either the run ends at a known cycle, or the machine hangs."""
    if s[H_LAYER] >= 0 or s[H_LAYERS_LEFT] > 0 or s[H_LAUNCH] < s[H_LAUNCHES_TOTAL]:
        fault(s, int64(-1), int64(FAULT_HANG), int64(-1))
        return
    final = s[H_LAST_BUSY] + 1
    if s[H_LAST_ACK] >= 0:
        acknowledged = s[H_LAST_ACK] // s[H_CORE_PERIOD] + 1
        if final < acknowledged:
            final = acknowledged
    s[H_FINAL] = final


@kernel
def finish(s, x, ev):
    """Close the run: what is still in scratchpads and accumulators ends its life."""
    s[H_STATUS] = STATUS_FINISHED
    s[H_CYCLE] = s[H_FINAL]
    for c in range(s[H_CORES_COUNT]):
        k = s[H_CORES] + c * s[H_CORE_WORDS]
        for half in range(4):
            s[k + K_USED + half] = 0
            empty_half(s, x, ev, c, k, half, s[H_FINAL])


def _make_advance(has_network):
    """The kernel for machines with a flit-level network, or for those without.

    What a machine does not have is left out of its kernel: compiling both takes a third longer.
    """

    @entry
    def advance(state, program, transient, events, margin):
        """Run until cycle x[X_UNTIL], a hit, a fault, the end, or until a buffer needs more room.

        state      (words,) int64    changed   root state
        program    (words,) int64    read      program words
        transient  (words,) int64    changed   stop rows, hits, number of event rows
        events     (rows * 4,) int64 changed   event rows
        margin                       int       event rows one core cycle may need
        Returns a RESULT_ code. Whole cycles only: the state is that of cycle state[H_CYCLE].
        """
        s, p = pointer_to(state), pointer_to(program)
        x, ev = pointer_to(transient), pointer_to(events)
        if s[H_STATUS] != STATUS_RUNNING:
            return RESULT_FINISHED if s[H_STATUS] == STATUS_FINISHED else RESULT_FAULT
        core_period = s[H_CORE_PERIOD]
        noc_period = s[H_NOC_PERIOD]
        result = RESULT_UNTIL
        noc = s[H_NOC]
        is_detailed = s[H_DRAM_KIND] == 1
        dram = s[H_DRAM]
        dram_period = s[H_DRAM_PERIOD]
        is_lone = s[noc + NOC_SOURCES] == 1 and s[noc + NOC_LATENCY] == 1 and s[H_REPLY_QUEUED] == 1
        net = s[H_NET]
        has_more = is_detailed or has_network
        is_lone = is_lone and not has_more
        while True:
            wake = s[H_WAKE]
            noc_next = s[H_NOC_NEXT]
            core_time = wake * core_period if wake < FAR else FAR
            noc_time = noc_next * noc_period if noc_next < FAR else FAR
            time = core_time if core_time <= noc_time else noc_time
            is_dram = False
            if is_detailed and s[dram + DC_NEXT] < FAR and (time < FAR or dram_is_busy(s, dram)):
                dram_time = s[dram + DC_NEXT] * dram_period
                if dram_time < core_time and dram_time <= noc_time:
                    is_dram = True
                    time = dram_time
            if wake >= FAR and has_more and is_over(s):
                # What is left in network and DRAM keeps nobody waiting: credits, refreshes.
                time = FAR
            if time == FAR:
                if s[H_FINAL] < 0:
                    settle(s, x, ev)
                break
            if time >= x[X_UNTIL] * core_period:
                break
            if time >= (s[H_CYCLE] + 1) * core_period:
                # A new core cycle begins: the only place where stopping leaves the state of a cycle.
                if is_dram:
                    now = time // core_period
                elif core_time <= noc_time:
                    now = wake
                elif s[H_NOC_SHIFT] >= 0:
                    now = noc_next >> s[H_NOC_SHIFT]
                else:
                    now = time // core_period
                if x[X_CAPACITY] > 0 and x[X_EVENTS] + margin > x[X_CAPACITY]:
                    x[X_UNTIL] = now
                    result = RESULT_EVENTS
                    break
                s[H_CYCLE] = now
            if is_dram:
                if has_network:
                    dram_answers(s, x)
                else:
                    dram_responses(s, x)
            elif core_time <= noc_time:
                if not has_burst_room(s):
                    return RESULT_GROW_BURSTS
                run_cores(s, p, x, ev, wake)
                if s[H_STATUS] == STATUS_FAULT:
                    s[H_CYCLE] += 1
                    return RESULT_FAULT
            else:
                if s[noc + NOC_CAPACITY] - s[noc + NOC_LIVE] < s[H_CORES_COUNT] * s[H_PORTS]:
                    return RESULT_GROW_POOL
                if has_network:
                    packets = s[H_CORES_COUNT] * s[H_PORTS] + s[H_CHANNELS]
                    if net_room(s, net) < packets * s[H_NET_FLITS]:
                        return RESULT_GROW_FLITS
                    flit_cycle(s, p, x, ev, noc_next, s[H_CYCLE])
                elif is_lone:
                    limit_time = x[X_UNTIL] * core_period
                    if core_time < limit_time:
                        limit_time = core_time
                    lone_cycles(s, p, x, ev, noc_next, (limit_time + noc_period - 1) // noc_period)
                else:
                    noc_cycle(s, p, x, ev, noc_next, s[H_CYCLE])
        if s[H_STATUS] == STATUS_FAULT:
            return RESULT_FAULT
        if s[H_FINAL] >= 0 and s[H_FINAL] <= x[X_UNTIL]:
            finish(s, x, ev)
            return RESULT_FINISHED
        if s[H_CYCLE] < x[X_UNTIL]:
            s[H_CYCLE] = x[X_UNTIL]
        return result

    return advance


advance = _make_advance(False)
advance_network = _make_advance(True)
