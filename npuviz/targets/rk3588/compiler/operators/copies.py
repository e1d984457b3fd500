"""Operators that only move cubes: changes of shape that leave bytes in place, joining along channels."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder, cube_shape, image_bytes
from npuviz.targets.rk3588.compiler.dpu import Stages, requantisation
from npuviz.targets.rk3588.compiler.dpu_task import DPU_ENABLES, cube_of, cube_words, emit, homes
from npuviz.targets.rk3588.compiler.layers import VIEWS, Layer, Planner
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES


def lower_view(b: Builder, layer: Layer, planner: Planner) -> None:
    """A change of shape that leaves the bytes as they are: a copy."""
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    stages = rescaling(layer.inputs[0].quantisation, layer.output.quantisation) or Stages()
    if source.shape == (*target.shape, 1, 1) and len(target.shape) == 2 and target.shape[0] > 1:
        _images_to_rows(b, layer, source, target, stages)
        return
    homes(b, layer)
    if _is_matrix(source) != _is_matrix(target):
        # The channels of a matrix are its last axis, those of everything else the axis behind the images.
        raise CannotLower(f"{source.shape} and {target.shape} do not lie alike in memory")
    emit(b, layer, source, target, None, lambda _: stages)


def _is_matrix(buffer: Buffer) -> bool:
    """Whether a buffer holds rows of channels, several of both."""
    return len(buffer.shape) == 2 and min(buffer.shape) > 1


def _images_to_rows(b: Builder, layer: Layer, source: Buffer, target: Buffer, stages: Stages) -> None:
    """(N, C, 1, 1) as (N, C): each image becomes a row of one cube."""
    images, channels = target.shape
    dtype = source.dtype
    size = (aligned(channels, packing(dtype).channels), 1, 1)
    for image in range(images):
        places = (
            source.address + image * image_bytes(source.shape, dtype),
            target.address + image * ATOM_BYTES,
        )
        words = cube_words(size, 1, places, dtype, stages, surface=images)
        b.task(layer.head.id, image % b.spec.cores, words, DPU_ENABLES)


def lower_concat(b: Builder, layer: Layer, planner: Planner) -> None:
    """Cubes one behind the other along the channels, where each but the last fills whole atoms."""
    node, target = layer.head, cube_of(b, layer, layer.output)
    rank = len(b.graph.tensors[node.outputs[0]].shape)
    if len(target.shape) != rank or attributes_of(node).axis(rank) != 1:
        raise CannotLower("joining along an axis that is not the channels")
    group, item = packing(target.dtype).channels, numpy_dtype(target.dtype).itemsize
    _, _, height, width = cube_shape(target.shape)
    first = 0
    sources = [cube_of(b, layer, stored) for stored in layer.inputs]
    for source, stored in zip(sources, layer.inputs, strict=True):
        if first % group:
            raise CannotLower(f"joining behind {first} channels: atoms hold {group}")
        stages = rescaling(stored.quantisation, layer.output.quantisation) or Stages()
        part = replace(target, address=target.address + first * height * width * item)
        emit(b, layer, source, part, None, lambda _, stages=stages: stages)
        first += cube_shape(source.shape)[1]


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **dict.fromkeys(VIEWS, lower_view),
    "Concat": lower_concat,
}


def rescaling(taken: Quantisation | None, out: Quantisation | None) -> Stages | None:
    """What a task must do where input and output of an int8 layer are scaled differently."""
    if taken is None or out is None or taken == out:
        return None
    end = requantisation(taken.scale / out.scale, out.zero_point)
    return Stages(bias_constant=-taken.zero_point, out=end)
