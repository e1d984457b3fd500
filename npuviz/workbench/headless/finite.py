"""Numbers for JSON, which has neither infinity nor NaN."""

import math


def finite(value: float) -> float | None:
    """Return the number, None for infinity and NaN."""
    return float(value) if math.isfinite(value) else None
