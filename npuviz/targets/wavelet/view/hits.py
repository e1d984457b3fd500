"""Decode the hit word of a stop row: the element, and the instruction, command or wavelet that made it
hit."""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.wavelet.kernels.time import stops as k


@dataclass(frozen=True, slots=True)
class Hit:
    """The cause of a hit of a stop row; -1 for every kind of cause that it is not.

    element      row * columns + column of the whole grid
    instruction  index in the listing
    command      number of the host's command
    color        of the wavelet, whose 32 bits are `data`
    """

    element: int
    instruction: int = -1
    command: int = -1
    color: int = -1
    data: int = 0
    is_control: bool = False


def read_hit(hits: np.ndarray) -> Hit:
    """Decode the first hit among the hit words of a table; a hit without more than a mark has no element."""
    word = int(hits[np.flatnonzero(hits)[0]])
    element, above = (word & (1 << k.ELEMENT_BITS) - 1) - 2, word >> k.ELEMENT_BITS
    if word & k.MARK_WORD:
        color = word >> k.COLOR_SHIFT & 0x1F
        is_control = bool(word >> k.CONTROL_SHIFT & 1)
        return Hit(element, color=color, data=above & 0xFFFF_FFFF, is_control=is_control)
    if word & k.MARK_HOST:
        return Hit(element, command=(above & 0xFFFF_FFFF) - 1)
    return Hit(element, above - 1)
