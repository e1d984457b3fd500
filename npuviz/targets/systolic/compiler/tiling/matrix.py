"""Tile sizes of matrix products in true mode: fit the halves, keep every core busy, move little.

Ref: systolic.md section 16, F1 and F3: work is split by the core count whatever the shape, and an
inner size is never 0. The estimate below ranks candidates only; it is not the simulated time.
"""

from dataclasses import dataclass
from functools import lru_cache

from npuviz.targets.systolic.compiler.tiling.dataflow import array_cycles
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Resources, ceil_div, round_up

ISSUE_CYCLES = 32
"""Assumed: cycles that a tile takes in addition to its loads and products."""


MAX_RANKED = 64
"""Number of best tilings that are kept."""


@dataclass(frozen=True, slots=True)
class MatrixTiling:
    """Largest sizes of a tile: rows of the result, its columns, and the part of the reduction."""

    rows: int
    columns: int
    depth: int


@lru_cache(maxsize=4096)
def rank_matrix_tilings(
    resources: Resources, batch: int, rows: int, columns: int, depth: int, item: int, extra_loads: int = 0
) -> tuple[MatrixTiling, ...]:
    """Rank tiles for `batch` products of (rows x depth) by (depth x columns), best estimate first.

    item  bytes of an element; extra_loads: bytes per output element loaded for the epilogue
    """
    found: list[tuple[bool, float, MatrixTiling]] = []
    for tile_rows in sizes_to_try(rows, resources.row_block, resources.num_cores):
        for tile_columns in sizes_to_try(columns, resources.column_block, resources.num_cores):
            deepest = _deepest(resources, tile_rows, tile_columns, depth, item, extra_loads)
            groups = batch * ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns)
            for tile_depth in depths_to_try(deepest, resources.array_rows):
                tiling = MatrixTiling(tile_rows, tile_columns, tile_depth)
                cost = _cost(resources, batch, rows, columns, depth, item, tiling)
                # Idle cores only where there is no work to share.
                found.append((groups < resources.num_cores, cost, tiling))
    return tuple(tiling for _, _, tiling in sorted(found, key=lambda item: item[:2])[:MAX_RANKED])


def fits_matrix(resources: Resources, depth: int, item: int, extra_loads: int, tiling: MatrixTiling) -> bool:
    """Return whether a tile of these sizes fits the halves of a core."""
    return tiling.depth <= _deepest(resources, tiling.rows, tiling.columns, depth, item, extra_loads)


def depths_to_try(deepest: int, step: int) -> list[int]:
    """Return parts of the reduction to try: shallower ones start sooner, but make more tiles."""
    if deepest == 0:
        return []
    found = [deepest]
    for count in (2, 4, 8):
        part = round_up(ceil_div(deepest, count), step)
        if part < found[-1]:
            found.append(part)
    return found


def sizes_to_try(total: int, step: int, parts: int) -> list[int]:
    """Return tile sizes to try along a dimension: whole, even shares, and multiples of the array."""
    if total <= step:
        return [total]
    found = {total}
    for count in (2, 3, 4, 6, 8, 12, 16, 24, 32, parts, 2 * parts, 4 * parts):
        found.add(min(total, round_up(ceil_div(total, count), step)))
    for power in range(12):
        found.add(min(total, step << power))
    return sorted(found)


def _deepest(resources: Resources, rows: int, columns: int, depth: int, item: int, extra_loads: int) -> int:
    """Return the largest part of the reduction that fits with this many rows and columns; 0: none."""
    if _blocks_bytes(resources, rows, columns) > resources.acc_half:
        return 0
    num_entries = ceil_div(rows, resources.row_block) + 2 * ceil_div(columns, resources.column_block)
    slack = num_entries * resources.request_bytes
    space = resources.spad_half - slack - columns * ACC_BYTES - extra_loads * rows * columns
    fitting = space // ((rows + columns) * item)
    if fitting >= depth:
        return depth
    return max(0, fitting // resources.array_rows * resources.array_rows)


def _blocks_bytes(resources: Resources, rows: int, columns: int) -> int:
    """Return the accumulator bytes of the result, every block rounded up to the request size."""
    blocks = ceil_div(rows, resources.row_block) * ceil_div(columns, resources.column_block)
    return rows * columns * ACC_BYTES + blocks * resources.request_bytes


def _cost(
    resources: Resources, batch: int, rows: int, columns: int, depth: int, item: int, tiling: MatrixTiling
) -> float:
    groups = batch * ceil_div(rows, tiling.rows) * ceil_div(columns, tiling.columns)
    rounds = ceil_div(groups, resources.num_cores)
    compute = array_cycles(resources, tiling.rows, tiling.columns, depth)
    loads = (tiling.rows + tiling.columns) * depth * item
    traffic = groups * loads
    memory = max(traffic / resources.bytes_per_cycle, rounds * loads / resources.core_bytes_per_cycle)
    share = min(resources.core_bytes_per_cycle, resources.bytes_per_cycle / min(groups, resources.num_cores))
    first_load = loads * (tiling.depth / depth) / share
    drain = 2 * resources.array_rows + tiling.rows + tiling.rows * tiling.columns * item / share
    tiles = rounds * ceil_div(depth, tiling.depth)
    # The first products wait for the first loads, the last ones follow the last loads.
    part = tiling.depth / depth
    body = max(first_load + rounds * compute, memory + compute * part)
    return body + drain + tiles * ISSUE_CYCLES
