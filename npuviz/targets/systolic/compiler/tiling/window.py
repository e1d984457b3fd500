"""Tile sizes of convolutions in true mode: split over output rows, columns and channels.

Ref: systolic.md section 16, F2: convolutions are split over the cores. The estimate ranks candidates
only; it is not the simulated time.
"""

from dataclasses import dataclass
from functools import lru_cache

from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.targets.systolic.compiler.tiling.dataflow import array_cycles
from npuviz.targets.systolic.compiler.tiling.matrix import (
    ISSUE_CYCLES,
    MAX_RANKED,
    depths_to_try,
    sizes_to_try,
)
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Resources, ceil_div


@dataclass(frozen=True, slots=True)
class WindowTiling:
    """Largest sizes of a tile: output rows and columns, output and input channels."""

    rows: int
    columns: int
    outputs: int
    inputs: int


@dataclass(frozen=True, slots=True)
class WindowProblem:
    """A convolution as the tiling sees it.

    copies    batch times groups
    outputs, inputs  channels of one group
    item, weight_item  bytes of an element of the activations and of the weights
    residual  whether a tensor like the output is loaded too
    is_array  whether the array works (else the vector unit, without weights per output)
    """

    copies: int
    height: WindowAxis
    width: WindowAxis
    outputs: int
    inputs: int
    item: int
    weight_item: int
    residual: bool = False
    is_array: bool = True


@lru_cache(maxsize=4096)
def rank_window_tilings(resources: Resources, problem: WindowProblem) -> tuple[WindowTiling, ...]:
    """Rank tiles of a convolution, best estimate first."""
    found: list[tuple[bool, float, WindowTiling]] = []
    step = resources.column_block
    for rows in _shares(problem.height.out, resources.num_cores):
        for columns in _widths(problem.width.out, rows):
            for outputs in sizes_to_try(problem.outputs, step, resources.num_cores):
                deepest = _deepest(resources, problem, rows, columns, outputs)
                steps = depths_to_try(deepest, resources.array_rows)
                for inputs in steps if problem.is_array else steps[:1]:
                    tiling = WindowTiling(rows, columns, outputs, inputs)
                    # Idle cores only where there is no work to share.
                    is_narrow = _groups(problem, tiling) < resources.num_cores
                    found.append((is_narrow, _cost(resources, problem, tiling), tiling))
    return tuple(tiling for _, _, tiling in sorted(found, key=lambda item: item[:2])[:MAX_RANKED])


def fits_window(resources: Resources, problem: WindowProblem, tiling: WindowTiling) -> bool:
    """Return whether a tile of these sizes fits the halves of a core."""
    return tiling.inputs <= _deepest(resources, problem, tiling.rows, tiling.columns, tiling.outputs)


def _groups(problem: WindowProblem, tiling: WindowTiling) -> int:
    """Count tiles, those of one accumulation once."""
    return (
        problem.copies
        * ceil_div(problem.height.out, tiling.rows)
        * ceil_div(problem.width.out, tiling.columns)
        * ceil_div(problem.outputs, tiling.outputs)
    )


def _shares(size: int, cores: int) -> list[int]:
    """Return sizes that divide an axis into even parts, for several numbers of parts."""
    counts = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, cores, 2 * cores, 4 * cores}
    return sorted({ceil_div(size, count) for count in counts if count <= size} | {1, size})


def _widths(size: int, rows: int) -> list[int]:
    """Return widths to try: narrower than the image only if the tile has few rows."""
    return [size] if rows > 4 else _shares(size, 1)


def _deepest(resources: Resources, problem: WindowProblem, rows: int, columns: int, outputs: int) -> int:
    """Return the most input channels that fit; 0: none. The vector unit takes as many as it produces."""
    blocks = ceil_div(outputs, resources.column_block)
    pixels = rows * columns
    if pixels * outputs * ACC_BYTES + blocks * resources.request_bytes > resources.acc_half:
        return 0
    kernel = problem.height.kernel * problem.width.kernel
    window = problem.height.reach(rows) * problem.width.reach(columns) * problem.item
    entries = 2 + blocks * (kernel + 2)
    space = resources.spad_half - entries * resources.request_bytes - outputs * ACC_BYTES
    if problem.residual:
        space -= pixels * outputs * problem.item
    if not problem.is_array:
        needed = outputs * (window + kernel * problem.weight_item)
        return outputs if needed <= space else 0
    fitting = space // (window + kernel * outputs * problem.weight_item)
    if fitting >= problem.inputs:
        return problem.inputs
    return max(0, fitting // resources.array_rows * resources.array_rows)


def _cost(resources: Resources, problem: WindowProblem, tiling: WindowTiling) -> float:
    groups = _groups(problem, tiling)
    rounds = ceil_div(groups, resources.num_cores)
    kernel = problem.height.kernel * problem.width.kernel
    pixels = tiling.rows * tiling.columns
    if problem.is_array:
        compute = kernel * array_cycles(resources, pixels, tiling.outputs, problem.inputs)
        depth, weights = problem.inputs, kernel * tiling.outputs * problem.inputs
    else:
        compute = kernel * ceil_div(pixels * tiling.outputs * ACC_BYTES, resources.vector_bytes)
        depth, weights = tiling.outputs, kernel * tiling.outputs
    window = problem.height.reach(tiling.rows) * problem.width.reach(tiling.columns)
    loads = window * depth * problem.item + weights * problem.weight_item
    stores = pixels * tiling.outputs * problem.item * (2 if problem.residual else 1)
    traffic = groups * (loads + stores)
    memory = max(
        traffic / resources.bytes_per_cycle, rounds * (loads + stores) / resources.core_bytes_per_cycle
    )
    share = min(resources.core_bytes_per_cycle, resources.bytes_per_cycle / min(groups, resources.num_cores))
    first_load = loads * (tiling.inputs / max(1, depth)) / share
    tiles = rounds * ceil_div(depth, tiling.inputs)
    part = tiling.inputs / max(1, depth)
    body = max(first_load + rounds * compute, memory + compute * part)
    return body + pixels + stores / share + tiles * ISSUE_CYCLES
