"""Bit tricks that compile to one instruction, with plain Python twins for uncompiled runs."""

from typing import Any

from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

if config.DISABLE_JIT:

    def trailing_zeros(word: int) -> int:
        """Number of zero bits below the lowest set bit of a non-zero 64-bit word."""
        value = int(word) & 0xFFFF_FFFF_FFFF_FFFF
        return (value & -value).bit_length() - 1

else:

    @intrinsic
    def _cttz(_context: Any, word: Any) -> Any:
        def generate(_cg: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), generate

    @njit(cache=True, nogil=True)
    def trailing_zeros(word: int) -> int:
        """Number of zero bits below the lowest set bit of a non-zero 64-bit word."""
        return _cttz(word)
