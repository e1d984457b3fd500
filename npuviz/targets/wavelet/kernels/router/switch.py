"""Move switch positions, act on commands of control words, and filter words in front of a processor."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.log_numbers import LOG_NO_ADVANCE
from npuviz.targets.wavelet.kernels.records import MARK_CONTROL, NONE, ZERO
from npuviz.targets.wavelet.kernels.time.events import hazard, wake_processor


@kernel
def advance_switch(wafer, node, channel):
    """Move a switch to the next valid position, or to the first in ring mode (SWITCH_ADV). Returns whether it
    moved."""
    position = channel.position
    following = position + 1
    if following > 3 or (channel.positions[following] >> 16) == 0:
        if channel.is_ring == 0 or position == 0:
            hazard(wafer, node, LOG_NO_ADVANCE, channel.color, NONE)
            return False
        following = 0
    channel.position = following
    return True


@inlined
def pop_command(payload):
    """Return the payload of a control word without its first command; see wavelet-fabric.md section 3.4."""
    ring = ((payload >> 22) & 0xFF) | ((payload & 0xFFFF) << 8)
    ring >>= 3
    return (payload & 0xC03F_0000) | ((ring & 0xFF) << 22) | ((ring >> 8) & 0xFFFF)


@kernel
def command_effect(wafer, pe, channel, payload, t):
    """Let the first command of a passing control word act; return the payload that continues."""
    command = (payload >> 22) & 3
    has_moved = False
    if command == isa.CMD_ADVANCE:
        has_moved = advance_switch(wafer, pe.node, channel)
    elif command == isa.CMD_RESET:
        channel.position = 0
    elif command == isa.CMD_TEARDOWN:
        channel.closed = 1
        pe.teardown |= 1 << channel.color
        wake_processor(wafer, pe, t + 1)
    mode = channel.pop
    is_popped = mode == isa.POP_ALWAYS
    if mode == isa.POP_ON_ADVANCE:
        is_popped = has_moved
    elif mode == isa.POP_ON_ADVANCE_NOP:
        is_popped = has_moved or command == isa.CMD_NOP
    return pop_command(payload) if is_popped else payload


@inlined
def filter_takes(channel, payload, commit):
    """Return whether the filter of a channel lets a word through to the processor; `commit` counts the
    word."""
    rule = channel.filters[0]
    kind = channel.filter_kind - 1
    is_control = (payload & MARK_CONTROL) != 0
    if kind == isa.FILTER_RANGE:
        index = (payload >> 16) & 0xFFFF
        return is_control or (rule.min_idx <= index and index <= rule.max_idx)
    if rule.off:
        return True
    counter = rule.counter
    takes = counter <= rule.max_counter
    if is_control and rule.filter_control and kind == isa.FILTER_COUNTER:
        takes = counter == rule.max_counter
    if commit and (rule.count_control if is_control else rule.count_data) != 0:
        if counter >= rule.limit1:
            rule.counter = 0
            if kind == isa.FILTER_SPARSE_COUNTER:
                if rule.limit2 and rule.limit1:
                    rule.limit1 = rule.limit2
                    rule.limit2 = 0
                else:
                    rule.off = 1
        else:
            rule.counter = counter + 1
    return takes


@inlined
def reaches_processor(channel, payload):
    """Return whether a word that goes to RAMP reaches the processor: not filtered, its command not to be
    ignored."""
    if (payload & MARK_CONTROL) and ((payload >> 24) & 1):
        return False
    return channel.filter_kind == 0 or filter_takes(channel, payload, ZERO)
