"""Swap colors in pairs for words that the processor itself sends."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels.program_records import LAYOUT
from npuviz.targets.wavelet.kernels.records import CHANNEL, ZERO
from npuviz.targets.wavelet.kernels.router.ring import has_room, push_word

BOTH_AXES = 3


@inlined
def _swapped(program, pe, color):
    """Return a mask of the channels (1: same color, 2: the other of the pair) that take a word of the
    processor.

    Only a swap on both axes applies to words of the processor. Ref: ADV.
    """
    layout = LAYOUT(program, pe.layout)
    own, other = layout.channel[color], layout.channel[color ^ 1]
    mask = 1 if own != 0 and CHANNEL(pe, own).swap != BOTH_AXES else 0
    return mask | 2 if other != 0 and CHANNEL(pe, other).swap == BOTH_AXES else mask


@kernel
def swap_has_room(program, pe, channel, t):
    """Return whether all channels that take a word of the processor have room for it, where colors are
    swapped."""
    mask = _swapped(program, pe, channel.color)
    for k in range(2):
        if (mask >> k) & 1:
            target = CHANNEL(pe, LAYOUT(program, pe.layout).channel[channel.color ^ k])
            if not has_room(target, ZERO, t):
                return False
    return True


@kernel
def push_swapped(machine, pe, channel, word):
    """Put a word of the processor into the channels that take it, where colors are swapped."""
    program = machine.program
    mask = _swapped(program, pe, channel.color)
    for k in range(2):
        if (mask >> k) & 1:
            target = CHANNEL(pe, LAYOUT(program, pe.layout).channel[channel.color ^ k])
            push_word(machine.wafer, pe, target, ZERO, word)
