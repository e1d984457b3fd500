"""Lower activation functions: ReLU and clip in the stages of the DPU, all others through its tables."""

import math
from collections.abc import Mapping

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.targets.rk3588.compiler.activation_functions import ActivationFunction, activation_function
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages, requantisation
from npuviz.targets.rk3588.compiler.dpu_task import emit, homes
from npuviz.targets.rk3588.compiler.layers import Activation, Layer, Planner, upper_limit
from npuviz.targets.rk3588.compiler.lookup_table import (
    ActivationTable,
    half_table,
    stand_alone_table,
)
from npuviz.targets.rk3588.compiler.pointwise import between_steps
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.tables import Buffer


def lower_activation(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower a layer that is only an activation."""
    assert layer.activation is not None
    source, target = homes(b, layer)
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    if taken is None or out is None:
        emit_activation(b, layer, source, target)
        return
    limit = limit_of(b.graph.constants, layer.activation)
    if limit is None:
        table = stand_alone_table(_function_of(layer.activation).function, taken, out)
        stages = Stages(bias_constant=table.bias_constant, main_factor=table.main_factor)
        emit(b, layer, source, target, None, lambda _: stages, table=table)
        return
    end = requantisation(taken.scale / out.scale, out.zero_point)
    held = held_limit(limit, taken.scale)
    stages = Stages(bias_constant=-taken.zero_point, relu=True, limit=held, out=end)
    emit(b, layer, source, target, None, lambda _: stages)


def emit_activation(b: Builder, layer: Layer, source: Buffer, target: Buffer) -> None:
    """Emit the activation of a layer in fp16 as tasks of its own."""
    assert layer.activation is not None
    limit = limit_of(b.graph.constants, layer.activation)
    if limit is not None:
        emit(b, layer, source, target, None, lambda _: Stages(relu=True, limit=held_limit(limit)))
        return
    slope = slope_of(layer.activation)
    if slope:
        stages = Stages(main_factor=slope, negative_only="BS")
        emit(b, layer, source, target, None, lambda _: stages)
        return
    table = table_of_halves(layer.activation)
    stages = Stages(bias_constant=table.bias_constant, main_factor=table.main_factor)
    emit(b, layer, source, target, None, lambda _: stages, table=table)


def slope_of(activation: Activation | None) -> int:
    """Return the bits of the fp16 by which a LeakyRelu multiplies negative values, as the DPU's PReLU does; 0
    for other activations, and for slopes that fp16 does not hold."""
    if activation is None or activation.function != "LeakyRelu" or activation.chain is not None:
        return 0
    slope = np.float16(attributes_of(activation.node).real("alpha"))
    return int(slope.view(np.uint16)) if slope > 0 and np.isfinite(slope) else 0


def table_of_halves(activation: Activation) -> ActivationTable:
    """Return the table of an activation in the fp16 pipeline."""
    found = _function_of(activation)
    return half_table(found.function, found.low, found.high)


def table_of_sums(activation: Activation, taken: Quantisation, out: Quantisation) -> ActivationTable:
    """Return the table of an activation of int8 sums; it ends where the tensor before it would saturate."""
    function = _function_of(activation).function
    if activation.chain is not None:
        return stand_alone_table(between_steps(function, taken), taken, out)
    low, high = ((end - taken.zero_point) * taken.scale for end in (-128, 127))
    return stand_alone_table(lambda x: function(np.clip(x, low, high)), taken, out)


def _function_of(activation: Activation) -> ActivationFunction:
    if activation.chain is not None:
        return ActivationFunction(activation.chain, 0, 0)
    found = activation_function(activation.function, attributes_of(activation.node))
    if found is None:
        raise CannotLower("no table is known for it")
    return found


def held_limit(limit: float, step: float = 0.0) -> int:
    """Return a limit as ReLU-X has it: in steps, or the bits of fp32 if `step` is 0; 0 for no limit."""
    if math.isinf(limit):
        return 0
    if step == 0:
        return int(np.array([limit], np.float32).view(np.uint32)[0])
    return max(1, min(round(limit / step), (1 << 31) - 1))


def limit_of(constants: Mapping[int, np.ndarray], activation: Activation | None) -> float | None:
    """Return the limit of a fused Relu or Clip; None if there is neither."""
    if activation is None or activation.chain is not None:
        return None
    return upper_limit(constants, activation.node)
