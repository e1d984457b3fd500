"""Give kernels bare pointers to words, and bit tricks that numpy lacks, with plain twins for uncompiled runs.

Kernels pass the root state as a bare pointer: an array argument costs a reference count, an atomic
operation, at every call (measured: 45 % of a run).
"""

import ctypes
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner
from npuviz.base.kernels.twins import stand_in

cgutils: Any = _cgutils
_compile: Any = njit  # its stub lacks the options below

# No divisor of a kernel can be 0, and testing each divisor costs time twice.
_INNER = {"error_model": "numpy"}
_APART = {"forceinline": False}
_GROUP = "machine"

entry: Any = entries.entry(_GROUP, is_light=True, error_model="numpy")
"""Decorate a kernel that Python calls, see npuviz.base.kernels.entries. Only these are cached on disk."""

optimised_entry: Any = entries.entry(_GROUP, error_model="numpy")
"""Decorate a kernel that Python calls and that LLVM's level 1 makes slower (measured): compiling takes half
as long again."""

kernel: Any = inner(**_INNER, **_APART)
"""Decorate a function that only kernels call."""

inlined: Any = inner(**_INNER, forceinline=True)
"""Decorate a small function in a hot loop that only kernels call: it is inlined by LLVM."""

spliced: Any = inner(**_INNER, inline="always", **_APART)
"""Decorate a part of one large function: numba compiles it inside that function, not once more by itself."""


def _pointer_to(_context: Any, words: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(types.int64)(words), generate


def _count_trailing_zeros(_context: Any, word: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _fetch(_context: Any, words: Any, index: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
        # Prefetch for reading (0), into all caches (3), as data (1).
        builder.call(function, [place, number(0), number(3), number(1)])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.CPointer(types.int64), types.int64), generate


def _stay_apart(_context: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        builder.function.attributes.add("noinline")
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(), generate


def _plain_apart() -> int:
    return 0


def _plain_fetch(_words: Any, _index: Any) -> int:
    return 0


def _plain_words(words: Any) -> Any:
    """Return the same words as a ctypes array, which cuts numbers of any size to 64 bits when they are
    stored."""
    return (ctypes.c_int64 * len(words)).from_buffer(words)


def _plain_trailing_zeros(word: Any) -> int:
    value = int(word)
    return (value & -value).bit_length() - 1


def intrinsic_or(generate: Any, plain: Any) -> Any:
    """Return an intrinsic, which twins see as the function `plain`; return `plain` if nothing is compiled."""
    return plain if entries.is_plain else stand_in(intrinsic(generate), plain)


is_compiled = not entries.is_plain
"""Whether kernels are compiled in this process."""

pointer_to: Any = intrinsic_or(_pointer_to, _plain_words)
"""Return a bare pointer to the first element of an int64 array, which must live longer than the pointer."""

fetch: Any = intrinsic_or(_fetch, _plain_fetch)
"""Prefetch the cache line of a word before it is read; changes nothing else."""

stay_apart: Any = intrinsic_or(_stay_apart, _plain_apart)
"""Keep the large kernel that calls this from being inlined into its callers, which would double the code to
compile."""

trailing_zeros: Any = intrinsic_or(_count_trailing_zeros, _plain_trailing_zeros)
"""Number of zero bits below the lowest set bit of a non-zero 64-bit word."""
