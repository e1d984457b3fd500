"""Operators on two cubes of one shape."""

from dataclasses import replace

from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu_task import cube_of, emit, homes
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.tables import Buffer

FIXED_BITS = 13
"""Bits of the factors that bring two int8 operands to one scale; their sum stays below 2^31."""


_ALU = {"Add": dpu.ALU_ADD, "Sum": dpu.ALU_ADD, "Sub": 4, "Max": 0, "Min": 1, "Mul": dpu.MULTIPLY}
"""Codes of EW_CFG. Ref: XML."""


def lower_pair(b: Builder, layer: Layer) -> None:
    """Sum, difference, product, larger or smaller of two cubes of one shape."""
    first, second, target = _cubes(b, layer)
    alu, relu = _ALU[layer.head.op_type], layer.activation is not None
    out = layer.output.quantisation
    if out is None:
        emit(b, layer, first, target, second, lambda o: dpu.Stages(operand=replace(o, relu=relu)), alu)
        return
    one, two = _quantisations(layer)
    if alu == dpu.MULTIPLY:
        main, factor, step = 0, 1, one.scale * two.scale / out.scale
    else:
        largest = max(one.scale, two.scale)
        main, factor = (round(q.scale / largest * (1 << FIXED_BITS)) for q in (one, two))
        step = largest / out.scale / (1 << FIXED_BITS)

    def stages(operand: dpu.Operand) -> dpu.Stages:
        taken = dpu.Operand(operand.address, alu, operand.stride, 1, -two.zero_point, factor, relu)
        end = dpu.requantisation(step, out.zero_point)
        return dpu.Stages(bias_constant=-one.zero_point, main_factor=main, operand=taken, out=end)

    emit(b, layer, first, target, second, stages, alu)


def _quantisations(layer: Layer) -> tuple[Quantisation, Quantisation]:
    one, two = layer.inputs[0].quantisation, layer.inputs[1].quantisation
    assert one is not None
    assert two is not None
    return one, two


def _cubes(b: Builder, layer: Layer) -> tuple[Buffer, Buffer, Buffer]:
    """Buffers of two inputs and the output, all of one shape."""
    first, target = homes(b, layer)
    second = cube_of(b, layer, layer.inputs[1])
    if second.shape != first.shape:
        raise CannotLower(f"operands of shapes {first.shape} and {second.shape}")
    return first, second, target
