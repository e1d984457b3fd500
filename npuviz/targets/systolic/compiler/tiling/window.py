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
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Hardware, ceil_div


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
def rank_window_tilings(hardware: Hardware, problem: WindowProblem) -> tuple[WindowTiling, ...]:
    """Tiles of a convolution, best estimate first."""
    found: list[tuple[bool, float, WindowTiling]] = []
    step = hardware.column_block
    for rows in _shares(problem.height.out, hardware.num_cores):
        for columns in _widths(problem.width.out, rows):
            for outputs in sizes_to_try(problem.outputs, step, hardware.num_cores):
                deepest = _deepest(hardware, problem, rows, columns, outputs)
                steps = depths_to_try(deepest, hardware.array_rows)
                for inputs in steps if problem.is_array else steps[:1]:
                    tiling = WindowTiling(rows, columns, outputs, inputs)
                    # Idle cores only where there is no work to share.
                    is_narrow = _groups(problem, tiling) < hardware.num_cores
                    found.append((is_narrow, _cost(hardware, problem, tiling), tiling))
    return tuple(tiling for _, _, tiling in sorted(found, key=lambda item: item[:2])[:MAX_RANKED])


def fits_window(hardware: Hardware, problem: WindowProblem, tiling: WindowTiling) -> bool:
    """Whether a tile of these sizes fits the halves of a core."""
    return tiling.inputs <= _deepest(hardware, problem, tiling.rows, tiling.columns, tiling.outputs)


def _groups(problem: WindowProblem, tiling: WindowTiling) -> int:
    """Tiles, accumulations counted once."""
    return (
        problem.copies
        * ceil_div(problem.height.out, tiling.rows)
        * ceil_div(problem.width.out, tiling.columns)
        * ceil_div(problem.outputs, tiling.outputs)
    )


def _shares(size: int, cores: int) -> list[int]:
    """Sizes that divide an axis into even parts, with a few counts of parts."""
    counts = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, cores, 2 * cores, 4 * cores}
    return sorted({ceil_div(size, count) for count in counts if count <= size} | {1, size})


def _widths(size: int, rows: int) -> list[int]:
    """Widths worth trying: narrower than the image only when few rows are taken."""
    return [size] if rows > 4 else _shares(size, 1)


def _deepest(hardware: Hardware, problem: WindowProblem, rows: int, columns: int, outputs: int) -> int:
    """Most input channels that fit; 0: none. The vector unit takes as many as it produces."""
    blocks = ceil_div(outputs, hardware.column_block)
    pixels = rows * columns
    if pixels * outputs * ACC_BYTES + blocks * hardware.request_bytes > hardware.acc_half:
        return 0
    kernel = problem.height.kernel * problem.width.kernel
    window = problem.height.reach(rows) * problem.width.reach(columns) * problem.item
    entries = 2 + blocks * (kernel + 2)
    space = hardware.spad_half - entries * hardware.request_bytes - outputs * ACC_BYTES
    if problem.residual:
        space -= pixels * outputs * problem.item
    if not problem.is_array:
        needed = outputs * (window + kernel * problem.weight_item)
        return outputs if needed <= space else 0
    fitting = space // (window + kernel * outputs * problem.weight_item)
    if fitting >= problem.inputs:
        return problem.inputs
    return max(0, fitting // hardware.array_rows * hardware.array_rows)


def _cost(hardware: Hardware, problem: WindowProblem, tiling: WindowTiling) -> float:
    groups = _groups(problem, tiling)
    rounds = ceil_div(groups, hardware.num_cores)
    kernel = problem.height.kernel * problem.width.kernel
    pixels = tiling.rows * tiling.columns
    if problem.is_array:
        compute = kernel * array_cycles(hardware, pixels, tiling.outputs, problem.inputs)
        depth, weights = problem.inputs, kernel * tiling.outputs * problem.inputs
    else:
        compute = kernel * ceil_div(pixels * tiling.outputs * ACC_BYTES, hardware.vector_bytes)
        depth, weights = tiling.outputs, kernel * tiling.outputs
    window = problem.height.reach(tiling.rows) * problem.width.reach(tiling.columns)
    loads = window * depth * problem.item + weights * problem.weight_item
    stores = pixels * tiling.outputs * problem.item * (2 if problem.residual else 1)
    traffic = groups * (loads + stores)
    memory = max(
        traffic / hardware.bytes_per_cycle, rounds * (loads + stores) / hardware.core_bytes_per_cycle
    )
    share = min(hardware.core_bytes_per_cycle, hardware.bytes_per_cycle / min(groups, hardware.num_cores))
    first_load = loads * (tiling.inputs / max(1, depth)) / share
    tiles = rounds * ceil_div(depth, tiling.inputs)
    part = tiling.inputs / max(1, depth)
    body = max(first_load + rounds * compute, memory + compute * part)
    return body + pixels + stores / share + tiles * ISSUE_CYCLES
