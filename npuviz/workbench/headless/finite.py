"""Numbers for JSON, which has neither infinity nor NaN."""

import math


def finite(value: float) -> float | None:
    """The number, None where it is none."""
    return float(value) if math.isfinite(value) else None
