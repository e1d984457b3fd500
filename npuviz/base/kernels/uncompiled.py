"""Count how long machines of this process ran uncompiled or waited for compiled kernels."""

_seconds = [0.0]


def add_uncompiled(seconds: float) -> None:
    """Add a stretch of time, in seconds."""
    _seconds[0] += seconds


def uncompiled_seconds() -> float:
    """Return the time counted so far, in seconds."""
    return _seconds[0]
