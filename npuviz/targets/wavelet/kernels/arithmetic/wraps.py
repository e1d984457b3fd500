"""Signed integers that their type does not hold: noted when they are computed. Others wrap on purpose."""

import numpy as np

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.memory import wrapped
from npuviz.targets.wavelet.kernels.time.events import hazard

LOG_WRAPPED = np.int64(22)
"""Number as in `records`; value: the OP_ number | the type << 8."""


@kernel
def note_wrapped(wafer, pe, op, kind, left, right):
    """A sum, a difference or a product of signed integers that its type does not hold is a finding."""
    exact = left * right
    if op == isa.OP_ADD:
        exact = left + right
    elif op == isa.OP_SUB:
        exact = left - right
    if wrapped(exact, kind) != exact:
        hazard(wafer, pe.node, LOG_WRAPPED, op | (kind << 8), pe.line)
