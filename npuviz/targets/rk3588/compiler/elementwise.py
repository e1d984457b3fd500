"""Operators of the DPU alone: sums and products of two cubes, ReLU and clip."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from npuviz.formats.rk3588_layout import aligned, packing
from npuviz.formats.rk3588_registers import Word, registers
from npuviz.targets.rk3588.compiler.builder import Builder, CannotLower, cube_shape, image_bytes
from npuviz.targets.rk3588.compiler.dpu import (
    ALU_ADD,
    MULTIPLY,
    Operand,
    Stages,
    requantisation,
)
from npuviz.targets.rk3588.compiler.layers import VIEWS, Layer, Planner
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.work import ATOM_BYTES, FP16, INT8

DPU_ENABLES = 0x18
FIXED_BITS = 13
"""Bits of the factors that bring two int8 operands to one scale; their sum stays below 2^31."""


def lower_sum(b: Builder, layer: Layer, planner: Planner) -> None:
    """Add of two cubes of one shape."""
    first, second, target = _cubes(b, layer)
    relu = layer.activation is not None
    out = layer.output.quantisation
    if out is None:
        emit(b, layer, first, target, second, lambda o: Stages(operand=replace(o, relu=relu)), ALU_ADD)
        return
    one, two = _quantisations(layer)
    largest = max(one.scale, two.scale)
    factors = [round(q.scale / largest * (1 << FIXED_BITS)) for q in (one, two)]

    def stages(operand: Operand) -> Stages:
        taken = Operand(operand.address, ALU_ADD, operand.stride, 1, -two.zero_point, factors[1], relu)
        end = requantisation(largest / out.scale / (1 << FIXED_BITS), out.zero_point)
        return Stages(bias_constant=-one.zero_point, main_factor=factors[0], operand=taken, out=end)

    emit(b, layer, first, target, second, stages, ALU_ADD)


def lower_product(b: Builder, layer: Layer, planner: Planner) -> None:
    """Mul of two cubes of one shape."""
    first, second, target = _cubes(b, layer)
    out = layer.output.quantisation
    if layer.activation is not None:
        raise CannotLower("a ReLU behind a product of two cubes")
    if out is None:
        emit(b, layer, first, target, second, lambda o: Stages(operand=o), MULTIPLY)
        return
    one, two = _quantisations(layer)

    def stages(operand: Operand) -> Stages:
        taken = Operand(operand.address, MULTIPLY, operand.stride, 1, -two.zero_point, 1)
        end = requantisation(one.scale * two.scale / out.scale, out.zero_point)
        return Stages(bias_constant=-one.zero_point, operand=taken, out=end)

    emit(b, layer, first, target, second, stages, MULTIPLY)


def lower_relu(b: Builder, layer: Layer, planner: Planner) -> None:
    """Relu, and Clip from 0 to a limit."""
    node = layer.head
    limit = 0.0
    if node.op_type == "Clip":
        bounds = [b.graph.constants.get(t) if t >= 0 else None for t in node.inputs[1:3]]
        low = float(np.reshape(bounds[0], -1)[0]) if bounds and bounds[0] is not None else -np.inf
        if len(bounds) < 2 or bounds[1] is None or low != 0.0:
            raise CannotLower("a clip that is not from 0 to a constant")
        limit = float(np.reshape(bounds[1], -1)[0])
    source, target = _homes(b, layer)
    out, taken = layer.output.quantisation, layer.inputs[0].quantisation
    if out is None or taken is None:
        held = int(np.array([limit], np.float32).view(np.uint32)[0]) if limit else 0
        emit(b, layer, source, target, None, lambda _: Stages(relu=True, limit=held))
        return
    end = requantisation(taken.scale / out.scale, out.zero_point)
    held = round(limit / taken.scale)
    stages = Stages(bias_constant=-taken.zero_point, relu=True, limit=held, out=end)
    emit(b, layer, source, target, None, lambda _: stages)


def lower_view(b: Builder, layer: Layer, planner: Planner) -> None:
    """A change of shape that leaves the bytes as they are: a copy."""
    source, target = _homes(b, layer)
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    stages = Stages(relu=layer.activation is not None)
    if taken is not None and out is not None and taken != out:
        end = requantisation(taken.scale / out.scale, out.zero_point)
        stages = Stages(bias_constant=-taken.zero_point, out=end)
    emit(b, layer, source, target, None, lambda _: stages)


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    "Add": lower_sum,
    "Mul": lower_product,
    "Relu": lower_relu,
    "Clip": lower_relu,
    **dict.fromkeys(VIEWS, lower_view),
}


def _quantisations(layer: Layer) -> tuple[Quantisation, Quantisation]:
    one, two = layer.inputs[0].quantisation, layer.inputs[1].quantisation
    assert one is not None
    assert two is not None
    return one, two


def _homes(b: Builder, layer: Layer) -> tuple[Buffer, Buffer]:
    """Buffers of the first input and the output, both cubes of the layer's type."""
    dtype = "int8" if layer.is_quantised else "float16"
    found = (
        b.home(layer.inputs[0].tensor, dtype, layer.inputs[0].quantisation),
        b.home(layer.output.tensor, dtype, layer.output.quantisation),
    )
    for buffer in found:
        if buffer.layout != "feature" or buffer.dtype != dtype:
            raise CannotLower(f"{buffer.name} is stored as {buffer.dtype}, {buffer.layout}")
    if cube_shape(found[0].shape) != cube_shape(found[1].shape):
        raise CannotLower(f"{found[0].shape} and {found[1].shape} do not lie alike in memory")
    return found


def _cubes(b: Builder, layer: Layer) -> tuple[Buffer, Buffer, Buffer]:
    """Buffers of two inputs and the output, all of one shape."""
    if len(layer.inputs) != 2:
        raise CannotLower("an operand that is a constant")
    first, target = _homes(b, layer)
    second = b.home(layer.inputs[1].tensor, first.dtype, layer.inputs[1].quantisation)
    if second.layout != "feature" or second.dtype != first.dtype or second.shape != first.shape:
        raise CannotLower(f"operands of shapes {first.shape} and {second.shape}")
    return first, second, target


def emit(
    b: Builder,
    layer: Layer,
    source: Buffer,
    target: Buffer,
    second: Buffer | None,
    stages: Callable[[Operand], Stages],
    alu: int = ALU_ADD,
    before: tuple[Word, ...] = (),
) -> None:
    """DPU tasks over all rows of all images, shared out to the cores.

    stages  from the second operand (address 0 where there is none) to what the DPU does
    before  words that come first: a table
    """
    dtype = source.dtype
    item = 1 if dtype == "int8" else 2
    images, channels, height, width = cube_shape(source.shape)
    cores = min(b.spec.cores, height)
    for image in range(images):
        offset = image * image_bytes(source.shape, dtype)
        for core in range(cores):
            low, high = (height * n // cores for n in (core, core + 1))
            place = offset + low * width * ATOM_BYTES
            address = second.address + place if second is not None else 0
            chosen = stages(Operand(address, alu, height * width, item))
            size = (aligned(channels, packing(dtype).channels), high - low, width)
            places = (source.address + place, target.address + place)
            words = [*before, *_words(size, height, places, dtype, chosen)]
            b.task(layer.head.id, core, words, DPU_ENABLES)


def _words(
    size: tuple[int, int, int], height: int, places: tuple[int, int], dtype: str, stages: Stages
) -> list[Word]:
    """Words of a DPU task that reads a cube from memory; `height` is that of the whole cube."""
    channels, rows, width = size
    precision = INT8 if dtype == "int8" else FP16
    size_e = 1
    pixels = height * width

    def dpu(name: str, **fields: int) -> Word:
        return registers().encode("DPU", name, **fields)

    def rdma(name: str, **fields: int) -> Word:
        return registers().encode("DPU_RDMA", name, **fields)

    bypass = {"relu_bypass": 1, "mul_bypass": 1, "alu_bypass": 1, "bypass": 1}
    words = [
        dpu("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        rdma("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        dpu("FEATURE_MODE_CFG", burst=15, output=2, flying=1),
        dpu("DATA_FORMAT", out_precision=precision, in_precision=precision, proc_precision=precision),
        dpu("DST_BASE_ADDR", address=places[1]),
        dpu("DST_SURF_STRIDE", stride=pixels),
        dpu("DATA_CUBE_WIDTH", width=width - 1),
        dpu("DATA_CUBE_HEIGHT", height=rows - 1),
        dpu("DATA_CUBE_CHANNEL", original_channels=channels - 1, channels=channels - 1),
        dpu("BS_CFG", **bypass),
        dpu("BS_OW_CFG", size_e_2=size_e, size_e_1=size_e, size_e_0=size_e, od_bypass=1),
        dpu("WDMA_SIZE_0", channels=channels - 1),
        dpu("WDMA_SIZE_1", height=rows - 1, width=width - 1),
        dpu("BN_CFG", **bypass),
        dpu("EW_CFG", relu_bypass=1, convert_bypass=1, lut_bypass=1, op_bypass=1, bypass=1),
        dpu("EW_CVT_SCALE_VALUE", scale=1),
        dpu("SURFACE_ADD", step=pixels * (size_e + 1)),
        rdma("DATA_CUBE_WIDTH", width=width - 1),
        rdma("DATA_CUBE_HEIGHT", height=rows - 1),
        rdma("DATA_CUBE_CHANNEL", channels=channels - 1),
        rdma("SRC_BASE_ADDR", address=places[0]),
        rdma("FEATURE_MODE_CFG", in_precision=precision, burst=15, proc_precision=precision, flying=1),
        rdma("SURF_NOTCH", notch=(height - rows) * width),
    ]
    changed = [*stages.words(to_half=dtype == "float16"), *stages.reader_words()]
    kept = {(word.target, word.offset) for word in changed}
    return [word for word in words if (word.target, word.offset) not in kept] + changed
