"""Compute the cycles of divisions: cheaper by a constant divisor, longer for floats."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa


@kernel
def division(program, instruction):
    """Return the cycles of OP_DIV and OP_REM beyond those of the cost table.

    Division by a constant takes shifts and masks, or a product with its inverse; of floats only powers of two
    have an exact inverse. Other float divisions take the cycles of the math function `inverse`.
    """
    op, kind, divisor = instruction.op, instruction.type, instruction.imm
    is_constant = instruction.c < 0
    if kind >= isa.T_F16:
        fraction = (1 << 23) - 1 if kind == isa.T_F32 else (1 << 10) - 1
        is_exact = is_constant and kind <= isa.T_F32 and divisor & fraction == 0 and divisor != 0
        return (1 if is_exact else program[program.math + isa.M_INVERSE]) - program[program.costs + op]
    if not is_constant:
        return 0
    cycles = program.divide
    is_power = divisor > 0 and divisor & (divisor - 1) == 0
    is_signed = (kind & 1) == 1
    if is_power and not is_signed:
        cycles = 1
    elif op == isa.OP_REM:
        cycles += 2
    found = cycles - program[program.costs + op]
    return found if found < 0 else 0
