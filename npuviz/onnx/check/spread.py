"""Computes the distribution of the errors of a tensor's elements."""

import math

import numpy as np

from npuviz.onnx.check.blocks import blocks
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
        parts = list(blocks(found.size))
        scale = max(_Block(found[part], reference[part]).magnitude for part in parts) or 1.0
        counts = np.zeros(NUM_BINS, np.int64)
        sums = np.zeros(5)
        first_lost, worst, largest = -1, 0, -1.0
        for part in parts:
            block = _Block(found[part], reference[part])
            a, b = block.a / scale, block.b / scale
            error = a - b
            distance = np.abs(error)
            counts += _counts(distance, block.same, block.lost)
            sums += (b @ b, error @ error, a @ a, a @ b, error.sum())
            if first_lost < 0 and block.lost.any():
                first_lost = part.start + int(block.lost.argmax())
            place = int(distance.argmax())
            if distance[place] > largest:
                worst, largest = part.start + place, float(distance[place])
    signal, noise, own, common, total = sums.tolist()
    is_lost = first_lost >= 0
    if is_lost:
        worst = first_lost
    return Spread(
        tuple(counts.tolist()),
        _decibels(signal, noise),
        _cosine(own, signal, common),
        total / found.size,
        math.inf if is_lost else largest,
        worst if is_lost or largest else -1,
        float(found[worst]),
        float(reference[worst]),
    )


class _Block:
    """A part of both tensors in float64: 0 where only equality counts, the elements that are the same, and
    those where it was lost."""

    def __init__(self, found: np.ndarray, reference: np.ndarray) -> None:
        a, b = found.astype(np.float64), reference.astype(np.float64)
        plain = np.abs(b) <= SENTINEL
        self.same: np.ndarray = (a == b) | (np.isnan(a) & np.isnan(b))
        self.lost: np.ndarray = ~self.same & ~(plain & np.isfinite(a))
        usable = plain & ~self.lost
        if not usable.all():
            a, b = np.where(usable, a, 0.0), np.where(usable, b, 0.0)
        self.a, self.b = a, b

    @property
    def magnitude(self) -> float:
        return float(np.abs(self.b).max())


def _counts(distance: np.ndarray, same: np.ndarray, lost: np.ndarray) -> np.ndarray:
    _, exponent = np.frexp(distance)
    # 0.5 <= mantissa < 1, so that 2**-3 has the exponent -2.
    places = np.clip(exponent - 1, SMALLEST_EXPONENT - 1, LARGEST_EXPONENT + 1) - SMALLEST_EXPONENT + 2
    places[distance == 0] = 1  # elements that differ only in a sentinel
    places[same] = 0
    places[lost] = NUM_BINS - 1
    return np.bincount(places, minlength=NUM_BINS)


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def _cosine(own: float, signal: float, common: float) -> float:
    """Return the cosine between two vectors, from their products with themselves and with each other."""
    size = math.sqrt(own * signal)
    if not size:
        return 0.0 if own or signal else 1.0
    return min(1.0, common / size)
