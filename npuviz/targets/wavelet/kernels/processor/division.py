"""What a division by a constant costs: compilers make something cheaper of it."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa


@kernel
def constant_division(program, op, kind, divisor):
    """Cycles beyond the table's of a division by a constant: shifts and masks, or a product with its inverse.

    Of floats only powers of two have an exact inverse.
    """
    cycles = program.divide
    if kind >= isa.T_F16:
        fraction = (1 << 23) - 1 if kind == isa.T_F32 else (1 << 10) - 1
        is_exact = kind <= isa.T_F32 and divisor & fraction == 0 and divisor != 0
        return 1 - program[program.costs + op] if is_exact else 0
    is_power = divisor > 0 and divisor & (divisor - 1) == 0
    is_signed = (kind & 1) == 1
    if is_power and not is_signed:
        cycles = 1
    elif op == isa.OP_REM:
        cycles += 2
    found = cycles - program[program.costs + op]
    return found if found < 0 else 0
