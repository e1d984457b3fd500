"""Find signed integers that exceed their type when they are computed. Unsigned ones wrap on purpose."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.elements import signed_16
from npuviz.targets.wavelet.kernels.log_numbers import LOG_WRAPPED
from npuviz.targets.wavelet.kernels.memory import wrapped
from npuviz.targets.wavelet.kernels.time.events import hazard


@kernel
def note_wrapped(wafer, pe, what, left, right):
    """Log a hazard if a sum, a difference or a product of signed integers exceeds its type.

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


@kernel
def note_wrapped_word(wafer, pe, thread, left, right):
    """Log a hazard if the sum or difference of an element of an operation on i16 variables is no i16."""
    is_sum = thread.op == isa.D_ADD16
    exact = signed_16(left) + signed_16(right) if is_sum else signed_16(left) - signed_16(right)
    if signed_16(exact) != exact:
        what = (isa.OP_ADD if is_sum else isa.OP_SUB) | (isa.T_I16 << 8)
        hazard(wafer, pe.node, LOG_WRAPPED, what, thread.line)
