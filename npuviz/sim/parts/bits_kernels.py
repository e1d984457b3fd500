"""Words by pointer, and bit tricks: what kernels need below numpy, with plain twins for uncompiled runs.

Kernels pass the root state as a bare pointer: an array argument costs a reference count, an atomic
operation, at every call (measured: 45 % of a run).
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils as _cgutils
from numba.core import config as _config
from numba.extending import intrinsic

config: Any = _config
cgutils: Any = _cgutils
_compile: Any = njit  # its stub lacks the options below

# No divisor of a kernel can be 0, and a test for it at every division costs time twice.
# Each says whether it becomes part of its callers: else numba takes that over from whoever calls it first.
_INNER = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_APART = {"forceinline": False}

entry: Any = _compile(cache=True, nogil=True, error_model="numpy")
"""Decorator of a kernel that Python calls. Only these are cached on disk."""

kernel: Any = _compile(**_INNER, **_APART)
"""Decorator of a function that only kernels call."""

inlined: Any = _compile(**_INNER, forceinline=True)
"""The same for small ones in hot loops."""

spliced: Any = _compile(**_INNER, inline="always", **_APART)
"""The same for parts of one large function: they are compiled with it only, not once more by themselves."""


@contextmanager
def light_optimisation() -> Generator[None]:
    """Compile with LLVM's first level inside: a third less time, and kernels run as fast (measured)."""
    before = config.OPT
    config.OPT = type(before)(1)
    try:
        yield
    finally:
        config.OPT = before


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
        # For reading or writing alike; to be kept in all caches; data.
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
    return words


def _plain_trailing_zeros(word: Any) -> int:
    value = int(word) & 0xFFFF_FFFF_FFFF_FFFF
    return (value & -value).bit_length() - 1


_is_plain = bool(getattr(config, "DISABLE_JIT", 0))

is_compiled = not _is_plain
"""Whether kernels are compiled in this process."""

pointer_to: Any = _plain_words if _is_plain else intrinsic(_pointer_to)
"""A bare pointer to the first element of an int64 array, which must outlive it."""

fetch: Any = _plain_fetch if _is_plain else intrinsic(_fetch)
"""Bring the cache line of a word nearer before it is read; changes nothing."""

stay_apart: Any = _plain_apart if _is_plain else intrinsic(_stay_apart)
"""Called in a large kernel: it does not become part of its callers, which would double what is compiled."""

trailing_zeros: Any = _plain_trailing_zeros if _is_plain else intrinsic(_count_trailing_zeros)
"""Number of zero bits below the lowest set bit of a non-zero 64-bit word."""
