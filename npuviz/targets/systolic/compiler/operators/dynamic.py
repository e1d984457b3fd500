"""DynamicQuantizeLinear: extremes of the whole tensor by the adder tree, scale and zero point, then 8 bits.

Assumed: as in reductions a maximum goes through the adder tree like a sum, and one instruction per step.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.plan import Apply

_SMALL = ("least", "most", "scale", "zero")
"""Accumulator entries with one element, beside that of the result."""


def lower_dynamic_quantize(lowering: Lowering, node: Node) -> None:
    """Lower DynamicQuantizeLinear to one tile, since its scale needs the whole tensor before the first
    element."""
    source, output = node.inputs[0], node.outputs[0]
    lowering.require_floats(node, (source,))
    if not lowering.storage(source).lies_like(lowering.storage(output)):
        raise CannotLower("input and output lie in different orders in DRAM")
    count, resources = lowering.tensor(source).num_elements, lowering.resources
    item = lowering.storage(source).item_bytes
    room = resources.acc_half - len(_SMALL) * resources.request_bytes
    most = min(room // ACC_BYTES, resources.spad_half // item)
    if count > most:
        raise CannotLower("a tensor of which half an accumulator holds all", f"{count} elements", f"{most}")
    builder = lowering.builder
    builder.begin_layer(node.name or node.op_type, node.id)
    whole = builder.template("whole", partial(_write, lowering, node, count))
    made = [index for index in node.outputs if index >= 0]
    builder.add_tile(whole, [lowering.storage(index).address for index in (source, *made)], core=0)
    builder.end_layer()
    lowering.add_layer(node, (source,), made)


def _write(lowering: Lowering, node: Node, count: int, template: Template) -> None:
    resources, builder = lowering.resources, lowering.builder
    spad = Half(builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
    acc = Half(builder.accumulator_entry, resources.request_bytes, resources.acc_half)
    given = lowering.storage(node.inputs[0])
    root = lowering.storage(node.outputs[0]).root
    values = spad.entry("values", count * given.item_bytes)
    least, most, scale, zero = (acc.entry(name, ACC_BYTES) for name in _SMALL)
    result = acc.entry("out", count * ACC_BYTES)
    size = count * given.item_bytes
    template.movin(values, Rows(0, 0, size), size=size, tensor=given.root, aux=lowering.shape((count,)))

    def vector(
        opcode: int, sources: Sequence[int], target: int, name: str, apply: Apply, work: int = 1
    ) -> None:
        pair = sources[0], sources[1] if len(sources) > 1 else 0
        made = count * ACC_BYTES if target == result else ACC_BYTES
        aux = lowering.function(("dynamic", name), apply, name)
        template.vector(
            opcode, pair, target, vbytes=work * ACC_BYTES, tile_m=1, size=made, tensor=root, aux=aux
        )

    vector(tk.OP_ADDTREE, (values,), least, "least", lambda a, _: a.min(keepdims=True), count)
    vector(tk.OP_ADDTREE, (values,), most, "most", lambda a, _: a.max(keepdims=True), count)
    vector(tk.OP_COMP, (least,), least, "at most 0", lambda a, _: np.minimum(a, np.float32(0)))
    vector(tk.OP_COMP, (most,), most, "at least 0", lambda a, _: np.maximum(a, np.float32(0)))
    vector(tk.OP_ADD, (most, least), scale, "range", np.subtract)
    vector(tk.OP_DIV, (scale,), scale, "scale", _scale)
    vector(tk.OP_DIV, (least, scale), zero, "-least / scale", lambda a, s: -a / s)
    vector(tk.OP_COMP, (zero,), zero, "zero point", lambda a, _: np.rint(np.clip(a, 0, 255)))
    vector(tk.OP_DIV, (values, scale), result, "x / scale", np.divide, count)
    vector(tk.OP_COMP, (result,), result, "rounded", lambda a, _: np.rint(a), count)
    vector(tk.OP_ADD, (result, zero), result, "+ zero point", np.add, count)
    made = [
        (word, index) for word, index in zip((result, scale, zero), node.outputs, strict=True) if index >= 0
    ]
    for base, (word, index) in enumerate(made, start=1):
        storage = lowering.storage(index)
        length = storage.item_bytes * (count if word == result else 1)
        template.movout(word, Rows(base, 0, length), tensor=storage.root)


def _scale(spread: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Compute the scale: a 255th of the range, 1 if all values are zero, as in ONNX Runtime."""
    return np.where(spread == 0, np.float32(1), spread / np.float32(255))


LOWERINGS = {"DynamicQuantizeLinear": lower_dynamic_quantize}
