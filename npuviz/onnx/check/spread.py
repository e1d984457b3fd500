"""Computes the distribution of the errors of a tensor's elements."""

import math

import numpy as np

from npuviz.onnx.check.growth import SENTINEL
from npuviz.sim.check_result import LARGEST_EXPONENT, NUM_BINS, SMALLEST_EXPONENT, Spread


def spread_of(found: np.ndarray, reference: np.ndarray) -> Spread | None:
    """Compute the distribution of the errors of real numbers, both flat and of one size; None for other
    types.

    Where the reference is infinite, NaN or a sentinel for infinity, only equality counts.
    """
    if found.dtype.kind in "cOSU" or reference.dtype.kind in "cOSU" or not found.size:
        return None
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), reference.astype(np.float64)
        plain = np.abs(b) <= SENTINEL
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        lost = ~same & ~(plain & np.isfinite(a))
        usable = plain & ~lost
        if not usable.all():
            a, b = np.where(usable, a, 0.0), np.where(usable, b, 0.0)
        scale = float(np.abs(b).max()) or 1.0
        a, b = a / scale, b / scale
        error = a - b
    distance = np.abs(error)
    worst = int(lost.argmax()) if lost.any() else int(distance.argmax())
    is_off = bool(lost[worst] or distance[worst])
    return Spread(
        _counts(distance, same, lost),
        _decibels(float(b @ b), float(error @ error)),
        _cosine(a, b),
        float(error.mean()),
        math.inf if lost.any() else float(distance[worst]),
        worst if is_off else -1,
        float(found[worst]),
        float(reference[worst]),
    )


def _counts(distance: np.ndarray, same: np.ndarray, lost: np.ndarray) -> tuple[int, ...]:
    _, exponent = np.frexp(distance)
    # 0.5 <= mantissa < 1, so that 2**-3 has the exponent -2.
    places = np.clip(exponent - 1, SMALLEST_EXPONENT - 1, LARGEST_EXPONENT + 1) - SMALLEST_EXPONENT + 2
    places[distance == 0] = 1  # elements that differ only in a sentinel
    places[same] = 0
    places[lost] = NUM_BINS - 1
    return tuple(np.bincount(places, minlength=NUM_BINS).tolist())


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    size = math.sqrt(float(a @ a) * float(b @ b))
    if not size:
        return 1.0 if not a.any() and not b.any() else 0.0
    return min(1.0, float(a @ b) / size)
