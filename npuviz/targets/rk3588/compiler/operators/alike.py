"""Bring operands to the shape of a result, as broadcasting has it: constants laid out, cubes repeated."""

from dataclasses import replace

import numpy as np

from npuviz.formats.rk3588.tensor_layout import pack_features, packing
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.moves.expanding import expand
from npuviz.targets.rk3588.compiler.operators import dense
from npuviz.targets.rk3588.compiler.steps import HALF, Steps
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape


def constant_cube(b: Builder, name: str, values: np.ndarray, like: Buffer, shape: tuple[int, ...]) -> Buffer:
    """Lay out constants in the shape of a cube. values  of a tensor, broadcast to its shape

    Raises CannotLower for numbers that fp16 can hold only as infinity.
    """
    if np.abs(values[np.isfinite(values)]).max(initial=0) > np.finfo(np.float16).max:
        raise CannotLower("a constant that fp16 cannot hold")
    full = np.broadcast_to(values, shape).reshape(like.shape)
    cubes = full.T if len(like.shape) == 2 else full
    cubes = cubes.reshape(cube_shape(like.shape)).astype(numpy_dtype(like.dtype))
    group = packing(like.dtype).channels
    held = b.constant(name, np.concatenate([pack_features(cube, group) for cube in cubes]), "feature")
    return replace(held, shape=like.shape)


def alike(
    b: Builder, layer: Layer, planner: Planner, tensor: int, like: Buffer, shape: tuple[int, ...]
) -> Buffer:
    """Return an operand of floats or booleans as a cube of fp16 in the shape of another. shape  of the
    result's tensor

    Raises CannotLower if it lies otherwise, and in a layer of int8, whose operands are
    stored integers.
    """
    if layer.is_quantised:
        raise CannotLower(f"{layer.head.op_type} in int8", change="fp16 around it")
    graph, wanted = b.graph, replace(like, dtype=HALF)
    if planner.is_constant(tensor):
        values = planner.quantised.constant(tensor)
        return constant_cube(b, f"{graph.tensors[tensor].name} as a cube", values, wanted, shape)
    held = b.home(tensor)
    steps = Steps(b, layer)
    if held.layout != "feature" or held.dtype not in (HALF, "int8"):
        raise CannotLower(f"{held.name} is stored as {held.dtype}, {held.layout}")
    given = graph.tensors[tensor].shape
    if held.dtype == "int8":
        if graph.tensors[tensor].dtype != "bool":
            raise CannotLower(f"{held.name} is stored as {held.dtype}")
        held = steps.run(held, Stages(), dtype=HALF)
    if cube_shape(held.shape) == cube_shape(wanted.shape) and given[-len(shape) :] == tuple(shape):
        return held
    return repeated(b, layer, held, given, wanted, shape)


def repeated(
    b: Builder, layer: Layer, held: Buffer, given: tuple[int, ...], like: Buffer, shape: tuple[int, ...]
) -> Buffer:
    """Repeat a cube of fp16 as broadcasting has it. given, shape  of the tensors before and after"""
    target = b.scratch(f"{held.name} repeated", like.shape, HALF)
    if not dense.is_dense_faster(b, [held], [target]):
        expand(b, layer, (held, target), given, shape)
        return target
    count = int(np.prod(given, dtype=np.int64))
    numbers = np.broadcast_to(np.arange(count).reshape(given), shape).reshape(-1)
    matrix = np.zeros((len(numbers), count), np.float16)
    matrix[np.arange(len(numbers)), numbers] = 1
    dense.multiply(b, layer, (held, target), matrix)
    b.begin_layer()
    return target
