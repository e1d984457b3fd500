"""Signed integers that their type does not hold: noted when they are computed. Others wrap on purpose."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.log_numbers import LOG_WRAPPED
from npuviz.targets.wavelet.kernels.memory import wrapped
from npuviz.targets.wavelet.kernels.time.events import hazard


@kernel
def note_wrapped(wafer, pe, what, left, right):
    """A sum, a difference or a product of signed integers that its type does not hold is a finding.

    what  operation | type << 8
    """
    op, kind = what & 0xFF, what >> 8
    exact = left * right
    if op == isa.OP_ADD:
        exact = left + right
    elif op == isa.OP_SUB:
        exact = left - right
    if wrapped(exact, kind) != exact:
        hazard(wafer, pe.node, LOG_WRAPPED, what, pe.line)
