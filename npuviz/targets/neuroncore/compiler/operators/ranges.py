"""Ranges that cover a dimension."""

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.streams.emitter import MAX_INSTRUCTIONS


def blocks(count: int, step: int) -> list[tuple[int, int]]:
    """Return the half-open ranges of at most `step` that cover 0..count-1.

    Raises CannotLower when they are more than an operator's instructions: each takes one at least.
    """
    if count > MAX_INSTRUCTIONS * max(1, step):
        raise CannotLower("more instructions than one operator may have", change="smaller tensors")
    return [(start, min(count, start + step)) for start in range(0, count, max(1, step))]


def even_blocks(count: int, limit: int) -> list[tuple[int, int]]:
    """Return the fewest half-open ranges of at most `limit` that cover 0..count-1, of nearly equal length."""
    parts = max(1, -(-count // max(1, limit)))
    return blocks(count, -(-count // parts)) if count else []
