"""Float arithmetic with negated operands, as LLVM writes it without fast-math flags: equal values."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.lower.data_memory import scalar_bits
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering


def without_negation(
    f: FunctionLowering, symbol: str, register: int, imm: int, kind: t.Type
) -> tuple[str, int]:
    """The operator and second register of a float operation: "-x" for `x * -1`, `x - y` for `x + -y`.

    The second operand is `register`, or the constant `imm` if that is -1.
    Ref: LLVM, InstCombineMulDivRem.cpp and InstCombineAddSub.cpp.
    """
    if not isinstance(kind, t.FloatType):
        return symbol, register
    if symbol == "*" and register < 0 and imm == scalar_bits(kind, -1.0):
        return "-x", register
    if symbol not in ("+", "-") or register < 0:
        return symbol, register
    source = f.emitter.drop_negation(register)
    return (symbol, register) if source < 0 else ("-" if symbol == "+" else "+", source)
