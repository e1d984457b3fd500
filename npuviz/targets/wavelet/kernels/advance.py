"""The machine's main loop: from event to event until it has to stop."""

from npuviz.sim.parts.bits_kernels import entry, inlined, kernel, pointer_to, spliced
from npuviz.sim.parts.watch_kernels import X_CAPACITY, X_EVENTS, X_UNTIL
from npuviz.targets.wavelet.kernels.bands import (
    LET_GO,
    TEAM_BANDS,
    TEAM_SIZE,
    run_cycle,
    run_jobs,
    wait_for_work,
)
from npuviz.targets.wavelet.kernels.host import host_step
from npuviz.targets.wavelet.kernels.program_records import (
    P_SETTLE,
)
from npuviz.targets.wavelet.kernels.records import (
    COMMAND_WORDS,
    FAR,
    H_BANDS_FILLED,
    H_CLOSED,
    H_CLOSED_AT,
    H_COMMANDS,
    H_CYCLE,
    H_DEMAND,
    H_DONE,
    H_FINAL,
    H_GIVEN,
    H_HOST_AT,
    H_NODES,
    H_NODES_COUNT,
    H_NOW,
    H_STATUS,
    H_USED,
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
    X_STATE,
)
from npuviz.targets.wavelet.kernels.router.link import end_link_run
from npuviz.targets.wavelet.kernels.time.events import block_of, look_for_fault
from npuviz.targets.wavelet.kernels.time.wheel import exact_marks, next_event

X_COMMAND = 5
"""Transient word: 1 + the command whose end is waited for, 0 none."""
X_ROOM = 6
"""Transient word: words of the state that may be used."""
X_ASIDE = 7
"""Transient word: the word behind the heap at which rows for the log may be kept."""
LONGEST = 1 << 45
"""Nobody waits that long for a host: an idle machine does not go there."""


@kernel
def finish(s, p, x, ev):
    """Close the run: links that were busy last end their intervals."""
    s[H_STATUS] = STATUS_FINISHED
    s[H_CYCLE] = s[H_FINAL]
    for node in range(s[H_NODES_COUNT]):
        b = s[s[H_NODES] + node]
        if b > 0:
            for port in range(5):
                end_link_run(s, p, x, ev, b, node, port)


@inlined
def is_served(s):
    """Whether every command given is done."""
    return s[H_DONE] == s[H_GIVEN]


@kernel
def settle(s, x):
    """Nothing is left to happen: the end, a deadlock, or a wait for the host. Returns a RESULT_ code."""
    now = s[H_NOW] + 1
    if now < 1:
        now = 1
    if not is_served(s):
        s[H_STATUS] = STATUS_DEADLOCK
        s[H_CYCLE] = now if now > s[H_CYCLE] else s[H_CYCLE]
        return RESULT_DEADLOCK
    if s[H_CLOSED]:
        s[H_FINAL] = now
        return RESULT_FINISHED
    if x[X_UNTIL] < LONGEST and s[H_CYCLE] < x[X_UNTIL]:
        s[H_CYCLE] = x[X_UNTIL]
    elif s[H_CYCLE] < now:
        s[H_CYCLE] = now
    return RESULT_UNTIL


@spliced
def _run(s, p, h, x, ev, margin, team):
    """From event to event until there is a reason to stop. Returns a RESULT_ code."""
    if s[H_STATUS] != STATUS_RUNNING:
        if s[H_STATUS] == STATUS_FINISHED:
            return RESULT_FINISHED
        return RESULT_FAULT if s[H_STATUS] == STATUS_FAULT else RESULT_DEADLOCK
    result = RESULT_UNTIL
    while True:
        t = next_event(s)
        if s[H_HOST_AT] < FAR and (t < 0 or s[H_HOST_AT] < t):
            t = s[H_HOST_AT]
        if t < 0:
            result = settle(s, x)
            if result != RESULT_FINISHED:
                return result
        elif s[H_CLOSED_AT] >= 0 and t > s[H_CLOSED_AT] + p[P_SETTLE]:
            s[H_FINAL] = s[H_CLOSED_AT] + p[P_SETTLE] + 1
            result = RESULT_FINISHED
        if result == RESULT_FINISHED:
            if s[H_FINAL] <= x[X_UNTIL]:
                finish(s, p, x, ev)
                return RESULT_FINISHED
            result = RESULT_UNTIL
            break
        if t >= x[X_UNTIL]:
            break
        if x[X_CAPACITY] > 0 and x[X_EVENTS] + margin > x[X_CAPACITY]:
            s[H_CYCLE] = t
            return RESULT_EVENTS
        if s[H_USED] + s[H_DEMAND] > x[X_ROOM]:
            s[H_CYCLE] = t
            return RESULT_ROOM
        s[H_NOW] = t
        s[H_CYCLE] = t
        run_cycle(s, p, h, x, ev, t, team, x[X_ASIDE])
        if s[H_HOST_AT] <= t:
            host_step(s, p, h, t)
        look_for_fault(s)
        if s[H_STATUS] == STATUS_FAULT:
            s[H_CYCLE] = t + 1
            return RESULT_FAULT
        if x[X_COMMAND] > 0 and s[s[H_COMMANDS] + (x[X_COMMAND] - 1) * COMMAND_WORDS + X_STATE] == 2:
            s[H_CYCLE] = t + 1
            return RESULT_COMMAND
        if team[TEAM_BANDS] > 0 and s[H_BANDS_FILLED] > team[TEAM_BANDS]:
            s[H_CYCLE] = t + 1
            return RESULT_BANDS
    if s[H_CYCLE] < x[X_UNTIL]:
        s[H_CYCLE] = x[X_UNTIL]
    return result


@entry
def advance(state, program, host, transient, events, margin, team, serves):
    """Run until cycle x[X_UNTIL], a hit, a fault, the end, or until something needs more room.

    state      (words,) int64    changed   root state
    program    (words,) int64    read      program words
    host       (words,) int64    changed   host commands, their data and results
    transient  (words,) int64    changed   stop rows, hits, number of event rows
    events     (rows * 4,) int64 changed   event rows
    margin                       int       event rows one cycle may need
    team       (TEAM_WORDS,) int64 changed  what the threads of this run share, see bands_kernels
    serves                       int       1: this thread helps the one that runs these words until it is done
    Returns a RESULT_ code. Whole cycles only: the state is that of cycle state[H_CYCLE].
    """
    s, p, h = pointer_to(state), pointer_to(program), pointer_to(host)
    x, ev = pointer_to(transient), pointer_to(events)
    if serves:
        work = run_jobs(s, p, h, x, ev, pointer_to(team))
        while work != LET_GO:
            wait_for_work(pointer_to(team), work)
            work = run_jobs(s, p, h, x, ev, pointer_to(team))
        return RESULT_UNTIL
    result = _run(s, p, h, x, ev, margin, pointer_to(team))
    if team[TEAM_SIZE] > 0:
        exact_marks(s)
    return result


@entry
def make_block(state, program, node):
    """Give a node its own words, if it has none yet.

    state    (words,) int64  changed  root state
    program  (words,) int64  read     program words
    """
    block_of(pointer_to(state), pointer_to(program), node)
