"""Kernels of the values engine for functions that numpy lacks."""

import math

import numba as nb
import numpy as np

_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)

ERF = 0
GELU = 1
GELU_DX = 2

SCAN_ADD = 1
SCAN_SUBTRACT = 2
SCAN_MULTIPLY = 3
SCAN_MAXIMUM = 5
SCAN_MINIMUM = 6


@nb.njit(cache=True, nogil=True)
def normal_functions(values, function):
    """Replace each x of a flat float32 array by erf x, x * Phi(x) or the derivative of that."""
    for i in range(len(values)):
        x = float(values[i])
        if function == ERF:
            values[i] = np.float32(math.erf(x))
        else:
            phi = 0.5 * math.erfc(-x * _SQRT_HALF)
            if function == GELU:
                values[i] = np.float32(x * phi) if x > -40.0 or x != x else np.float32(-0.0)
            elif math.isinf(x):
                values[i] = np.float32(phi)
            else:
                values[i] = np.float32(phi + x * _INV_SQRT_2PI * math.exp(-0.5 * x * x))


@nb.njit(nogil=True)
def _combine(op, x, y):
    if op == SCAN_ADD:
        return x + y
    if op == SCAN_SUBTRACT:
        return x - y
    if op == SCAN_MULTIPLY:
        return x * y
    if op == SCAN_MAXIMUM:
        return y if y > x or y != y else x
    if op == SCAN_MINIMUM:
        return y if y < x or y != y else x
    return x


@nb.njit(cache=True, nogil=True)
def scan(a, b, initial, steps, out):
    """Compute r[i] = (a[i] op0 r[i-1]) op1 b[i] along the rows of float32 matrices, into `out`.

    initial  (rows,) float32: r[-1]
    steps    op0, whether its operands are swapped, op1, whether its operands are swapped; an operator is one
             of the SCAN constants, or 0 for the left operand
    """
    op0, reverse0, op1, reverse1 = steps
    for row in range(a.shape[0]):
        last = initial[row]
        for i in range(a.shape[1]):
            inner = _combine(op0, last, a[row, i]) if reverse0 else _combine(op0, a[row, i], last)
            last = _combine(op1, b[row, i], inner) if reverse1 else _combine(op1, inner, b[row, i])
            out[row, i] = last


@nb.njit(cache=True, nogil=True)
def match_and_replace(values, wanted, fill, indices):
    """Replace in every row the first occurrence not yet replaced of each wanted value, the last one first.

    values   (rows, n) float32, changed in place
    wanted   (rows, 8)
    indices  (rows, 8) uint32 out: where each was found, 0xFFFFFFFF for nowhere
    """
    rows, count = values.shape
    taken = np.zeros(count, np.bool_)
    for row in range(rows):
        taken[:] = False
        for k in range(wanted.shape[1] - 1, -1, -1):
            indices[row, k] = np.uint32(0xFFFFFFFF)
            for i in range(count):
                if not taken[i] and values[row, i] == wanted[row, k]:
                    taken[i] = True
                    indices[row, k] = np.uint32(i)
                    break
        for i in range(count):
            if taken[i]:
                values[row, i] = fill


@nb.njit(cache=True, nogil=True)
def find_first(values, wanted, indices):
    """Write into `indices` where each wanted value occurs first in its row, 0xFFFFFFFF for nowhere.

    A value that is wanted again takes its next occurrence.
    """
    rows, count = values.shape
    for row in range(rows):
        for k in range(wanted.shape[1]):
            indices[row, k] = np.uint32(0xFFFFFFFF)
            again = 0
            for before in range(k):
                again += wanted[row, before] == wanted[row, k]
            for i in range(count):
                if values[row, i] == wanted[row, k]:
                    if again == 0:
                        indices[row, k] = np.uint32(i)
                        break
                    again -= 1
