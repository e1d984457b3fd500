"""Read and write words that threads share, whole and in order, with plain twins for uncompiled runs."""

import os
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils

from npuviz.sim.parts.bits_kernels import intrinsic_or

_WORD_BYTES = 8
cgutils: Any = _cgutils
_words = types.CPointer(types.int64)


def _load_word(_context: Any, words: Any, index: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.gep(args[0], [args[1]]), "acquire", _WORD_BYTES)

    return types.int64(_words, types.int64), generate


def _store_word(_context: Any, words: Any, index: Any, value: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], builder.gep(args[0], [args[1]]), "release", _WORD_BYTES)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(_words, types.int64, types.int64), generate


def _add_word(_context: Any, words: Any, index: Any, value: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), args[2], "acq_rel")

    return types.int64(_words, types.int64, types.int64), generate


def _replace_word(_context: Any, words: Any, index: Any, old: Any, new: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        place = builder.gep(args[0], [args[1]])
        pair = builder.cmpxchg(place, args[2], args[3], "acq_rel", "acquire")
        return builder.zext(builder.extract_value(pair, 1), ir.IntType(64))

    return types.int64(_words, types.int64, types.int64, types.int64), generate


def _give_way(_context: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(), generate


def _plain_way() -> int:
    return 0


def _plain_load(words: Any, index: Any) -> Any:
    return words[index]


def _plain_store(words: Any, index: Any, value: Any) -> int:
    words[index] = value
    return 0


def _plain_add(words: Any, index: Any, value: Any) -> Any:
    before = words[index]
    words[index] = before + value
    return before


def _plain_replace(words: Any, index: Any, old: Any, new: Any) -> int:
    if words[index] != old:
        return 0
    words[index] = new
    return 1


load_word: Any = intrinsic_or(_load_word, _plain_load)
"""Read a word; everything that its writer did before `store_word` is then visible."""

store_word: Any = intrinsic_or(_store_word, _plain_store)
"""Write a word after everything done before is visible to its readers."""

add_word: Any = intrinsic_or(_add_word, _plain_add)
"""Add to a word; return its value before."""

give_way: Any = intrinsic_or(_give_way, _plain_way)
"""Let the system run another thread for whose word this one waits."""

replace_word: Any = intrinsic_or(_replace_word, _plain_replace)
"""Write a word if it is still `old`; return 1 if so, else 0."""
