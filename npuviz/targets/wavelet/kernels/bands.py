"""A cycle of the wafer, by one thread or by several side by side; what comes out is the same to the bit.

The seats of a wafer's nodes (seats_kernels.py) are cut into bands. Of a cycle, threads first run the bands
without their last seats, any thread any band; then these last seats, the border to the next band. What an
actor does reaches its node and the neighbours, so that no two threads touch the same words. One thread does
it in the same order: bands, borders, and then what has to run alone.

The words `team` (TEAM_WORDS) are what threads share beside the state. One of them leads, the one that called
`advance`; the others serve until it lets them go. A job is taken by whoever comes first, so that a thread
that the system has put to sleep holds up no more than the job it has.
"""

from npuviz.sim.parts.atomic_kernels import add_word, give_way, load_word, replace_word, store_word
from npuviz.sim.parts.bits_kernels import inlined, kernel, spliced, stay_apart, trailing_zeros
from npuviz.targets.wavelet.kernels.lookahead import CACHED_ACTORS, fetch_ahead
from npuviz.targets.wavelet.kernels.processor.processor import processor_step
from npuviz.targets.wavelet.kernels.records import (
    FAN_SHIFT,
    H_ALONE,
    H_ASIDE,
    H_BAND_SHIFT,
    H_BANDS_FILLED,
    H_BORDER,
    H_EVENTS,
    H_NOW,
    H_POSTPONED,
    H_SLOTS,
    H_WHEEL_END,
    ONE,
    SLOTS,
    ZERO,
)
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

BORDER = ONE  # part of a band; ZERO: what lies inside
TEAM_SIZE = 0  # threads beside the leading one
TEAM_JOBS = 8  # (round << 1 | part) << JOBS_SHIFT | jobs << NEXT_SHIFT | next job; LET_GO
TEAM_DONE = 16  # jobs of the round that are done
TEAM_ROUND = 24
TEAM_EVENTS = 25  # events processed before this cycle
TEAM_LATELY = 26  # of the cycle before
TEAM_BANDS = 27  # the run ends when there are more bands than these; 0: it goes on
TEAM_WORDS = 32
NEXT_SHIFT = 8
NEXT_MASK = (1 << NEXT_SHIFT) - 1
JOBS_SHIFT = 16
LET_GO = -1
PATIENCE = 2000
"""Looks at a word, some microseconds, after which a thread lets others run."""
ENOUGH = 256
"""Events of a cycle from which it pays to share it."""


@kernel
def _run_words(s, p, h, x, ev, team, first, last):
    """Wake, in order, the actors of the present cycle in the words of the wheel from `first` to `last`."""
    stay_apart()
    t = s[H_NOW]
    slot = t & (SLOTS - 1)
    is_large = team[TEAM_LATELY] > CACHED_ACTORS
    before = -2
    events = 0
    w = next_word(s, slot, first)
    while w < last:
        if is_large:
            fetch_ahead(s, p, slot, w, w == before + 1)
            before = w
        at = word_at(s, w, slot)
        word = s[at]
        if word:
            s[at] = 0
        while word:
            actor = (w << FAN_SHIFT) + trailing_zeros(word)
            word &= word - 1
            events += 1
            if actor & 1:
                processor_step(s, p, h, x, ev, actor >> 1, t)
            else:
                router_step(s, p, h, x, ev, actor >> 1, t)
        w = next_word(s, slot, w + 1)
    if s[H_ASIDE]:
        add_word(s, H_EVENTS, events)
    else:
        s[H_EVENTS] += events


@kernel
def _run_part(s, p, h, x, ev, team, band, part):
    """Wake the actors of a band without its border (part INSIDE), or of its border."""
    first = band << s[H_BAND_SHIFT]
    last = first + (1 << s[H_BAND_SHIFT])
    border = last - s[H_BORDER] if band + 1 < s[H_BANDS_FILLED] else last
    if part == BORDER:
        first = border
    else:
        last = border
    _run_words(s, p, h, x, ev, team, first >> SEATS_SHIFT, min(last >> SEATS_SHIFT, words_of_sorted(s)))


@spliced
def run_jobs(s, p, h, x, ev, team):
    """Do jobs of the present round as long as there are any; returns the last value of its word."""
    work = load_word(team, TEAM_JOBS)
    while work >= 0 and (work & NEXT_MASK) < ((work >> NEXT_SHIFT) & NEXT_MASK):
        if replace_word(team, TEAM_JOBS, work, work + 1):
            _run_part(s, p, h, x, ev, team, work & NEXT_MASK, (work >> JOBS_SHIFT) & 1)
            add_word(team, TEAM_DONE, 1)
        work = load_word(team, TEAM_JOBS)
    return work


@kernel
def wait_for(team, word, value):
    """Wait until a word of `team` has a value; others may run if that takes long."""
    turns = 0
    while load_word(team, word) != value:
        turns += 1
        if turns > PATIENCE:
            give_way()


@kernel
def wait_for_work(team, work):
    """Wait until the word of the jobs is another one than `work`."""
    turns = 0
    while load_word(team, TEAM_JOBS) == work:
        turns += 1
        if turns > PATIENCE:
            give_way()


@inlined
def _is_shared(s, team):
    """Whether several threads run this cycle: there are some, and much happens."""
    team[TEAM_LATELY] = s[H_EVENTS] - team[TEAM_EVENTS]
    team[TEAM_EVENTS] = s[H_EVENTS]
    return team[TEAM_SIZE] > 0 and s[H_BANDS_FILLED] > 1 and team[TEAM_LATELY] >= ENOUGH


@spliced
def _share(s, p, h, x, ev, team, aside, part):
    """Let all threads run a part of the bands."""
    # The last band has no border.
    jobs = s[H_BANDS_FILLED] - part
    s[H_ASIDE] = aside
    team[TEAM_ROUND] += 1
    store_word(team, TEAM_DONE, 0)
    work = ((team[TEAM_ROUND] << 1) | part) << JOBS_SHIFT
    store_word(team, TEAM_JOBS, work | (jobs << NEXT_SHIFT))
    run_jobs(s, p, h, x, ev, team)
    wait_for(team, TEAM_DONE, jobs)
    s[H_ASIDE] = 0
    if s[aside]:
        log_aside(s, aside)


@spliced
def run_cycle(s, p, h, x, ev, t, team, aside):
    """Wake the actors of cycle `t`, the present one.

    team   what threads share; TEAM_SIZE 0: one thread
    aside  word behind the heap for rows of the log
    """
    slot = t & (SLOTS - 1)
    if s[H_SLOTS + slot]:
        is_shared = _is_shared(s, team)
        for part in range(2):
            if is_shared:
                _share(s, p, h, x, ev, team, aside, part)
            else:
                for band in range(s[H_BANDS_FILLED] - part):
                    _run_part(s, p, h, x, ev, team, band, part)
        if s[H_POSTPONED] or not are_sorted(s):
            s[H_ALONE] = 1
            _run_words(s, p, h, x, ev, team, ZERO, s[H_WHEEL_END])
            s[H_ALONE] = 0
            s[H_POSTPONED] = 0
        end_slot(s, slot)
        if have_to_be_sorted(s):
            sort_seats(s, p, aside)
