"""Gated activation of a feed-forward block: activation of one half of a row times the other half."""

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.dataflow import cut
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Resources, ceil_div, round_up
from npuviz.targets.systolic.kernels import program_records as tk

GATE, UP, OUT = 0, 1, 2


def write_gated(
    lowering: Lowering, node: Node, source: int, output: int, rows: int, width: int, opcode: int
) -> None:
    """Write one layer: output (rows x width) = activation(source[:, :width]) * source[:, width:].

    opcode  the vector instruction of the activation; contents are not computed
    """
    resources, builder = lowering.resources, lowering.builder
    before, after = lowering.storage(source), lowering.storage(output)
    item = before.item_bytes
    tile_rows, tile_width = _sizes(resources, rows, width, item)
    size = tile_rows * tile_width
    builder.begin_layer(node.name or node.op_type, node.id)
    gate = builder.scratchpad_entry("gate", -1, size * item)
    up = builder.scratchpad_entry("up", -1, size * item)
    out = builder.accumulator_entry("out", -1, size * ACC_BYTES)

    def write(template: Template, count: int, length: int) -> None:
        loads = (gate, GATE), (up, UP)
        for word, base in loads:
            place = Rows(base, 0, length * item, n0=count, s0=2 * width * item)
            template.movin(word, place, size=size * item, tensor=before.root)
        worked, wide = count * length * ACC_BYTES, size * ACC_BYTES
        template.vector(opcode, (gate, 0), out, vbytes=worked, tile_m=1, size=wide, tensor=after.root)
        template.vector(tk.OP_MUL, (out, up), out, vbytes=worked, tile_m=1, size=wide, tensor=after.root)
        place = Rows(OUT, 0, length * after.item_bytes, n0=count, s0=width * after.item_bytes)
        template.movout(out, place, tensor=after.root)

    number = 0
    for row, count in cut(rows, tile_rows):
        for column, length in cut(width, tile_width):
            template = builder.template((count, length), lambda t, n=count, m=length: write(t, n, m))
            first = before.address + (row * 2 * width + column) * item
            place = after.address + (row * width + column) * after.item_bytes
            bases = (first, first + width * item, place)
            builder.add_tile(template, bases, core=number % resources.num_cores, coord=(row, column))
            number += 1
    builder.end_layer()
    lowering.add_layer(node, [source], [output])


def _sizes(resources: Resources, rows: int, width: int, item: int) -> tuple[int, int]:
    """Choose rows and columns of a tile: whole rows if they fit, and enough tiles for all cores."""
    elements = min(
        resources.acc_half // ACC_BYTES, (resources.spad_half - 2 * resources.request_bytes) // (2 * item)
    )
    elements = min(elements, max(1, ceil_div(rows * width, resources.num_cores)))
    if elements < 1:
        raise CannotLower("not even one element fits")
    if elements >= width:
        return min(rows, elements // width), width
    return 1, max(1, min(width, round_up(elements, resources.request_bytes // item) or 1))
