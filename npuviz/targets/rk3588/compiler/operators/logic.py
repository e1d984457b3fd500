"""Lower comparisons, logic, choices and run-time limits. Booleans lie as 8-bit integers, 0 or 1.

A comparison is the sign of a difference in fp32. A choice has no NaN where only one side has an infinity:
each side meets plus infinity where it is chosen and minus infinity where it is not, in EW's minimum, and the
maximum of both is the result.
"""

from collections.abc import Callable, Mapping

from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Requantisation, Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.moves.copies import lower_view
from npuviz.targets.rk3588.compiler.operators.alike import alike
from npuviz.targets.rk3588.compiler.steps import HALF, NO_STAGES, Steps, bits, half_bits
from npuviz.targets.rk3588.tables import Buffer

BYTE = "int8"
_MINUS = 4
"""Code of EW_CFG. Ref: XML."""
_NOT = Stages(main_factor=half_bits(-1.0), out=Requantisation(1, 0, 1))


def _result(b: Builder, layer: Layer) -> tuple[Buffer, tuple[int, ...]]:
    """Return the cube of the result, and the shape of its tensor."""
    node = layer.head
    target = b.home(node.outputs[0])
    is_half = b.graph.tensors[node.outputs[0]].dtype != "bool"
    if target.layout != "feature" or target.dtype != (HALF if is_half else BYTE):
        raise CannotLower(f"{target.name} is stored as {target.dtype}, {target.layout}")
    return target, b.graph.tensors[node.outputs[0]].shape


def lower_comparison(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Greater, Less, Equal and their "or equal" forms, of floats or booleans."""
    node, kind = layer.head, layer.head.op_type
    target, shape = _result(b, layer)
    one, two = (alike(b, layer, planner, tensor, target, shape) for tensor in node.inputs)
    steps = Steps(b, layer)
    if kind in ("Less", "GreaterOrEqual"):
        one, two = two, one
    above = steps.pair(one, _MINUS, two)
    if kind in ("Greater", "Less"):
        steps.is_positive(above, target=target)
        return
    first = steps.is_positive(above)
    if kind == "Equal":
        below = steps.is_positive(steps.pair(two, _MINUS, one))
        first = steps.pair(first, dpu.ALU_ADD, below, dtype=HALF)
    steps.run(first, _NOT, target)


def lower_logic(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower And, Or, Xor, Not."""
    node, kind = layer.head, layer.head.op_type
    target, shape = _result(b, layer)
    given = [alike(b, layer, planner, tensor, target, shape) for tensor in node.inputs]
    steps = Steps(b, layer)
    if kind == "Not":
        steps.run(given[0], _NOT, target)
    elif kind == "Xor":
        steps.with_constant(steps.pair(given[0], _MINUS, given[1], dtype=HALF), dpu.ABSOLUTE, target=target)
    else:
        steps.pair(given[0], dpu.ALU_MIN if kind == "And" else dpu.ALU_MAX, given[1], target)


def lower_choice(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Where of floats."""
    node = layer.head
    target, shape = _result(b, layer)
    chosen, one, two = (alike(b, layer, planner, tensor, target, shape) for tensor in node.inputs)
    steps = Steps(b, layer)
    # (0 or 1, minus a half) * 2^29 is beyond fp16.
    far = Stages(bias_constant=bits(-0.5), main_factor=half_bits(2.0**15), out=Requantisation(1 << 14))
    wanted = steps.run(chosen, far, dtype=HALF)
    other = steps.with_constant(wanted, dpu.NEGATIVE, dtype=HALF)
    sides = [
        steps.pair(side, dpu.ALU_MIN, limit, dtype=HALF) for side, limit in ((one, wanted), (two, other))
    ]
    steps.pair(sides[0], dpu.ALU_MAX, sides[1], target)


def lower_cast(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Cast between floats, which are stored alike, and of booleans to floats."""
    if b.graph.tensors[layer.inputs[0].tensor].dtype != "bool":
        lower_view(b, layer, planner)
        return
    target, shape = _result(b, layer)
    Steps(b, layer).run(alike(b, layer, planner, layer.head.inputs[0], target, shape), NO_STAGES, target)


def lower_limits(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Clip with run-time limits."""
    node = layer.head
    target = cube_of(b, layer, layer.output)
    shape = b.graph.tensors[node.outputs[0]].shape
    found = alike(b, layer, planner, node.inputs[0], target, shape)
    steps = Steps(b, layer)
    limits = [(tensor, alu) for tensor, alu in zip(node.inputs[1:], (0, 1), strict=False) if tensor >= 0]
    for number, (tensor, alu) in enumerate(limits):
        limit = alike(b, layer, planner, tensor, target, shape)
        place = target if number == len(limits) - 1 else None
        found = steps.pair(found, alu, limit, place, dtype=HALF)


def lower_several(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Add, Mul, Max and the like, of any operands that broadcast to one shape."""
    node = layer.head
    if layer.activation is not None and layer.activation.function != "Relu":
        raise CannotLower(f"{node.op_type} of operands of several shapes, with a table behind it")
    target = cube_of(b, layer, layer.output)
    shape = b.graph.tensors[node.outputs[0]].shape
    steps = Steps(b, layer)
    given = [alike(b, layer, planner, tensor, target, shape) for tensor in node.inputs]
    alu = _SEVERAL[node.op_type]
    found = given[0]
    last = len(given) - 1
    is_plain = node.op_type != "Mean" and layer.activation is None
    for number, other in enumerate(given[1:], 1):
        found = steps.pair(found, alu, other, target if number == last and is_plain else None, dtype=HALF)
    if node.op_type == "Mean":
        steps.scaled(found, 1 / len(given), target)
    elif not is_plain or last == 0:
        steps.run(found, Stages(relu=layer.activation is not None), target)


_SEVERAL = {
    "Add": dpu.ALU_ADD, "Sum": dpu.ALU_ADD, "Mean": dpu.ALU_ADD, "Sub": _MINUS, "Max": 0, "Min": 1,
    "Mul": dpu.MULTIPLY, "Div": dpu.DIVIDE,
}  # fmt: skip

LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **dict.fromkeys(("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"), lower_comparison),
    **dict.fromkeys(("And", "Or", "Xor", "Not"), lower_logic),
    "Where": lower_choice,
    "Cast": lower_cast,
}
OTHER_WAYS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **dict.fromkeys(_SEVERAL, lower_several),
    "Clip": lower_limits,
}
"""Lowerings that are tried when that of the operator's own family refuses."""
