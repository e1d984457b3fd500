"""Switch positions, commands of control words, and the filters in front of a processor."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels.isa import (
    CMD_ADVANCE,
    CMD_NOP,
    CMD_RESET,
    CMD_TEARDOWN,
    POP_ALWAYS,
    POP_ON_ADVANCE,
    POP_ON_ADVANCE_NOP,
)
from npuviz.targets.wavelet.kernels.records import (
    B_TEARDOWN,
    C_CLOSED,
    C_COLOR,
    C_FILTER,
    C_FILTER_FIELDS,
    C_POP,
    C_POSITION,
    C_POSITIONS,
    C_RING,
    LOG_NO_ADVANCE,
    MARK_CONTROL,
    NONE,
    ZERO,
)
from npuviz.targets.wavelet.kernels.time.events import hazard, wake_processor


@kernel
def advance_switch(s, node, ch):
    """SWITCH_ADV: the next valid position, or the first in ring mode. Returns whether it moved."""
    position = s[ch + C_POSITION]
    following = position + 1
    if following > 3 or (s[ch + C_POSITIONS + following] >> 16) == 0:
        if s[ch + C_RING] == 0 or position == 0:
            hazard(s, node, LOG_NO_ADVANCE, s[ch + C_COLOR], NONE)
            return False
        following = 0
    s[ch + C_POSITION] = following
    return True


@inlined
def pop_command(payload):
    """The payload of a control word without its first command; see wavelet-fabric.md section 3.4."""
    ring = ((payload >> 22) & 0xFF) | ((payload & 0xFFFF) << 8)
    ring >>= 3
    return (payload & 0xC03F_0000) | ((ring & 0xFF) << 22) | ((ring >> 8) & 0xFFFF)


@kernel
def command_effect(s, b, node, ch, payload, t):
    """Let the first command of a passing control word act; returns the payload that goes on."""
    command = (payload >> 22) & 3
    has_moved = False
    if command == CMD_ADVANCE:
        has_moved = advance_switch(s, node, ch)
    elif command == CMD_RESET:
        s[ch + C_POSITION] = 0
    elif command == CMD_TEARDOWN:
        s[ch + C_CLOSED] = 1
        s[b + B_TEARDOWN] |= 1 << s[ch + C_COLOR]
        wake_processor(s, b, t + 1)
    mode = s[ch + C_POP]
    is_popped = mode == POP_ALWAYS
    if mode == POP_ON_ADVANCE:
        is_popped = has_moved
    elif mode == POP_ON_ADVANCE_NOP:
        is_popped = has_moved or command == CMD_NOP
    return pop_command(payload) if is_popped else payload


@inlined
def filter_takes(s, ch, payload, commit):
    """Whether the filter of a channel lets a word through to the processor; `commit` counts it."""
    f = ch + C_FILTER_FIELDS
    kind = s[ch + C_FILTER] - 1
    is_control = (payload & MARK_CONTROL) != 0
    if kind == 2:
        index = (payload >> 16) & 0xFFFF
        return is_control or (s[f + 7] <= index and index <= s[f + 8])
    if s[f + 9]:
        return True
    counter = s[f + 2]
    takes = counter <= s[f + 5]
    if is_control and s[f + 6] and kind == 0:
        takes = counter == s[f + 5]
    if commit and s[f + 1 if is_control else f] != 0:
        if counter >= s[f + 3]:
            s[f + 2] = 0
            if kind == 1:
                if s[f + 4] and s[f + 3]:
                    s[f + 3] = s[f + 4]
                    s[f + 4] = 0
                else:
                    s[f + 9] = 1
        else:
            s[f + 2] = counter + 1
    return takes


@inlined
def reaches_processor(s, ch, payload):
    """Whether a word that goes to RAMP is for the processor: not filtered, its command not to be ignored."""
    if (payload & MARK_CONTROL) and ((payload >> 24) & 1):
        return False
    return s[ch + C_FILTER] == 0 or filter_takes(s, ch, payload, ZERO)
