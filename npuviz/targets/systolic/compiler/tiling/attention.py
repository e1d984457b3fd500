"""Tile sizes of attention: query rows and keys per tile, with the scores kept in the accumulator."""

from dataclasses import dataclass
from functools import lru_cache

from npuviz.targets.systolic.compiler.tiling.dataflow import array_cycles
from npuviz.targets.systolic.compiler.tiling.matrix import ISSUE_CYCLES
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Resources, ceil_div, round_up

ROW_VECTORS = 4
"""Numbers kept per row beside scores and results: maximum, sum, and two for work."""
VECTOR_STEPS = 6
"""Vector instructions over the scores, about: scale, subtract, exponent, two reductions, correction."""


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Sizes of an attention: `group` query heads share a head of keys and values.

    features, value_features  of a query or key, and of a value
    item, mask_item  bytes of an element, and of the mask's (0: no mask)
    """

    batch: int
    kv_heads: int
    group: int
    queries: int
    keys: int
    features: int
    value_features: int
    item: int
    mask_item: int = 0


@dataclass(frozen=True, slots=True)
class AttentionTiling:
    """Largest tile: query rows of each head of the group, and keys."""

    queries: int
    keys: int


@lru_cache(maxsize=4096)
def choose_attention_tiling(resources: Resources, sizes: AttentionSizes) -> AttentionTiling | None:
    """Return the best tile, None if nothing fits."""
    best: tuple[float, AttentionTiling] | None = None
    for queries in _shares(sizes.queries, 1):
        for keys in _shares(sizes.keys, resources.column_block):
            tiling = AttentionTiling(queries, keys)
            if _fits(resources, sizes, tiling):
                cost = _cost(resources, sizes, tiling)
                if best is None or cost < best[0]:
                    best = cost, tiling
    return None if best is None else best[1]


def _shares(size: int, step: int) -> list[int]:
    """Return sizes to try: the whole, and even shares rounded up to whole blocks."""
    counts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024)
    found = {min(size, round_up(ceil_div(size, count), step)) for count in counts}
    return sorted(found | {min(size, step)}, reverse=True)


def _fits(resources: Resources, sizes: AttentionSizes, tiling: AttentionTiling) -> bool:
    rows, slack = sizes.group * tiling.queries, 8 * resources.request_bytes
    acc = rows * (tiling.keys + sizes.value_features + ROW_VECTORS) * ACC_BYTES
    spad = (rows * sizes.features + tiling.keys * (sizes.features + sizes.value_features)) * sizes.item
    spad += rows * tiling.keys * sizes.mask_item
    return acc + slack <= resources.acc_half and spad + slack <= resources.spad_half


def _cost(resources: Resources, sizes: AttentionSizes, tiling: AttentionTiling) -> float:
    groups = sizes.batch * sizes.kv_heads * ceil_div(sizes.queries, tiling.queries)
    parts = ceil_div(sizes.keys, tiling.keys)
    rows = sizes.group * tiling.queries
    products = array_cycles(resources, rows, tiling.keys, sizes.features)
    products += array_cycles(resources, rows, sizes.value_features, tiling.keys)
    vector = VECTOR_STEPS * ceil_div(rows * tiling.keys * ACC_BYTES, resources.vector_bytes) + 2 * rows
    loads = (rows * sizes.features + sizes.keys * (sizes.features + sizes.value_features)) * sizes.item
    rounds = ceil_div(groups, resources.num_cores)
    memory = max(groups * loads / resources.bytes_per_cycle, rounds * loads / resources.core_bytes_per_cycle)
    return max(memory, rounds * parts * (products + vector + ISSUE_CYCLES))
