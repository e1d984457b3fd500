"""Divide a dimension into ranges."""

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.streams.emitter import MAX_INSTRUCTIONS


def blocks(count: int, step: int) -> list[tuple[int, int]]:
    """Divide 0..count-1 into half-open ranges of `step`, the last of at most that.

    Raises CannotLower if there are more ranges than an operator may have instructions.
    """
    if count > MAX_INSTRUCTIONS * max(1, step):
        raise CannotLower("more instructions than one operator may have", change="smaller tensors")
    return [(start, min(count, start + step)) for start in range(0, count, max(1, step))]


def even_blocks(count: int, limit: int) -> list[tuple[int, int]]:
    """Divide 0..count-1 into the fewest half-open ranges of at most `limit`, of nearly equal length."""
    parts = max(1, -(-count // max(1, limit)))
    return blocks(count, -(-count // parts)) if count else []
