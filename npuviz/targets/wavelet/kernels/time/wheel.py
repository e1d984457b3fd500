"""The time wheel: who wakes in which of the next cycles.

A tree of bits over the actors: a word has a bit for each of 32 actors, a mark of a group one for each of 32
words, a top mark one for each of 32 groups; each of them once per slot. What sleeps is passed over unseen.
The slots of a word lie side by side, because an actor is woken for cycles near to now, and so do the marks
of a slot, because a cycle reads them all.

Threads that run bands side by side share no word, but marks. They set all bits of a mark, the same whoever
comes first; `exact_marks` puts that right. To set one bit atomically would wait for every write under way.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.records import (
    EVERY_BIT,
    FAN_MASK,
    FAN_SHIFT,
    H_ASIDE,
    H_NOW,
    H_POSTPONED,
    H_SLOTS,
    H_WHEEL,
    H_WHEEL_END,
    H_WHEEL_GROUPS,
    H_WHEEL_TOPS,
    H_WHEEL_TOPS_COUNT,
    SLOT_SHIFT,
    SLOTS,
)


@inlined
def schedule(s, actor, t):
    """Wake an actor at cycle `t`, later than now; far ones look again when the wheel has turned."""
    now = s[H_NOW]
    if t > now + SLOTS - 1:
        t = now + SLOTS - 1
    elif t <= now:
        t = now + 1
    set_bit(s, actor, t & (SLOTS - 1))


@inlined
def set_bit(s, actor, slot):
    """Let an actor be awake in a slot."""
    word = actor >> FAN_SHIFT
    at = word_at(s, word, slot)
    before = s[at]
    s[at] = before | (1 << (actor & FAN_MASK))
    if before == 0:
        _mark(s, word, slot)


@inlined
def word_at(s, word, slot):
    """Where a word of a slot lies in the state."""
    return s[H_WHEEL] + (word << SLOT_SHIFT) + slot


@inlined
def group_at(s, group, slot):
    """Where the mark of a group lies."""
    return s[H_WHEEL_GROUPS] + ((slot * s[H_WHEEL_TOPS_COUNT]) << FAN_SHIFT) + group


@inlined
def top_at(s, top, slot):
    """Where a top mark lies."""
    return s[H_WHEEL_TOPS] + slot * s[H_WHEEL_TOPS_COUNT] + top


@inlined
def _mark(s, word, slot):
    """Note that a word is no longer 0."""
    group = word >> FAN_SHIFT
    mark = group_at(s, group, slot)
    top = top_at(s, group >> FAN_SHIFT, slot)
    if s[H_ASIDE] == 0:
        s[mark] |= 1 << (word & FAN_MASK)
        s[top] |= 1 << (group & FAN_MASK)
    else:
        # To write them again would take their lines from other threads.
        if s[mark] != EVERY_BIT:
            s[mark] = EVERY_BIT
        if s[top] != EVERY_BIT:
            s[top] = EVERY_BIT
    if s[H_SLOTS + slot] == 0:
        s[H_SLOTS + slot] = 1


@inlined
def next_word(s, slot, word):
    """The first word from `word` on that may have actors in a slot; H_WHEEL_END or more if there is none."""
    while word < s[H_WHEEL_END]:
        group = word >> FAN_SHIFT
        marks = s[group_at(s, group, slot)] >> (word & FAN_MASK)
        if marks:
            return word + trailing_zeros(marks)
        group += 1
        marks = s[top_at(s, group >> FAN_SHIFT, slot)] >> (group & FAN_MASK)
        group = group + trailing_zeros(marks) if marks else (group | FAN_MASK) + 1
        word = group << FAN_SHIFT
    return word


@kernel
def postpone(s, actor):
    """Let an actor run after all others of this cycle instead of now."""
    set_bit(s, actor, s[H_NOW] & (SLOTS - 1))
    s[H_POSTPONED] = 1


@kernel
def end_slot(s, slot):
    """Take away the marks of a slot whose actors have run."""
    s[H_SLOTS + slot] = 0
    for top in range(s[H_WHEEL_TOPS_COUNT]):
        at = top_at(s, top, slot)
        marks = s[at]
        s[at] = 0
        while marks:
            group = (top << FAN_SHIFT) + trailing_zeros(marks)
            marks &= marks - 1
            s[group_at(s, group, slot)] = 0


@kernel
def exact_marks(s):
    """Take away what marks say too much: the words alone decide."""
    for slot in range(SLOTS):
        end_slot(s, slot)
    for word in range(s[H_WHEEL_END]):
        for slot in range(SLOTS):
            if s[word_at(s, word, slot)]:
                _mark(s, word, slot)


@inlined
def next_event(s):
    """Cycle of the next wake after now, -1 if there is none."""
    first = s[H_NOW] + 1
    for t in range(first, first + SLOTS):
        if s[H_SLOTS + (t & (SLOTS - 1))]:
            return t
    return -1
