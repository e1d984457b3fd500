"""Round and saturate integers that float64 arrays hold."""

import numpy as np

INT32 = (-(2.0**31), 2.0**31 - 1)
"""Limits of the 32-bit values between the stages."""


def rounded(values: np.ndarray, is_away: bool) -> np.ndarray:
    """Return the nearest integers; halves to even, or away from zero.

    Ref: TRM: 0 "if the integer is odd, carry 1", 1 "carry 1 no matter what the integer is". Assumed: the
    carry of a negative value goes away from zero, as in NVDLA.
    """
    if not is_away:
        return np.rint(values)
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


def shifted(values: np.ndarray, shift: int, is_away: bool) -> np.ndarray:
    """Return integers shifted right with rounding; exact as long as they are below 2^53."""
    return values if shift == 0 else rounded(np.ldexp(values, -shift), is_away)
