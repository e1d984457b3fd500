"""Element-wise operators with broadcasting, batch normalisation, and changes of element type."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import ml_dtypes
import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators import chunks, formulas, long_integers
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.plan import Apply
from npuviz.targets.systolic.values.storage import FLOATS, convert


def emit_steps(lowering: Lowering, chunk: chunks.Chunk, steps: Sequence[formulas.Step], source: int) -> None:
    """Write a sequence of vector instructions: the first reads `source`, the rest the output entry."""
    running = source
    for step in steps:
        sources = (running, source) if step.uses_input else (running,)
        chunk.vector(step.opcode, sources, chunk.out, lowering.function(step.key, step.apply))
        running = chunk.out


def lower_unary(lowering: Lowering, node: Node) -> None:
    """Lower an operator of `formulas.UNARY`."""
    _lower_steps(lowering, node, formulas.unary_steps(node.op_type, attributes_of(node)))


def _lower_steps(lowering: Lowering, node: Node, steps: Sequence[formulas.Step]) -> None:
    source, output = node.inputs[0], node.outputs[0]
    lowering.require_floats(node, (source, output))
    lower_steps(lowering, node, steps)


def lower_steps(lowering: Lowering, node: Node, steps: Sequence[formulas.Step]) -> None:
    """Write the layer of vector instructions from the first input to the first output, of any types."""
    source, output = node.inputs[0], node.outputs[0]
    if lowering.tensor(source).shape != lowering.tensor(output).shape:
        raise CannotLower("the result's shape depends on values")
    _lower_chunks(lowering, node, lambda chunk: emit_steps(lowering, chunk, steps, chunk.words[0]))


def _lower_chunks(lowering: Lowering, node: Node, emit: Callable[[chunks.Chunk], None]) -> None:
    """Write a layer; `emit` writes the instructions for each chunk of the first input and the first
    output."""
    output = node.outputs[0]
    walk, operands = chunks.plan_walk(lowering, output, node.inputs[:1])
    chunks.lower_chunks(lowering, node, output, operands, walk, emit)


def lower_nary(lowering: Lowering, node: Node) -> None:
    """Lower an operator of `formulas.BINARY`, with any number of inputs."""
    output = node.outputs[0]
    inputs = [index for index in node.inputs if index >= 0]
    if node.op_type in ("Add", "Sub") and lowering.tensor(output).dtype in long_integers.LONG:
        long_integers.lower_sum(lowering, node)
        return
    if node.op_type not in _OF_INTEGERS or lowering.tensor(output).dtype not in _WORDS:
        lowering.require_floats(node, (*inputs, output))
    _require_elements(lowering, output)
    if node.op_type == "Pow":
        exponent = lowering.constant(inputs[1])
        if exponent is not None and exponent.size == 1:
            _lower_steps(lowering, node, formulas.power_steps(float(exponent.reshape(-1)[0])))
            return
    opcode, apply = formulas.BINARY[node.op_type]
    walk, operands = chunks.plan_walk(lowering, output, inputs)

    def write(chunk: chunks.Chunk) -> None:
        running = chunk.words[0]
        if len(chunk.words) == 1:
            copy = lowering.function("copy", lambda a, _: a)
            chunk.vector(tk.OP_COMP, (running,), chunk.out, copy)
        key = (node.op_type, chunk.shape)
        for word in chunk.words[1:]:
            function = lowering.function(key, partial(_broadcast, apply, chunk.shape), node.op_type)
            chunk.vector(opcode, (running, word), chunk.out, function)
            running = chunk.out
        if node.op_type == "Mean":
            scale = np.float32(1 / len(inputs))
            chunk.vector(
                tk.OP_MUL,
                (chunk.out,),
                chunk.out,
                lowering.function(("mul", float(scale)), lambda a, _: a * scale),
            )

    chunks.lower_chunks(lowering, node, output, operands, walk, write)


def _broadcast(apply: Apply, shape: tuple[int, ...], first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Broadcast the result for two operands of which neither alone may have the output's shape."""
    return np.broadcast_to(apply(first, second), shape)


def lower_clip(lowering: Lowering, node: Node) -> None:
    """Lower Clip with constant bounds (attributes before opset 11, inputs after)."""
    bounds: list[float] = []
    for position, (name, default) in enumerate((("min", -np.inf), ("max", np.inf)), start=1):
        index = lowering.input(node, position)
        if index >= 0:
            value = lowering.constant(index)
            if value is None:
                raise CannotLower(f"{name} is computed at run time")
            bounds.append(float(value.reshape(-1)[0]))
        else:
            bounds.append(float(node.attributes.get(name, default)))
    _lower_steps(lowering, node, formulas.clip_steps(*bounds))


def lower_batch_normalization(lowering: Lowering, node: Node) -> None:
    """Lower batch normalisation at inference: MUL with a factor and ADD of an offset per channel."""
    if any(index >= 0 for index in node.outputs[1:]) or node.attributes.get("training_mode"):
        raise CannotLower("training mode", change="export the model for inference")
    source, scale, bias, mean, variance = node.inputs[:5]
    output = node.outputs[0]
    lowering.require_floats(node, (source, scale, bias, mean, variance, output))
    target = lowering.storage(output)
    rank = len(target.shape)
    if rank < 2 or not lowering.storage(source).lies_like(target):
        raise CannotLower("input and output lie in different orders in DRAM")
    extents = tuple(target.shape[1] if axis == 1 else 1 for axis in target.order)
    axes, merged = chunks.merge_axes(target.stored_shape, [target.stored_shape, extents])
    inputs = (source, scale, bias, mean, variance)
    sizes = [merged[0], *[merged[1]] * 4]
    items = [(s, lowering.storage(i).item_bytes) for s, i in zip(sizes, inputs, strict=True)]

    # The factor and offset entries are at most as large as the output's.
    def needed(elements: int) -> int:
        return 3 * (elements * ACC_BYTES + 64)

    walk = chunks.choose_walk(lowering, axes, items, needed)
    epsilon = np.float32(attributes_of(node).real("epsilon"))
    functions = {
        "root": lowering.function(
            ("bn root", float(epsilon)), lambda s, v: s / np.sqrt(v + epsilon), "scale / sqrt(var + epsilon)"
        ),
        "shift": lowering.function("bn shift", lambda m, f: -m * f, "-mean * factor"),
        "mul": lowering.function("mul", np.multiply),
        "add": lowering.function("add", np.add),
    }

    def write(chunk: chunks.Chunk) -> None:
        x, s, b, m, v = chunk.words
        channels = _elements(merged[1], walk, chunk.shape[0])
        factor = chunk.temporary("factor", channels)
        shift = chunk.temporary("shift", channels)
        chunk.vector(tk.OP_DIV, (s, v), factor, functions["root"], channels)
        chunk.vector(tk.OP_MUL, (m, factor), shift, functions["shift"], channels)
        chunk.vector(tk.OP_ADD, (shift, b), shift, functions["add"], channels)
        chunk.vector(tk.OP_MUL, (x, factor), chunk.out, functions["mul"])
        chunk.vector(tk.OP_ADD, (chunk.out, shift), chunk.out, functions["add"])

    operands = [chunks.Operand(index, size) for index, size in zip(inputs, sizes, strict=True)]
    chunks.lower_chunks(lowering, node, output, operands, walk, write)


def _elements(extents: tuple[int, ...], walk: chunks.Walk, size: int) -> int:
    count = size if extents[walk.split] > 1 else 1
    for extent in extents[walk.split + 1 :]:
        count *= extent
    return count


def lower_where(lowering: Lowering, node: Node) -> None:
    """Lower Where: the part that the condition picks from the first choice, then that of the second."""
    condition, first, second = node.inputs[:3]
    output = node.outputs[0]
    is_long = lowering.tensor(output).dtype in long_integers.LONG
    if not is_long and lowering.tensor(output).dtype not in _WORDS:
        lowering.require_floats(node, (first, second, output))
    _require_elements(lowering, output)
    words = long_integers.WORDS if is_long else 1
    walk, operands = chunks.plan_walk(lowering, output, [condition, first, second], words)

    def write(chunk: chunks.Chunk) -> None:
        for word, picked in ((chunk.words[1], True), (chunk.words[2], False)):
            function = lowering.function(
                ("pick", picked, chunk.shape), partial(_pick, picked, chunk.shape), accumulates=not picked
            )
            chunk.vector(tk.OP_COMP, (chunk.words[0], word), chunk.out, function, words * chunk.num_elements)

    chunks.lower_chunks(lowering, node, output, operands, walk, write)


def _pick(wanted: bool, shape: tuple[int, ...], condition: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return values where the condition is as wanted, 0 elsewhere."""
    chosen = np.where(condition == wanted, values, values.dtype.type(0))
    return np.broadcast_to(chosen, shape)


def lower_bias_gelu(lowering: Lowering, node: Node) -> None:
    """Lower BiasGelu, and FastGelu with its optional bias. Ref: systolic.md F26, the bias is the node's
    own."""
    bias, output = lowering.input(node, 1), node.outputs[0]
    steps = formulas.unary_steps("FastGelu" if node.op_type == "FastGelu" else "Gelu", attributes_of(node))
    if bias < 0:
        _lower_steps(lowering, node, steps)
        return
    source = node.inputs[0]
    lowering.require_floats(node, (source, bias, output))
    walk, operands = chunks.plan_walk(lowering, output, [source, bias])

    def write(chunk: chunks.Chunk) -> None:
        add = lowering.function("add", np.add)
        chunk.vector(tk.OP_ADD, (chunk.words[0], chunk.words[1]), chunk.out, add)
        emit_steps(lowering, chunk, steps, chunk.out)

    chunks.lower_chunks(lowering, node, output, operands, walk, write)


def lower_cast(lowering: Lowering, node: Node) -> None:
    """Cast between types of up to 32 bits: one pass through the vector unit, which rounds to nearest between
    floating-point types, towards 0 to integers, and keeps the low bits of integers. What floats of 8 bits do
    not hold becomes their largest number, or with saturate=0 what they have for it. Integers of 64 bits have
    passes of their own."""
    source, output = node.inputs[0], node.outputs[0]
    names = [lowering.tensor(index).dtype for index in (source, output)]
    for name in names:
        if name not in FLOATS and name not in _NARROW and name not in long_integers.LONG:
            raise CannotLower("numbers in the vector unit", name, "int32 or float32")
    if long_integers.LONG.intersection(names):
        long_integers.lower_cast(lowering, node)
        return
    _require_elements(lowering, output)
    is_saturating = bool(node.attributes.get("saturate", 1))
    key = ("cast", *names, is_saturating)
    cast = partial(_cast, numpy_dtype(names[1]), is_saturating)
    lower_steps(lowering, node, (formulas.Step(tk.OP_COMP, key, cast),))


def _cast(dtype: np.dtype, is_saturating: bool, values: np.ndarray, _: np.ndarray) -> np.ndarray:
    if dtype.kind == "b":
        return values != 0
    if dtype.kind in "iu":
        whole = np.trunc(values) if values.dtype.kind == "f" else values
        return whole.astype(np.int64).astype(dtype)
    if dtype.itemsize == 1:
        limit = float(ml_dtypes.finfo(dtype).max)
        wide = values.astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            return (np.clip(wide, -limit, limit) if is_saturating else wide).astype(dtype).astype(np.float32)
    return convert(values, dtype).astype(np.float32)


def _require_elements(lowering: Lowering, output: int) -> None:
    if lowering.tensor(output).num_elements == 0:
        raise CannotLower(f"tensor {lowering.tensor(output).name} is empty")


def lower_comparison(lowering: Lowering, node: Node) -> None:
    """Lower comparisons and logic of two operands: one pass of the comparator, of one byte each in DRAM."""
    output = node.outputs[0]
    if any(lowering.tensor(index).dtype in long_integers.LONG for index in node.inputs):
        long_integers.lower_comparison(lowering, node)
        return
    for index in node.inputs:
        name = lowering.tensor(index).dtype
        if name not in FLOATS and name not in _NARROW:
            raise CannotLower("numbers of up to 32 bits in the vector unit", name, "int32 or float32")
    _require_elements(lowering, output)
    apply = _COMPARED[node.op_type]
    walk, operands = chunks.plan_walk(lowering, output, node.inputs)

    def write(chunk: chunks.Chunk) -> None:
        key = (node.op_type, chunk.shape)
        function = lowering.function(key, partial(_broadcast, apply, chunk.shape), node.op_type)
        chunk.vector(tk.OP_COMP, chunk.words, chunk.out, function)

    chunks.lower_chunks(lowering, node, output, operands, walk, write)


_NARROW = frozenset(("int8", "uint8", "int16", "uint16", "int32", "bool"))
_WORDS = frozenset(("int32",))
"""Integer types that the accumulator holds."""
_OF_INTEGERS = frozenset(("Add", "Sub", "Mul", "Max", "Min"))
"""Assumed: the lanes that add and scale int32 accumulators of quantised layers do these for tensors too."""

_COMPARED: Mapping[str, Apply] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Not": lambda a, _: np.logical_not(a),
    "IsNaN": lambda a, _: np.isnan(a),
}
"""Assumed: one pass of the comparator each."""


LOWERINGS = {
    **dict.fromkeys(formulas.UNARY, lower_unary),
    **dict.fromkeys(formulas.BINARY, lower_nary),
    "Clip": lower_clip,
    "BatchNormalization": lower_batch_normalization,
    "Cast": lower_cast,
    **dict.fromkeys(_COMPARED, lower_comparison),
    "Where": lower_where,
    "BiasGelu": lower_bias_gelu,
    "FastGelu": lower_bias_gelu,
}
