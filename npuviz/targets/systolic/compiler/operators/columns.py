"""Layers that work along an axis in the middle of a tensor: a tile takes some columns of it in full."""

from collections.abc import Callable

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.operators.chunks import MIN_CHUNK_BYTES, Chunk
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, ceil_div, round_up


def lower_columns(
    lowering: Lowering,
    node: Node,
    extents: tuple[int, int, int],
    acc_entries: Callable[[int], int],
    write: Callable[[Chunk], None],
    rows_out: int = 0,
) -> None:
    """Write the layer of an operator with one input and one output that lie alike.

    A tile loads a part of each row of `extents[2]` elements, for all of `extents[1]` rows.

    extents      elements before, in and behind the axis that is worked on, in DRAM order
    acc_entries  elements of a tile -> accumulator bytes it needs
    rows_out     rows of the output (0: as many as the input has)
    """
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    outer, middle, inner = extents
    made = rows_out or middle
    largest = columns_of_tile(lowering, extents, source.item_bytes, acc_entries)
    builder, resources = lowering.builder, lowering.resources
    builder.begin_layer(node.name or node.op_type, node.id)
    spad = Half(builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
    acc = Half(builder.accumulator_entry, resources.request_bytes, resources.acc_half)

    def write_template(size: int, template: Template) -> None:
        count = middle * size
        word = spad.entry(0, count * source.item_bytes)
        shape = (1, middle, size)
        item = source.item_bytes
        rows = Rows(base=0, offset=0, length=size * item, n0=middle, s0=inner * item)
        aux = lowering.shape(shape)
        template.movin(word, rows, size=count * item, tensor=source.root, aux=aux)
        out = acc.entry("out", made * size * ACC_BYTES)
        write(Chunk(template, acc, [word], shape, out, output.root))
        item = output.item_bytes
        rows = Rows(base=1, offset=0, length=size * item, n0=made, s0=inner * item)
        template.movout(out, rows, tensor=output.root)

    per_row = ceil_div(inner, largest)
    index = np.arange(outer * per_row, dtype=np.int64)
    starts = index % per_row * largest
    sizes = np.minimum(largest, inner - starts)
    ids = np.zeros(len(starts), dtype=np.int64)
    for size in sorted({int(value) for value in sizes}, reverse=True):
        ids[sizes == size] = builder.template(size, lambda tile, size=size: write_template(size, tile))
    bases = [
        each.address + (index // per_row * (rows * inner) + starts) * each.item_bytes
        for each, rows in ((source, middle), (output, made))
    ]
    coords = np.stack([index, starts], axis=1)
    builder.add_tiles(ids, np.stack(bases, axis=1), cores=index % resources.num_cores, coords=coords)
    builder.end_layer()
    lowering.add_layer(node, [node.inputs[0]], [node.outputs[0]])


def columns_of_tile(
    lowering: Lowering, extents: tuple[int, int, int], item: int, acc_entries: Callable[[int], int]
) -> int:
    """Return the columns of a tile: as many as fit, but few enough for all cores to be busy."""
    outer, middle, inner = extents
    resources = lowering.resources

    def fits(size: int) -> bool:
        loaded = round_up(middle * size * item, resources.request_bytes)
        return loaded <= resources.spad_half and acc_entries(middle * size) <= resources.acc_half

    if not fits(1):
        raise CannotLower("one row is larger than half of the scratchpad or accumulator")
    low, high = 1, inner
    while low < high:
        size = (low + high + 1) // 2
        low, high = (size, high) if fits(size) else (low, size - 1)
    floor = max(ceil_div(MIN_CHUNK_BYTES, middle * ACC_BYTES), resources.request_bytes // item)
    busy = ceil_div(inner, ceil_div(resources.num_cores, outer))
    return min(low, max(busy, floor))
