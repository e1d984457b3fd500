"""Run a cycle of the wafer with one thread or several side by side; the results are the same to the bit.

The seats of a wafer's nodes (time/seats.py) are cut into bands. In a cycle, threads first run the bands
without their last seats, any thread any band; then these last seats, the border to the next band. What an
actor does reaches its node and the neighbours, so that no two threads touch the same words. A single thread
keeps the same order: bands, borders, and then what has to run alone.

Recorded rows and hits are the same, too: a job that runs beside others has event rows and hit words of its
own.

The row `team` (TEAM) holds what threads share beside the state. The thread that called `advance` leads; the
others serve until it lets them go. Any free thread takes the next job, so that a thread that the system has
put to sleep delays no more than its present job.
"""

from npuviz.sim.parts.atomic_kernels import add_word, give_way, load_word, replace_word, store_word
from npuviz.sim.parts.bits_kernels import inlined, kernel, spliced, stay_apart, trailing_zeros
from npuviz.sim.parts.record_kernels import Gap, Record, Rest
from npuviz.sim.parts.watch_kernels import CALL, STOP, is_recording, is_watched, record_row
from npuviz.targets.wavelet.kernels.lookahead import CACHED_ACTORS, fetch_ahead
from npuviz.targets.wavelet.kernels.machine import Machine
from npuviz.targets.wavelet.kernels.origins import look_up_origins
from npuviz.targets.wavelet.kernels.processor.processor import processor_step
from npuviz.targets.wavelet.kernels.records import FAN_SHIFT, MOST_BANDS, ONE, SLOTS, WAFER, ZERO
from npuviz.targets.wavelet.kernels.router.router import router_step
from npuviz.targets.wavelet.kernels.time.events import log_aside
from npuviz.targets.wavelet.kernels.time.seats import (
    SEATS_SHIFT,
    are_sorted,
    have_to_be_sorted,
    sort_seats,
    words_of_sorted,
)
from npuviz.targets.wavelet.kernels.time.wheel import end_slot, next_word, word_at

BORDER = ONE  # the border of a band; ZERO: what lies inside
# Words that all threads read, words that all write and words of the leading one lie on different lines.
TEAM = Record(
    "team",
    size="threads beside the leading one",
    _1=Gap(7),
    jobs="(round << 1 | part) << JOBS_SHIFT | jobs << NEXT_SHIFT | next job; LET_GO",
    _9=Gap(7),
    done="jobs of the round that are done",
    _17=Gap(7),
    round="number of the round",
    events="events processed before this cycle",
    lately="events of the cycle before",
    bands="the run ends when there are more bands than these; 0: it goes on",
    margin="event rows that a cycle may need",
    call_words="words of the row CALL of a job",
    at_least=32,
)
EVENTS = Record("event rows", words=Rest("four each"))
LINE = 8  # words
NEXT_SHIFT = 8
NEXT_MASK = (1 << NEXT_SHIFT) - 1
JOBS_SHIFT = 16
LET_GO = -1
PATIENCE = 2000
"""Times that a waiting thread looks at a word (some microseconds) before it lets others run."""
ENOUGH = 256
"""Events of a cycle from which it pays to share the cycle among threads."""


@kernel
def _run_words(machine, team, first, last):
    """Wake, in order, the actors of the present cycle in the words of the wheel from `first` to `last`."""
    wafer = machine.wafer
    stay_apart()
    t = wafer.now
    slot = t & (SLOTS - 1)
    is_large = team.lately > CACHED_ACTORS
    before = -2
    events = 0
    w = next_word(wafer, slot, first)
    while w < last:
        if is_large:
            fetch_ahead(machine, slot, w, w == before + 1)
            before = w
        at = word_at(wafer, w, slot)
        word = wafer[at]
        if word:
            wafer[at] = 0
        while word:
            actor = (w << FAN_SHIFT) + trailing_zeros(word)
            word &= word - 1
            events += 1
            if actor & 1:
                processor_step(machine, actor >> 1, t)
            else:
                router_step(machine, actor >> 1, t)
        w = next_word(wafer, slot, w + 1)
    if wafer.aside:
        add_word(wafer, WAFER.events, events)
    else:
        wafer.events += events


@kernel
def _run_part(machine, team, band, part):
    """Wake the actors of a band without its border (part INSIDE), or of its border."""
    wafer = machine.wafer
    first = band << wafer.band_shift
    last = first + (1 << wafer.band_shift)
    border = last - wafer.border if band + 1 < wafer.bands_filled else last
    if part == BORDER:
        first = border
    else:
        last = border
    end = min(last >> SEATS_SHIFT, words_of_sorted(wafer))
    _run_words(machine, team, first >> SEATS_SHIFT, end)


def call_words(stops: int) -> int:
    """Return the words of the row CALL of a job with this many stop rows: whole lines."""
    return -(-(CALL.rows + stops * (STOP.num_words + 1)) // LINE) * LINE


def team_words(margin: int, stops: int) -> int:
    """Return the words of what threads share, with room for `margin` event rows per job and for `stops` stop
    rows.

    The rows CALL of the jobs follow TEAM, then come their event rows.
    """
    return TEAM.num_words + MOST_BANDS * (call_words(stops) + margin * 4)


@inlined
def _call_of(team, band):
    return CALL(team, TEAM.num_words + band * team.call_words)


@inlined
def _rows_of(team, band):
    return EVENTS(team, TEAM.num_words + MOST_BANDS * team.call_words + band * team.margin * 4)


@inlined
def _has_calls(machine):
    """Return whether jobs need rows CALL of their own: recorded rows and hits have an order."""
    return is_recording(machine) or is_watched(machine)


@inlined
def _beside(machine, team, band):
    """Return the machine for a job that runs beside others: events and hits go to rows of its own."""
    if not _has_calls(machine):
        return machine
    return Machine(machine.wafer, machine.program, machine.host, _call_of(team, band), _rows_of(team, band))


@kernel
def open_calls(machine, team):
    """Copy the stop rows into the row CALL of each job, if the run records events or has stop rows."""
    if not _has_calls(machine):
        return
    call = machine.call
    hits = CALL.rows + call.stops * STOP.num_words
    for band in range(MOST_BANDS):
        own = _call_of(team, band)
        for i in range(hits):
            own[i] = call[i]
        for i in range(call.stops):
            own[hits + i] = 0
        own.recorded = 0
        own.hits = 0
        if is_recording(machine):
            own.capacity = team.margin


@kernel
def _take_rows(machine, team, call, band):
    """Append the event rows of a job to those of the run."""
    count = call.recorded
    call.recorded = 0
    if count > call.capacity:
        machine.call.recorded += count  # the engine tells
        return
    rows = _rows_of(team, band)
    for row in range(count):
        record_row(machine, rows[4 * row], rows[4 * row + 1], rows[4 * row + 2], rows[4 * row + 3])


@kernel
def _take_hits(machine, call):
    """Take over the hits of a job: of several hits of a row the last one counts, as with one thread."""
    first = CALL.rows + call.stops * STOP.num_words
    for i in range(first, first + call.stops):
        if call[i]:
            machine.call[i] = call[i]
            call[i] = 0
    machine.call.hits += call.hits
    machine.call.until = min(machine.call.until, call.until)
    call.hits = 0


@kernel
def _take_calls(machine, team, jobs):
    """Take over the event rows and hits of all jobs, band by band, in the order of a single thread."""
    for band in range(jobs):
        call = _call_of(team, band)
        if call.recorded:
            _take_rows(machine, team, call, band)
        if call.hits:
            _take_hits(machine, call)


@spliced
def run_jobs(machine, team):
    """Run jobs of the present round while there are any left; return the last value of the word TEAM.jobs."""
    work = load_word(team, TEAM.jobs)
    while work >= 0 and (work & NEXT_MASK) < ((work >> NEXT_SHIFT) & NEXT_MASK):
        if replace_word(team, TEAM.jobs, work, work + 1):
            band = work & NEXT_MASK
            _run_part(_beside(machine, team, band), team, band, (work >> JOBS_SHIFT) & 1)
            add_word(team, TEAM.done, 1)
        work = load_word(team, TEAM.jobs)
    return work


@kernel
def wait_for(team, word, value):
    """Wait until a word of `team` has a value; let others run if that takes long."""
    turns = 0
    while load_word(team, word) != value:
        turns += 1
        if turns > PATIENCE:
            give_way()


@kernel
def wait_for_work(team, work):
    """Wait until the word TEAM.jobs differs from `work`."""
    turns = 0
    while load_word(team, TEAM.jobs) == work:
        turns += 1
        if turns > PATIENCE:
            give_way()


@inlined
def _is_shared(wafer, team):
    """Return whether several threads run this cycle: there are some, and the last cycle had many events."""
    team.lately = wafer.events - team.events
    team.events = wafer.events
    return team.size > 0 and wafer.bands_filled > 1 and team.lately >= ENOUGH


@spliced
def _share(machine, team, aside, part):
    """Let all threads run one part (inside or border) of the bands."""
    # The last band has no border.
    wafer = machine.wafer
    jobs = wafer.bands_filled - part
    wafer.aside = aside
    team.round += 1
    store_word(team, TEAM.done, 0)
    work = ((team.round << 1) | part) << JOBS_SHIFT
    store_word(team, TEAM.jobs, work | (jobs << NEXT_SHIFT))
    run_jobs(machine, team)
    wait_for(team, TEAM.done, jobs)
    wafer.aside = 0
    if wafer[aside]:
        log_aside(wafer, aside)
    if _has_calls(machine):
        _take_calls(machine, team, jobs)


@spliced
def run_cycle(machine, t, team, aside):
    """Wake the actors of cycle `t`, the present one.

    team   what threads share; size 0: one thread
    aside  word behind the heap for rows of the log
    """
    wafer = machine.wafer
    slot = t & (SLOTS - 1)
    first = machine.call.recorded
    if wafer.slots[slot]:
        is_shared = _is_shared(wafer, team)
        for part in range(2):
            if is_shared:
                _share(machine, team, aside, part)
            else:
                for band in range(wafer.bands_filled - part):
                    _run_part(machine, team, band, part)
        if wafer.postponed or not are_sorted(wafer):
            wafer.alone = 1
            _run_words(machine, team, ZERO, wafer.wheel_end)
            wafer.alone = 0
            wafer.postponed = 0
        end_slot(wafer, slot)
        if have_to_be_sorted(wafer):
            sort_seats(machine, aside)
        if is_recording(machine):
            look_up_origins(machine, first)
