"""Lower small linear operators as one product: CORE picks elements that no task moves by atoms.

Whatever an operator does that is linear in its operands (it moves, repeats, sums, averages, mixes them) is a
matrix over the elements as they lie in memory: a cube is a single position with as many channels. The matrix
is found by running the operator at compile time: once over the numbers of the elements if it only moves them,
else once for each of them; the result is compared with a run with random numbers.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.tensor_layout import pack_features, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.onnx.single_node import Run, evaluate_node, run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.partition.matrices import matrix_cycles, matrix_fits
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

Maps = tuple[list[list[np.ndarray]], list[np.ndarray]]
MOST_RUNS = 256
"""Most runs of an operator at compile time, one per element."""
MOST_MOVED = 2047
"""Most elements whose numbers are exact in fp16, which may be the type of the graph."""
_MOVES = frozenset(
    (
        "CenterCropPad", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather",
        "GatherElements", "GatherND", "Identity", "Pad", "Reshape", "ReverseSequence", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where"
    )
)  # fmt: skip
"""Operators whose result consists of elements of the operands, and constants."""


def lower_dense(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower an operator that is linear in its operands. Raises CannotLower if it is not linear, or too
    large."""
    node = layer.head
    if layer.is_quantised or len(layer.nodes) > 1:
        raise CannotLower("a product of ones and zeros is in fp16, with nothing behind it")
    given = [stored.tensor for stored in layer.inputs]
    if any(tensor >= 0 and not planner.is_constant(tensor) and tensor not in given for tensor in node.inputs):
        raise CannotLower("operands that only a run tells")
    sources = [cube_of(b, layer, stored) for stored in layer.inputs]
    made = [stored for stored in (layer.output, *layer.others) if stored.tensor >= 0]
    targets = [cube_of(b, layer, stored) for stored in made]
    _refuse_slow(b, sources, targets)
    maps, constants = _known_maps(b, layer, planner, given, [stored.tensor for stored in made])
    for target, parts, constant in zip(targets, maps, constants, strict=True):
        largest = max(np.abs(each).max(initial=0) for each in (*parts, constant))
        if not largest <= np.finfo(np.float16).max:
            raise CannotLower("a constant that fp16 cannot hold")
        _emit(b, layer, sources, target, parts, constant)
        b.begin_layer()


def least_cycles(b: Builder, layer: Layer) -> float:
    """Return the least cycles of such a product: its matrix is read."""
    taken, given = (
        sum(b.graph.tensors[stored.tensor].num_elements for stored in ends if stored.tensor >= 0)
        for ends in (layer.inputs, (layer.output, *layer.others))
    )
    return b.spec.to_cycles(b.spec.task_ns) + matrix_cycles(b.spec, taken, given)


def is_dense_faster(b: Builder, sources: Sequence[Buffer], targets: Sequence[Buffer]) -> bool:
    """Return whether the matrix between these cubes is small enough (`matrix_fits`)."""
    taken, given = (sum(len(memory_order(each)) for each in ends) for ends in (sources, targets))
    return matrix_fits(b.spec, taken, given)


def product_cycles(b: Builder, source: Buffer, target: Buffer) -> float:
    """Estimate how long the product with the matrix between two cubes takes."""
    taken, given = len(memory_order(source)), len(memory_order(target))
    return b.spec.to_cycles(b.spec.task_ns) + matrix_cycles(b.spec, taken, given)


def _refuse_slow(b: Builder, sources: Sequence[Buffer], targets: Sequence[Buffer]) -> None:
    if not is_dense_faster(b, sources, targets):
        found = " + ".join(str(np.prod(each.shape)) for each in sources)
        raise CannotLower("a matrix over all of its elements takes longer to read than the Host", found)


def memory_order(buffer: Buffer) -> np.ndarray:
    """Return for each place of a cube in memory the number of the tensor's element there, -1 for filling."""
    images, channels, height, width = cube_shape(buffer.shape)
    numbers = np.arange(1, int(np.prod(buffer.shape)) + 1, dtype=np.int64)
    cubes = numbers.reshape(buffer.shape).T if len(buffer.shape) == 2 else numbers
    cubes = cubes.reshape(images, channels, height, width)
    group = packing(buffer.dtype).channels
    packed = [pack_features(cube, group).reshape(-1).astype(np.int64) for cube in cubes]
    return np.concatenate(packed) - 1


def multiply(
    b: Builder,
    layer: Layer,
    ends: tuple[Buffer, Buffer],
    matrix: np.ndarray,
    constant: np.ndarray | None = None,
    second: Buffer | None = None,
) -> None:
    """Emit one product of all elements of a cube. matrix  (elements of the target, elements of the source)

    constant  added to each element of the target
    second    a cube like the target, added by EW
    """
    source, target = ends
    taken, given = memory_order(source), memory_order(target)
    weights = np.zeros((len(given), len(taken)), np.float16)
    rows, columns = given >= 0, taken >= 0
    weights[np.ix_(rows, columns)] = matrix[np.ix_(given[rows], taken[columns])]
    bias = np.zeros(len(given), np.float32)
    if constant is not None:
        bias[rows] = constant[given[rows]]
    one = WindowAxis(1, 1)
    flat = _as_vector(source, len(taken)), _as_vector(target, len(given))
    joined = None if second is None else (_as_vector(second, len(given)), ALU_ADD)
    convolve_into(b, layer, Shape(one, one), Operands(weights[:, :, None, None], bias), flat, second=joined)


def place(b: Builder, layer: Layer, source: Buffer, target: Buffer, numbers: np.ndarray) -> None:
    """Write elements of a cube in any order. Raises CannotLower if that takes longer than the Host.

    target   a cube of one position
    numbers  of the element for each of its places, -1 for 0
    """
    taken = memory_order(source)
    if not matrix_fits(b.spec, len(taken), len(numbers)):
        raise CannotLower(
            "a matrix over all of its elements takes longer to read than the Host", str(len(numbers))
        )
    where = np.full(max(int(np.prod(source.shape)), 1), -1)
    where[taken[taken >= 0]] = np.flatnonzero(taken >= 0)
    weights = np.zeros((len(numbers), len(taken), 1, 1), np.float16)
    wanted = np.flatnonzero(numbers >= 0)
    weights[wanted, where[numbers[wanted]]] = 1
    bias = np.zeros(len(numbers), np.float32)
    ends = _as_vector(source, len(taken)), _as_vector(target, len(numbers))
    one = WindowAxis(1, 1)
    convolve_into(b, layer, Shape(one, one), Operands(weights, bias), ends)


def _as_vector(buffer: Buffer, places: int) -> Buffer:
    """Return a cube as one position with all its places in memory as channels."""
    return replace(buffer, shape=(1, places))


def _emit(
    b: Builder,
    layer: Layer,
    sources: Sequence[Buffer],
    target: Buffer,
    parts: Sequence[np.ndarray],
    constant: np.ndarray,
) -> None:
    """Emit the sum of the products of all operands."""
    second: Buffer | None = None
    for number, (source, matrix) in enumerate(zip(sources, parts, strict=True)):
        is_last = number == len(parts) - 1
        place = target
        if not is_last:
            place = b.scratch(f"{layer.head.name or layer.head.op_type} part", target.shape, target.dtype)
        multiply(b, layer, (source, place), matrix, constant if number == 0 else None, second)
        if not is_last:
            b.begin_layer()
        second = place


def _known_maps(
    b: Builder, layer: Layer, planner: Planner, given: Sequence[int], made: Sequence[int]
) -> Maps:
    """Return the result of `_maps`, found once: a layer is lowered again when others have changed sides."""
    known = planner.matrices
    if layer.head.id not in known:
        try:
            known[layer.head.id] = _maps(b, layer, given, made)
        except CannotLower as error:
            known[layer.head.id] = error
    if isinstance(known[layer.head.id], CannotLower):
        raise known[layer.head.id]
    return known[layer.head.id]


def _maps(b: Builder, layer: Layer, given: Sequence[int], made: Sequence[int]) -> Maps:
    """Return for each result a matrix for each operand, and its value without operands."""
    graph, node = b.graph, layer.head
    shapes = [graph.tensors[tensor].shape for tensor in given]
    kinds = [numpy_dtype(graph.tensors[tensor].dtype) for tensor in given]
    sizes = [int(np.prod(shape)) for shape in shapes]
    edges = np.cumsum([0, *sizes])
    fixed = {tensor: np.asarray(graph.constants[tensor], order="C") for tensor in node.inputs
             if tensor in graph.constants}  # fmt: skip

    def results(values: np.ndarray, run: Run = run_node) -> list[np.ndarray]:
        arrays = dict(fixed)
        for tensor, low, high, shape, kind in zip(given, edges, edges[1:], shapes, kinds, strict=False):
            arrays[tensor] = np.ascontiguousarray(values[low:high].reshape(shape).astype(kind))
        found = run(graph, node, arrays)
        return [found[tensor].reshape(-1).astype(np.float64) for tensor in made]

    count = int(edges[-1])
    if len(set(given)) != len(given):
        raise CannotLower("one tensor as several operands")
    none = results(np.zeros(count))
    if node.op_type in _MOVES and count <= MOST_MOVED:
        matrices = [_of_numbers(found, zero, count) for found, zero in zip(
            results(np.arange(1.0, count + 1)), none, strict=True)]  # fmt: skip
    elif count <= MOST_RUNS:
        columns = [results(row) for row in np.eye(count)]
        matrices = [
            np.stack([column[number] - zero for column in columns], axis=1)
            for number, zero in enumerate(none)
        ]
    else:
        raise CannotLower(f"a matrix of more than {MOST_RUNS} columns", str(count))
    _verify(results, matrices, none, count, node.op_type in _MOVES)
    return [[matrix[:, low:high] for low, high in pairwise(edges)] for matrix in matrices], none


def _of_numbers(found: np.ndarray, zero: np.ndarray, count: int) -> np.ndarray:
    """Return the matrix of a move, from a run over the numbers of the elements."""
    matrix = np.zeros((len(found), count))
    moved = found != zero
    numbers = found[moved].astype(np.int64) - 1
    if np.any(numbers < 0) or np.any(numbers >= count):
        raise CannotLower("results that are no elements of its operands")
    matrix[np.flatnonzero(moved), numbers] = 1
    return matrix


def _verify(
    results: Callable[..., list[np.ndarray]],
    matrices: Sequence[np.ndarray],
    none: Sequence[np.ndarray],
    count: int,
    is_move: bool,
) -> None:
    """Raise CannotLower unless the matrices give the operator's results of random numbers.

    The results come from ONNX Runtime and from ONNX's own evaluator.
    """
    values = np.rint(np.random.default_rng(0).standard_normal(count) * 64) / 32
    runs = [results(values)]
    if not is_move:
        with suppress(FormatError):
            runs.append(results(values, evaluate_node))
    for run in runs:
        for found, matrix, zero in zip(run, matrices, none, strict=True):
            wanted = matrix @ values + zero
            if not np.allclose(found, wanted, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(wanted).max(initial=0))):
                raise CannotLower(
                    "not linear in its operands, or not the same in ONNX Runtime and the standard"
                )
