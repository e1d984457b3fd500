"""Ranges that cover a dimension."""


def blocks(count: int, step: int) -> list[tuple[int, int]]:
    """Half-open ranges of at most `step` that cover 0..count-1."""
    return [(start, min(count, start + step)) for start in range(0, count, max(1, step))]


def even_blocks(count: int, limit: int) -> list[tuple[int, int]]:
    """The fewest half-open ranges of at most `limit` that cover 0..count-1, of nearly equal length."""
    parts = max(1, -(-count // max(1, limit)))
    return blocks(count, -(-count // parts)) if count else []
