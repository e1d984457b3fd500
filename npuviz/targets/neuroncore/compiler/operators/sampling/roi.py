"""Lower RoiAlign: bilinear samples of regions, of which each bin takes the average or the largest."""

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.matmul.matmul import require_floats
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.operators.sampling.bilinear import (
    EXACT_INDEX,
    Neighbour,
    clamped_to_border,
    sample,
)
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

_MAX_REGIONS = 512


def lower_roi_align(b: Builder, node: Node) -> None:
    """Lower RoiAlign with a fixed number of samples a bin."""
    require_floats(b, node.inputs[:2])
    source, regions, images = (b.hbm[tensor] for tensor in node.inputs[:3])
    out = b.hbm[node.outputs[0]]
    samples = int(node.attributes.get("sampling_ratio", 0))
    count, channels, height, width = source.shape
    if samples < 1 or not b.spec.has_pool:
        raise CannotLower("RoiAlign needs GpSimd and a sampling_ratio")
    if count * height * width >= EXACT_INDEX or regions.shape[0] > _MAX_REGIONS:
        raise CannotLower(f"{regions.shape[0]} regions in {count} images of {height} x {width}")
    grids = [
        b.hbm.constant(_grid(size, samples), f"{node.name}/grid.{name}")
        for name, size in (("rows", out.shape[2]), ("columns", out.shape[3]))
    ]
    scale = float(node.attributes.get("spatial_scale", 1.0))
    is_half = attributes_of(node).text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    is_largest = attributes_of(node).text("mode", "avg") == "max"
    for c0, c1 in blocks(channels, NUM_PARTITIONS):
        with b.tiles.scope():
            planes = source.permute(1, 0, 2, 3)[c0:c1]
            plane = b.dma.fetch(planes).reshape(count * height * width)
            for region in range(regions.shape[0]):
                with b.tiles.scope():
                    partitions = c1 - c0
                    box = b.dma.fetch(regions[region : region + 1].broadcast_to((partitions, 4)), "float32")
                    base = _base(b, images[region : region + 1], partitions, height * width)
                    rows = _neighbours(b, box, 1, grids[0], (height, scale, is_half))
                    columns = _neighbours(b, box, 0, grids[1], (width, scale, is_half))
                    result = _bins(b, plane, (rows, columns), (width, samples, is_largest), base)
                    tile = b.tiles.sbuf(partitions, result.shape, out.dtype)
                    b.isa.copy(tile, result)
                    b.dma.store(out[region, c0:c1], tile)


def _grid(size: int, samples: int) -> np.ndarray:
    """Return the places of the samples, [1, size * samples], as shares of a region of `size` bins."""
    places = (np.arange(size * samples, dtype=np.float64) + 0.5) / (samples * size)
    return places.astype(np.float32)[None]


def _base(b: Builder, image: HbmView, partitions: int, plane: int) -> View:
    """Compute the index of the first element of a region's image, one a partition."""
    number = b.dma.fetch(image.reshape(1, 1).broadcast_to((partitions, 1)))
    base = b.tiles.sbuf(partitions, (1,), "float32")
    b.isa.tensor_scalar(base, number, Alu.MULTIPLY, float(plane))
    return base


def _neighbours(
    b: Builder, box: View, index: int, grid: HbmView, how: tuple[int, float, bool]
) -> tuple[Neighbour, Neighbour]:
    """Compute the neighbours of start + extent * place along an axis; box holds x1, y1, x2, y2."""
    size, scale, is_half = how
    shift = 0.5 if is_half else 0.0
    partitions, count = box.partitions, grid.shape[1]
    extent = b.tiles.sbuf(partitions, (1,), "float32")
    start = b.tiles.sbuf(partitions, (1,), "float32")
    b.isa.tensor_scalar(start, box[:, index : index + 1], Alu.MULTIPLY, scale, Alu.SUBTRACT, shift)
    b.isa.tensor_scalar(extent, box[:, index + 2 : index + 3], Alu.MULTIPLY, scale, Alu.SUBTRACT, shift)
    b.isa.tensor_tensor(extent, extent, start, Alu.SUBTRACT)
    if not is_half:
        b.isa.tensor_scalar(extent, extent, Alu.MAXIMUM, 1.0)
    return _placed(b, (start, extent), grid, count, size)


def _placed(
    b: Builder, region: tuple[View, View], grid: HbmView, count: int, size: int
) -> tuple[Neighbour, Neighbour]:
    start, extent = region
    places = b.tiles.sbuf(start.partitions, (count,), "float32")
    steps = b.dma.fetch(grid.broadcast_to((start.partitions, count)))
    b.isa.tensor_scalar(places, steps, Alu.MULTIPLY, extent, Alu.ADD, start)
    return clamped_to_border(b, places, size)


def _bins(
    b: Builder,
    plane: View,
    axes: tuple[tuple[Neighbour, Neighbour], tuple[Neighbour, Neighbour]],
    how: tuple[int, int, bool],
    base: View,
) -> View:
    """Sample a region and reduce each bin: [channels, bins of rows, bins of columns]."""
    width, samples, is_largest = how
    high, wide = axes[0][0].index.free_size, axes[1][0].index.free_size

    def over(neighbour: Neighbour, is_row: bool) -> Neighbour:
        shape = (high, 1) if is_row else (1, wide)
        return Neighbour(
            neighbour.index.reshape(*shape).broadcast(high, wide),
            neighbour.weight.reshape(*shape).broadcast(high, wide),
        )

    rows = (over(axes[0][0], True), over(axes[0][1], True))
    columns = (over(axes[1][0], False), over(axes[1][1], False))
    combine = Alu.MAXIMUM if is_largest else Alu.ADD
    found = sample(b, plane, rows, columns, width, combine, base)
    split = found.reshape(high // samples, samples, wide // samples, samples).permute(0, 2, 1, 3)
    result = b.tiles.sbuf(plane.partitions, (high // samples, wide // samples), "float32")
    b.isa.tensor_reduce(result, split, combine, 2)
    if not is_largest:
        b.isa.tensor_scalar(result, result, Alu.MULTIPLY, 1.0 / samples**2)
    return result


LOWERINGS = {"RoiAlign": lower_roi_align}
