"""Keep a time wheel: which actors wake in which of the next cycles.

A tree of bits over the actors: a word has a bit for each of 32 actors, a mark of a group one for each of 32
words, a top mark one for each of 32 groups; each of them once per slot. Sleeping actors are skipped without
being read. The slots of a word lie side by side, because an actor is woken for cycles near to now, and so do
the marks of a slot, because a cycle reads them all.

Threads that run bands side by side share no words of the wheel, but marks. They set all bits of a mark, which
is the same whichever thread does it first; `exact_marks` corrects that later. Setting one bit atomically
would wait for every write under way.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.records import EVERY_BIT, FAN_MASK, FAN_SHIFT, SLOT_SHIFT, SLOTS


@inlined
def schedule(wafer, actor, t):
    """Wake an actor at cycle `t`, at the earliest the next; for a far `t` it wakes within the wheel's turn
    and looks again."""
    now = wafer.now
    if t > now + SLOTS - 1:
        t = now + SLOTS - 1
    elif t <= now:
        t = now + 1
    set_bit(wafer, actor, t & (SLOTS - 1))


@inlined
def set_bit(wafer, actor, slot):
    """Wake an actor in a slot."""
    word = actor >> FAN_SHIFT
    at = word_at(wafer, word, slot)
    before = wafer[at]
    wafer[at] = before | (1 << (actor & FAN_MASK))
    if before == 0:
        _mark(wafer, word, slot)


@inlined
def word_at(wafer, word, slot):
    """Return where a word of a slot lies in the state."""
    return wafer.wheel + (word << SLOT_SHIFT) + slot


@inlined
def group_at(wafer, group, slot):
    """Return where the mark of a group lies in the state."""
    return wafer.wheel_groups + ((slot * wafer.wheel_tops_count) << FAN_SHIFT) + group


@inlined
def top_at(wafer, top, slot):
    """Return where a top mark lies in the state."""
    return wafer.wheel_tops + slot * wafer.wheel_tops_count + top


@inlined
def _mark(wafer, word, slot):
    """Set the marks above a word that is no longer 0."""
    group = word >> FAN_SHIFT
    mark = group_at(wafer, group, slot)
    top = top_at(wafer, group >> FAN_SHIFT, slot)
    if wafer.aside == 0:
        wafer[mark] |= 1 << (word & FAN_MASK)
        wafer[top] |= 1 << (group & FAN_MASK)
    else:
        # Writing them again would take their cache lines from other threads.
        if wafer[mark] != EVERY_BIT:
            wafer[mark] = EVERY_BIT
        if wafer[top] != EVERY_BIT:
            wafer[top] = EVERY_BIT
    if wafer.slots[slot] == 0:
        wafer.slots[slot] = 1


@inlined
def next_word(wafer, slot, word):
    """Return the first word from `word` on that may have actors in a slot; `wheel_end` or more if there is
    none."""
    while word < wafer.wheel_end:
        group = word >> FAN_SHIFT
        marks = wafer[group_at(wafer, group, slot)] >> (word & FAN_MASK)
        if marks:
            return word + trailing_zeros(marks)
        group += 1
        marks = wafer[top_at(wafer, group >> FAN_SHIFT, slot)] >> (group & FAN_MASK)
        group = group + trailing_zeros(marks) if marks else (group | FAN_MASK) + 1
        word = group << FAN_SHIFT
    return word


@kernel
def postpone(wafer, actor):
    """Let an actor run after all others of this cycle instead of now."""
    set_bit(wafer, actor, wafer.now & (SLOTS - 1))
    wafer.postponed = 1


@kernel
def end_slot(wafer, slot):
    """Clear the marks of a slot whose actors have run."""
    wafer.slots[slot] = 0
    for top in range(wafer.wheel_tops_count):
        at = top_at(wafer, top, slot)
        marks = wafer[at]
        wafer[at] = 0
        while marks:
            group = (top << FAN_SHIFT) + trailing_zeros(marks)
            marks &= marks - 1
            wafer[group_at(wafer, group, slot)] = 0


@kernel
def exact_marks(wafer):
    """Clear marks above words that are 0."""
    for slot in range(SLOTS):
        end_slot(wafer, slot)
    for word in range(wafer.wheel_end):
        for slot in range(SLOTS):
            if wafer[word_at(wafer, word, slot)]:
                _mark(wafer, word, slot)


@inlined
def next_event(wafer):
    """Return the cycle of the next wake after now, -1 if there is none."""
    first = wafer.now + 1
    for t in range(first, first + SLOTS):
        if wafer.slots[t & (SLOTS - 1)]:
            return t
    return -1
