"""Lower operators that change each element alone, without a table: EW with a constant, or with none."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu_task import emit, homes
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.tables import Buffer

_CODES = {"Abs": dpu.ABSOLUTE, "Neg": dpu.NEGATIVE, "Floor": dpu.FLOOR, "Ceil": dpu.CEIL}


def lower_single(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Abs, Neg, Floor, Ceil of a cube in fp16."""
    source, target = _ends(b, layer)
    _emit(b, layer, (source, target), _CODES[layer.head.op_type], 0.0)


def lower_clip(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Clip with any constant limits: a maximum with one, then a minimum with the other."""
    source, target = _ends(b, layer)
    low, high = _limits(b, layer.head)
    if math.isinf(high):
        _emit(b, layer, (source, target), dpu.ALU_MAX, low)
        return
    if not math.isinf(low):
        raised = b.scratch(f"{layer.head.name or 'Clip'} raised", target.shape, target.dtype)
        _emit(b, layer, (source, raised), dpu.ALU_MAX, low)
        b.begin_layer()
        source = raised
    _emit(b, layer, (source, target), dpu.ALU_MIN, high)


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **dict.fromkeys(_CODES, lower_single),
    "Clip": lower_clip,
}


def _ends(b: Builder, layer: Layer) -> tuple[Buffer, Buffer]:
    if layer.is_quantised:
        raise CannotLower(f"{layer.head.op_type} in int8", change="fp16 around it")
    return homes(b, layer)


def _limits(b: Builder, node: Node) -> tuple[float, float]:
    """Return the limits of a Clip. Raises CannotLower for run-time limits."""
    found: list[float] = []
    for place, name, default in ((1, "min", -math.inf), (2, "max", math.inf)):
        tensor = node.inputs[place] if place < len(node.inputs) else -1
        if tensor < 0:
            found.append(float(node.attributes.get(name, default)))
            continue
        if tensor not in b.graph.constants:
            raise CannotLower(f"a limit {name} that is no constant", change="constant limits")
        found.append(float(np.reshape(b.graph.constants[tensor], -1)[0]))
    return found[0], found[1]


def _emit(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], code: int, constant: float) -> None:
    bits = int(np.array([constant], np.float32).view(np.uint32)[0])
    stages = dpu.Stages(operand=dpu.Operand(0, code, 0, 2, constant=bits))
    emit(b, layer, *ends, None, lambda _: stages, code)
