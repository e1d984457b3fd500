"""How far a machine's tensor is from the reference, and which of its elements are too far."""

import numpy as np

TOLERANCES = {
    "float32": (1e-3, 1e-4),
    "float16": (1e-2, 2e-2),
    "bfloat16": (5e-2, 1e-1),
    "float8": (5e-1, 5e-1),
}
"""Error allowed by the coarsest type on the way to a tensor: relative to the element, and relative to
the largest magnitude of the tensor; the sum counts. The first of float32 is that of ONNX's own tests."""

_LARGEST = {"float16": 65504.0}
"""Largest number of the types that a model's values do leave; what is beyond becomes infinite."""

Errors = tuple[np.ndarray, float, float]
"""Wrong elements (flat bool), the largest absolute error, the same relative to the largest magnitude."""


def integer_errors(found: np.ndarray, expected: np.ndarray, step: int) -> Errors:
    """Errors of integers; `step` is the distance that is allowed."""
    distance = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    bad = found != expected if not step else distance > step
    return bad, float(distance.max()), 0.0 if not bad.any() else float("inf")


def float_errors(found: np.ndarray, expected: np.ndarray, exact: np.ndarray, dtype: str) -> Errors:
    """Errors of floats.

    expected  the reference as the type in HBM holds it; exact  before that; dtype  a key of TOLERANCES
    """
    # Bits that are signalling NaNs are values like others here.
    with np.errstate(invalid="ignore"):
        a, b = _within_range(found.astype(np.float64), expected.astype(np.float64), exact, dtype)
        finite = np.isfinite(b)
        scale = float(np.abs(b[finite]).max()) if finite.any() else 0.0
        of_element, of_tensor = TOLERANCES[dtype]
        distance = np.abs(a - b)
        # An infinite reference would allow any error.
        bad = ~(finite & (distance <= of_element * np.abs(b) + of_tensor * scale))
    bad &= ~((a == b) | (np.isnan(a) & np.isnan(b)))
    usable = finite & np.isfinite(a)
    absolute = float(distance[usable].max()) if usable.any() else 0.0
    if (finite & ~usable).any():
        absolute = float("inf")
    return bad, absolute, absolute / scale if scale else (float("inf") if absolute else 0.0)


def _within_range(
    found: np.ndarray, expected: np.ndarray, exact: np.ndarray, dtype: str
) -> tuple[np.ndarray, np.ndarray]:
    """Both sides with infinities that only the type's range made as the largest number.

    Beside the largest number of a type, an allowed error decides whether a value is infinite.
    """
    largest = _LARGEST.get(dtype)
    if largest is None:
        return found, expected
    beyond = (np.isinf(found) | np.isinf(expected)) & np.isfinite(exact)
    if not beyond.any():
        return found, expected
    return (
        np.where(beyond, np.clip(found, -largest, largest), found),
        np.where(beyond, np.clip(expected, -largest, largest), expected),
    )
