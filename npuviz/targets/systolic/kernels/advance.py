"""The machine's main loop: from event to event until it has to stop.

Three clocks, times in picoseconds; at equal time CORE runs before NOC (the DRAM's cycle between them
needs no event of its own, see npuviz.sim.dram.simple_kernels). Cycles in which nothing changes are
never visited.
"""

# A call may change any word of a row, which the type checker does not see.
# pyright: reportUnnecessaryComparison=false

from numba import int64

from npuviz.sim.dram.command_kernels import dram_is_busy
from npuviz.sim.dram.records_kernels import dram_at
from npuviz.sim.network.flit_kernels import net_room
from npuviz.sim.network.records_kernels import network_at
from npuviz.sim.network.simple_kernels import NOC
from npuviz.sim.parts.bits_kernels import entry, inlined, kernel, pointer_to
from npuviz.sim.parts.watch_kernels import CALL, Machine, is_full
from npuviz.targets.systolic.kernels.causes import record_acknowledged
from npuviz.targets.systolic.kernels.core import core_cycle
from npuviz.targets.systolic.kernels.flit_traffic import dram_answers, flit_cycle
from npuviz.targets.systolic.kernels.records import (
    CHIP,
    CORE,
    FAR,
    FAULT_HANG,
    FREE_BURSTS,
    PROGRAM,
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
def first_wake(chip):
    """Return the earliest core cycle in which the scheduler or a core has something to do."""
    wake = chip.scheduler_wake
    wakes = chip.wakes
    for c in range(chip.cores_count):
        if chip[wakes + c] < wake:
            wake = chip[wakes + c]
    return wake


@kernel
def run_cores(machine, t):
    """Run core cycle `t` of the whole chip: the scheduler, then the cores in order."""
    chip = machine.chip
    is_simple = chip.sched == 0
    if not is_simple:
        count_polls(chip, t)
    if chip.scheduler_wake <= t:
        scheduler_cycle(machine, t)
    wakes = chip.wakes
    for c in range(chip.cores_count):
        if chip[wakes + c] <= t:
            core_cycle(machine, c, t)
            core = CORE(chip, chip.cores + c * chip.core_words)
            if core.tiles + core.finished + core.gemm_count > 0 or core.vec >= 0:
                chip.last_busy = t
        elif not is_simple:
            core = CORE(chip, chip.cores + c * chip.core_words)
            if core.tiles < 2 and core.next_tile < 0:
                poll(machine, c, t)
    if not is_simple:
        end_cycle(machine, t)
    chip.wake = first_wake(chip)


@kernel
def has_burst_room(chip):
    """Return whether every core can add its bursts of one cycle."""
    if chip.bursts_tight == 0:
        return True
    for c in range(chip.cores_count):
        core = CORE(chip, chip.cores + c * chip.core_words)
        if core.burst_count + FREE_BURSTS > chip.burst_capacity:
            return False
    chip.bursts_tight = 0
    return True


@inlined
def is_over(chip):
    """Return whether all layers have ended and all writes are acknowledged."""
    return (
        chip.layers_done >= chip.layers_total
        and chip.launch >= chip.launches_total
        and chip.writes_out == 0
        and chip.bursts_waiting == 0
    )


@kernel
def settle(
    chip,
):
    """Set the run's last cycle if all work is done, else fault with a hang. Called when nothing is left to
    do."""
    if chip.layer >= 0 or chip.layers_left > 0 or chip.launch < chip.launches_total:
        fault(chip, int64(-1), int64(FAULT_HANG), int64(-1))
        return
    final = chip.last_busy + 1
    if chip.last_ack >= 0:
        acknowledged = chip.last_ack // chip.core_period + 1
        if final < acknowledged:
            final = acknowledged
    chip.final = final


@kernel
def finish(machine):
    """Close the run: entries still in scratchpads and accumulators end their lives."""
    chip = machine.chip
    chip.status = STATUS_FINISHED
    chip.cycle = chip.final
    record_acknowledged(machine, chip.final)
    for c in range(chip.cores_count):
        core = CORE(chip, chip.cores + c * chip.core_words)
        for half in range(4):
            core.used[half] = 0
            empty_half(machine, c, core, half, chip.final)


def _make_advance(has_network):
    """Make the kernel for machines with a flit-level network, or for those without.

    What a machine does not have is left out of its kernel: compiling both takes a third longer.
    """

    @entry
    def advance(state, words, transient, events, margin):
        """Run until cycle `until` of the call, a hit, a fault, the end, or until a buffer needs more room.

        state      (words,) int64    changed   root state
        program    (words,) int64    read      program words
        transient  (words,) int64    changed   stop rows, hits, number of event rows
        events     (rows * 4,) int64 changed   event rows
        margin                       int       event rows one core cycle may need
        Returns a RESULT_ code. Whole cycles only: the state is that of cycle `cycle` of the chip.
        """
        chip, program = CHIP(state), PROGRAM(words)
        call = CALL(transient)
        machine = Machine(chip, program, call, pointer_to(events))
        if chip.status != STATUS_RUNNING:
            return RESULT_FINISHED if chip.status == STATUS_FINISHED else RESULT_FAULT
        core_period = chip.core_period
        noc_period = chip.noc_period
        result = RESULT_UNTIL
        noc = NOC(chip, chip.noc)
        is_detailed = chip.dram_kind == 1
        dram = dram_at(chip, chip.dram)
        dram_period = chip.dram_period
        is_lone = noc.sources == 1 and noc.latency == 1 and chip.reply_queued == 1
        network = network_at(chip, chip.net)
        has_more = is_detailed or has_network
        is_lone = is_lone and not has_more
        while True:
            wake = chip.wake
            noc_next = chip.noc_next
            core_time = wake * core_period if wake < FAR else FAR
            noc_time = noc_next * noc_period if noc_next < FAR else FAR
            time = core_time if core_time <= noc_time else noc_time
            is_dram = False
            if is_detailed and dram.device.next < FAR and (time < FAR or dram_is_busy(dram)):
                dram_time = chip.dram_origin + dram.device.next * dram_period
                if dram_time < core_time and dram_time <= noc_time:
                    is_dram = True
                    time = dram_time
            if wake >= FAR and has_more and is_over(chip):
                # Nothing waits for what is left in network and DRAM: credits, refreshes.
                time = FAR
            if time == FAR:
                if chip.final < 0:
                    settle(chip)
                break
            if time >= call.until * core_period:
                break
            if time >= (chip.cycle + 1) * core_period:
                # A new core cycle begins: the only place where stopping leaves the state of a cycle.
                if is_dram:
                    now = time // core_period
                elif core_time <= noc_time:
                    now = wake
                elif chip.noc_shift >= 0:
                    now = noc_next >> chip.noc_shift
                else:
                    now = time // core_period
                if is_full(machine, margin):
                    call.until = now
                    result = RESULT_EVENTS
                    break
                chip.cycle = now
            if is_dram:
                if has_network:
                    dram_answers(machine)
                else:
                    dram_responses(machine)
            elif core_time <= noc_time:
                if not has_burst_room(chip):
                    return RESULT_GROW_BURSTS
                run_cores(machine, wake)
                if chip.status == STATUS_FAULT:
                    chip.cycle += 1
                    return RESULT_FAULT
            else:
                if noc.capacity - noc.live < chip.cores_count * chip.ports:
                    return RESULT_GROW_POOL
                if has_network:
                    packets = chip.cores_count * chip.ports + chip.channels
                    if net_room(network) < packets * chip.net_flits:
                        return RESULT_GROW_FLITS
                    flit_cycle(machine, noc_next, chip.cycle)
                elif is_lone:
                    limit_time = call.until * core_period
                    if core_time < limit_time:
                        limit_time = core_time
                    lone_cycles(machine, noc_next, (limit_time + noc_period - 1) // noc_period)
                else:
                    noc_cycle(machine, noc_next, chip.cycle)
        if chip.status == STATUS_FAULT:
            return RESULT_FAULT
        if chip.final >= 0 and chip.final <= call.until:
            finish(machine)
            return RESULT_FINISHED
        if chip.cycle < call.until:
            chip.cycle = call.until
        return result

    return advance


advance = _make_advance(False)
advance_network = _make_advance(True)
advance.takes("wwwwn")
advance_network.takes("wwwwn")
