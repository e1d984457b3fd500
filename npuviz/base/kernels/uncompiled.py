"""How long machines of this process ran uncompiled, or waited for compiled kernels."""

_seconds = [0.0]


def add_uncompiled(seconds: float) -> None:
    """Count a stretch of time."""
    _seconds[0] += seconds


def uncompiled_seconds() -> float:
    """All of it so far."""
    return _seconds[0]
