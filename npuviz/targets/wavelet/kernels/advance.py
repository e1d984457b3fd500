"""Run the machine from event to event until it has to stop: the main loop."""

# A call may change any word of a row, but the type checker does not see that.
# pyright: reportUnnecessaryComparison=false

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel, optimised_entry, pointer_to, spliced
from npuviz.sim.parts.watch_kernels import CALL, is_full, is_recording
from npuviz.targets.wavelet.kernels.bands import (
    EVENTS,
    LET_GO,
    TEAM,
    open_calls,
    run_cycle,
    run_jobs,
    wait_for_work,
)
from npuviz.targets.wavelet.kernels.causes import last_end, record_end
from npuviz.targets.wavelet.kernels.host import host_step
from npuviz.targets.wavelet.kernels.machine import Machine
from npuviz.targets.wavelet.kernels.program_records import PROGRAM
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    COMMAND_STATE,
    FAR,
    RESULT_BANDS,
    RESULT_COMMAND,
    RESULT_DEADLOCK,
    RESULT_EVENTS,
    RESULT_FAULT,
    RESULT_FINISHED,
    RESULT_ROOM,
    RESULT_UNTIL,
    STATUS_DEADLOCK,
    STATUS_FAULT,
    STATUS_FINISHED,
    STATUS_RUNNING,
    WAFER,
)
from npuviz.targets.wavelet.kernels.router.link import end_link_run
from npuviz.targets.wavelet.kernels.time.events import block_of, look_for_fault, open_router, wake_processor
from npuviz.targets.wavelet.kernels.time.wheel import exact_marks, next_event

X_COMMAND = CALL.own
"""Word of `transient`: 1 + the command at whose end to stop, 0 none."""
X_ROOM = CALL.own + 1
"""Word of `transient`: how many words of the state may be used."""
X_ASIDE = CALL.own + 2
"""Word of `transient`: the word behind the heap from which on rows for the log may be kept."""
LONGEST = 1 << 45
"""An idle machine that waits for its host advances to `until`, but not to cycles from this one on."""


@kernel
def finish(machine):
    """Close the run: record the last interval of each link, and what the run ended with."""
    wafer = machine.wafer
    wafer.status = STATUS_FINISHED
    wafer.cycle = wafer.final
    latest = int64(0)
    for node in range(wafer.nodes_count):
        b = wafer[wafer.nodes + node]
        if b > 0:
            for port in range(5):
                end_link_run(machine, BLOCK(wafer, b), port)
            by = last_end(BLOCK(wafer, b))
            if by >> 28 > latest >> 28:
                latest = by
    if is_recording(machine):
        record_end(machine, latest)


@inlined
def is_served(wafer):
    """Return whether every command given is done."""
    return wafer.done == wafer.given


@kernel
def settle(machine):
    """Decide what follows when no event is left: the end, a deadlock, or a wait for the host. Returns a
    RESULT_ code."""
    wafer, call = machine.wafer, machine.call
    now = wafer.now + 1
    if now < 1:
        now = 1
    if not is_served(wafer):
        wafer.status = STATUS_DEADLOCK
        wafer.cycle = now if now > wafer.cycle else wafer.cycle
        return RESULT_DEADLOCK
    if wafer.closed:
        wafer.final = now
        return RESULT_FINISHED
    if call.until < LONGEST and wafer.cycle < call.until:
        wafer.cycle = call.until
    elif wafer.cycle < now:
        wafer.cycle = now
    return RESULT_UNTIL


@spliced
def _run(machine, margin, team):
    """Run from event to event until there is a reason to stop. Returns a RESULT_ code."""
    wafer, program, call = machine.wafer, machine.program, machine.call
    if wafer.status != STATUS_RUNNING:
        if wafer.status == STATUS_FINISHED:
            return RESULT_FINISHED
        return RESULT_FAULT if wafer.status == STATUS_FAULT else RESULT_DEADLOCK
    result = RESULT_UNTIL
    while True:
        t = next_event(wafer)
        if wafer.host_at < FAR and (t < 0 or wafer.host_at < t):
            t = wafer.host_at
        if t < 0:
            result = settle(machine)
            if result != RESULT_FINISHED:
                return result
        elif wafer.closed_at >= 0 and t > wafer.closed_at + program.settle:
            wafer.final = wafer.closed_at + program.settle + 1
            result = RESULT_FINISHED
        if result == RESULT_FINISHED:
            if wafer.final <= call.until:
                finish(machine)
                return RESULT_FINISHED
            result = RESULT_UNTIL
            break
        if t >= call.until:
            break
        if is_full(machine, margin):
            wafer.cycle = t
            return RESULT_EVENTS
        if wafer.used + wafer.demand > call[X_ROOM]:
            wafer.cycle = t
            return RESULT_ROOM
        wafer.now = t
        wafer.cycle = t
        run_cycle(machine, t, team, call[X_ASIDE])
        if wafer.host_at <= t:
            host_step(machine, t)
        look_for_fault(wafer)
        if wafer.status == STATUS_FAULT:
            wafer.cycle = t + 1
            return RESULT_FAULT
        if call[X_COMMAND] > 0 and COMMAND_STATE(wafer, wafer.commands, call[X_COMMAND] - 1).state == 2:
            wafer.cycle = t + 1
            return RESULT_COMMAND
        if team.bands > 0 and wafer.bands_filled > team.bands:
            wafer.cycle = t + 1
            return RESULT_BANDS
    if wafer.cycle < call.until:
        wafer.cycle = call.until
    return result


@optimised_entry
def advance(state, words, commands, transient, events, margin, team, serves):
    """Run until cycle `until` of the call, a hit, a fault, the end, or until something needs more room.

    state      (words,) int64 changed      root state
    words      (words,) int64 read         program words
    commands   (words,) int64 changed      host commands, their data and results
    transient  (words,) int64 changed      stop rows, hits, number of event rows
    events     (rows * 4,) int64 changed   event rows
    margin     int                         event rows one cycle may need
    team       (words,) int64 changed      what the threads of this run share, see bands.py
    serves     int                         1: help the thread that leads this run until that thread is done
    Returns a RESULT_ code. Whole cycles only: the state is that of cycle WAFER.cycle.
    """
    wafer, shared = WAFER(state), TEAM(team)
    call = CALL(transient)
    machine = Machine(wafer, PROGRAM(words), pointer_to(commands), call, EVENTS(events))
    if serves:
        work = run_jobs(machine, shared)
        while work != LET_GO:
            wait_for_work(shared, work)
            work = run_jobs(machine, shared)
        return RESULT_UNTIL
    shared.margin = margin
    if shared.size > 0:
        open_calls(machine, shared)
    result = _run(machine, margin, shared)
    if shared.size > 0:
        exact_marks(wafer)
    return result


advance.takes("wwwwwnwn")


@optimised_entry
def make_block(state, program, node, wakes):
    """Give a node its own words, if it has none yet.

    state    (words,) int64  changed   root state
    program  (words,) int64  read      program words
    wakes    1: the node looks for work in the next cycle, because a setting changed
    """
    wafer = WAFER(state)
    pe = BLOCK(wafer, block_of(wafer, PROGRAM(program), node))
    if wakes:
        # Nothing is due before the next cycle, so that the wheel may be turned to it.
        if wafer.now < wafer.cycle - 1:
            wafer.now = wafer.cycle - 1
        open_router(wafer, pe, wafer.cycle)
        wake_processor(wafer, pe, wafer.cycle)


make_block.takes("wwnn")
