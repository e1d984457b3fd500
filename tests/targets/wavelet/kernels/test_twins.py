"""Arithmetic computes the same bits uncompiled: every operation, on numbers of all sizes and edges."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit as _njit

from npuviz.base.kernels.twins import plain_twin
from npuviz.sim.parts.bits_kernels import is_compiled
from npuviz.targets.wavelet.kernels import isa, memory
from npuviz.targets.wavelet.kernels.arithmetic import elements, registers
from tests.sweeps import quick

pytestmark = pytest.mark.skipif(not is_compiled, reason="there are no kernels")
njit: Any = _njit(error_model="numpy")

COUNT = 60
"""Random operands of each operation and type, beside all pairs of edges."""
TYPES = range(isa.T_U8, isa.T_CB16 + 1)
SIZES = (8, 8, 16, 16, 32, 32, 64, 64, 16, 32, 16, 16)
FLOATS = {isa.T_F16: (5, 10), isa.T_F32: (8, 23), isa.T_BF16: (8, 7), isa.T_CB16: (6, 9)}
BINARY = range(isa.OP_ADD, isa.OP_MAX + 1)
UNARY = range(isa.OP_NEG, isa.OP_ABS + 1)
COMPARE = range(isa.OP_EQ, isa.OP_GE + 1)
FUNCTIONS = range(isa.M_SQRT, isa.M_LDEXP + 1)
ELEMENTS = range(isa.D_MOV16, isa.D_DFILT)


@njit
def binary(cases, out):
    for i in range(len(cases)):
        out[i] = registers.binary(cases[i, 0], cases[i, 1], cases[i, 2], cases[i, 3])


@njit
def unary(cases, out):
    for i in range(len(cases)):
        out[i] = registers.unary(cases[i, 0], cases[i, 1], cases[i, 2])


@njit
def compare(cases, out):
    for i in range(len(cases)):
        out[i] = registers.compare(cases[i, 0], cases[i, 1], cases[i, 2], cases[i, 3])


@njit
def converted(cases, out):
    for i in range(len(cases)):
        out[i] = registers.converted(cases[i, 2], cases[i, 1], cases[i, 0])


@njit
def function(cases, out):
    for i in range(len(cases)):
        out[i] = registers.function_of(cases[i, 0], cases[i, 1], cases[i, 2], cases[i, 3])


@njit
def element(cases, out):
    for i in range(len(cases)):
        words = cases[i, 2], cases[i, 3], cases[i, 4]
        out[i] = elements.element(cases[i, 0], words, cases[i, 1], cases[i, 5])


@njit
def stored(cases, out):
    words = np.zeros(8, np.int64)
    for i in range(len(cases)):
        address, size = cases[i, 3] & 31, memory.size_of(cases[i, 1])
        memory.store_bytes(words, 0, address, size, cases[i, 2])
        loaded = memory.load_bytes(words, 0, address, size)
        out[i] = loaded ^ words[0] ^ words[1] ^ words[2] ^ words[3] ^ words[4]


def edges(kind: int) -> list[int]:
    """Words of a type at which something changes."""
    size = SIZES[kind]
    if kind in FLOATS:
        exponent, mantissa = FLOATS[kind]
        top = ((1 << exponent) - 1) << mantissa
        one = ((1 << (exponent - 1)) - 1) << mantissa
        found = [0, 1, (1 << mantissa) - 1, 1 << mantissa, one, one + 1, one + (1 << mantissa), top - 1]
        found += [top, top + 1, top | 1 << (mantissa - 1)]
        return found + [word | 1 << (size - 1) for word in found]
    low, high = (0, (1 << size) - 1) if kind % 2 == 0 else (-(1 << (size - 1)), (1 << (size - 1)) - 1)
    return [as_word(each) for each in {low, low + 1, 0, 1, 2, 3, 7, 31, size - 1, size, high - 1, high}]


def as_word(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def operands(kind: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 3) int64: words of a type, as registers hold them."""
    found = np.array(edges(kind), np.int64)
    pairs = np.array([(a, b, b) for a in found for b in found])
    random = rng.integers(-(1 << 63), 1 << 63, (COUNT, 3), np.int64) >> rng.integers(0, 63, (COUNT, 3))
    if kind in FLOATS:
        random &= (1 << SIZES[kind]) - 1
    else:
        random = np.array([[as_word(memory_wrapped(int(each), kind)) for each in row] for row in random])
    return np.concatenate((pairs, random, rng.choice(found, (COUNT, 3))))


def memory_wrapped(number: int, kind: int) -> int:
    size = SIZES[kind]
    number %= 1 << size
    return number - (1 << size) if kind % 2 and number >> (size - 1) else number


def cases_of(operations: range, kinds: range | tuple[int, ...]) -> np.ndarray:
    """(n, 6) int64: operation, type, three operands, 0 or 1."""
    rng = np.random.default_rng(5)
    parts: list[np.ndarray] = []
    for kind in kinds:
        words = operands(kind, rng)
        for operation in operations:
            heads = np.tile(np.array([operation, kind]), (len(words), 1))
            parts.append(np.hstack((heads, words, rng.integers(0, 2, (len(words), 1)))))
    return np.concatenate(parts)


@quick(but=["element*"])
@pytest.mark.parametrize(
    ("driver", "operations", "kinds"),
    [
        (binary, BINARY, TYPES),
        (unary, UNARY, TYPES),
        (compare, COMPARE, TYPES),
        (converted, TYPES, TYPES),
        (function, FUNCTIONS, TYPES),
        (element, ELEMENTS, (isa.T_F16, isa.T_BF16, isa.T_CB16, isa.T_F32)),
        (stored, range(1), TYPES),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
def test_uncompiled_arithmetic_has_the_same_bits(
    driver: Callable[..., None], operations: range, kinds: range | tuple[int, ...]
) -> None:
    cases = cases_of(operations, kinds)
    compiled, plain = np.zeros(len(cases), np.int64), np.zeros(len(cases), np.int64)
    driver(cases, compiled)
    # As kernels have them: the state gives numbers of Python, and cuts what it is given to words.
    with np.errstate(all="ignore"):
        plain_twin(driver)(AsPython(cases), AsPython(plain))
    different = np.flatnonzero(compiled != plain)
    found = [(cases[i].tolist(), int(compiled[i]), int(plain[i])) for i in different[:5]]
    assert not len(different), f"{len(different)} of {len(cases)}: {found}"


class AsPython:
    """An array whose elements are read as numbers of Python and cut to a word where they are stored."""

    def __init__(self, words: np.ndarray) -> None:
        self.words = words

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: Any) -> int:
        return int(self.words[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.words[index] = as_word(int(value))
