"""Words by pointer, and bit tricks: what kernels need below numpy, with plain twins for uncompiled runs.

Kernels pass the root state as a bare pointer: an array argument costs a reference count, an atomic
operation, at every call (measured: 45 % of a run).
"""

from typing import Any

from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

entry = njit(cache=True, nogil=True)
"""Decorator of a kernel that Python calls. Only these are cached on disk."""

kernel = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorator of a function that only kernels call."""

inlined = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)
"""The same for small ones in hot loops."""

if config.DISABLE_JIT:

    def pointer_to(words: Any) -> Any:
        """The words themselves; compiled: a bare pointer to a one-dimensional int64 array."""
        return words

    def trailing_zeros(word: int) -> int:
        """Number of zero bits below the lowest set bit of a non-zero 64-bit word."""
        value = int(word) & 0xFFFF_FFFF_FFFF_FFFF
        return (value & -value).bit_length() - 1

else:

    @intrinsic
    def pointer_to(_context: Any, words: Any) -> Any:
        """A bare pointer to the first element of an int64 array, which must outlive it."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.make_array(signature.args[0])(context, builder, args[0]).data

        return types.CPointer(types.int64)(words), generate

    @intrinsic
    def _cttz(_context: Any, word: Any) -> Any:
        def generate(_cg: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), generate

    @inlined
    def trailing_zeros(word: int) -> int:
        """Number of zero bits below the lowest set bit of a non-zero 64-bit word."""
        return _cttz(word)
