"""Simplify float arithmetic with negated operands, as LLVM does without fast-math flags: values stay equal.

Ref: LLVM, InstCombineMulDivRem.cpp and InstCombineAddSub.cpp.
"""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.lower.data_memory import scalar_bits
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering
from npuviz.targets.wavelet.csl.lower.operands import Held, Operand


def is_negation(symbol: str, register: int, imm: int, kind: t.Type) -> bool:
    """Return whether this is `x * -1` of floats; if `register` is negative, the constant `imm` is the second
    operand."""
    if symbol != "*" or register >= 0 or not isinstance(kind, t.FloatType):
        return False
    return imm == scalar_bits(kind, -1.0)


def without_negation(f: FunctionLowering, symbol: str, right: Operand, mark: int) -> tuple[str, Operand]:
    """Return operator and second operand of an operation: `x - y` for `x + -y` of floats, `x + y` for `x -
    -y`.

    mark  registers from this one on hold values of this operation alone: nothing else uses the negation
    """
    if symbol not in ("+", "-") or not isinstance(right, Held) or right.register < mark:
        return symbol, right
    if not isinstance(right.kind, t.FloatType):
        return symbol, right
    source = f.emitter.drop_negation(right.register)
    if source < 0:
        return symbol, right
    while f.registers.next <= source:
        f.take()  # it was released with the negation; the other operand may still have to be loaded
    return "-" if symbol == "+" else "+", Held(right.kind, source)
