"""Tasks of the DPU alone, and the operators on two cubes."""

from collections.abc import Callable
from dataclasses import replace

from npuviz.formats.rk3588.registers import Word, registers
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler.builder import Builder, cube_shape, image_bytes
from npuviz.targets.rk3588.compiler.dpu import (
    ALU_ADD,
    MULTIPLY,
    Operand,
    Stages,
    requantisation,
    with_zeros,
)
from npuviz.targets.rk3588.compiler.layers import Layer, Stored
from npuviz.targets.rk3588.compiler.lookup_table import ActivationTable
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES, FP16, INT8

DPU_ENABLES = 0x18
FIXED_BITS = 13
"""Bits of the factors that bring two int8 operands to one scale; their sum stays below 2^31."""


_ALU = {"Add": ALU_ADD, "Sum": ALU_ADD, "Sub": 4, "Max": 0, "Min": 1}
"""Codes of EW_CFG. Ref: XML."""


def lower_pair(b: Builder, layer: Layer) -> None:
    """Sum, difference, larger or smaller of two cubes of one shape."""
    first, second, target = _cubes(b, layer)
    alu, relu = _ALU[layer.head.op_type], layer.activation is not None
    out = layer.output.quantisation
    if out is None:
        emit(b, layer, first, target, second, lambda o: Stages(operand=replace(o, relu=relu)), alu)
        return
    one, two = _quantisations(layer)
    largest = max(one.scale, two.scale)
    factors = [round(q.scale / largest * (1 << FIXED_BITS)) for q in (one, two)]

    def stages(operand: Operand) -> Stages:
        taken = Operand(operand.address, alu, operand.stride, 1, -two.zero_point, factors[1], relu)
        end = requantisation(largest / out.scale / (1 << FIXED_BITS), out.zero_point)
        return Stages(bias_constant=-one.zero_point, main_factor=factors[0], operand=taken, out=end)

    emit(b, layer, first, target, second, stages, alu)


def lower_product(b: Builder, layer: Layer) -> None:
    """Mul of two cubes of one shape."""
    first, second, target = _cubes(b, layer)
    out, relu = layer.output.quantisation, layer.activation is not None
    if out is None:
        emit(b, layer, first, target, second, lambda o: Stages(operand=replace(o, relu=relu)), MULTIPLY)
        return
    one, two = _quantisations(layer)

    def stages(operand: Operand) -> Stages:
        taken = Operand(operand.address, MULTIPLY, operand.stride, 1, -two.zero_point, 1, relu)
        end = requantisation(one.scale * two.scale / out.scale, out.zero_point)
        return Stages(bias_constant=-one.zero_point, operand=taken, out=end)

    emit(b, layer, first, target, second, stages, MULTIPLY)


def _quantisations(layer: Layer) -> tuple[Quantisation, Quantisation]:
    one, two = layer.inputs[0].quantisation, layer.inputs[1].quantisation
    assert one is not None
    assert two is not None
    return one, two


def layer_dtype(layer: Layer) -> str:
    """What the cubes of a layer hold."""
    return "int8" if layer.is_quantised else "float16"


def cube_of(b: Builder, layer: Layer, stored: Stored) -> Buffer:
    """The buffer of an input or the output of a layer. Raises CannotLower if it is no cube of its type."""
    dtype = layer_dtype(layer)
    buffer = b.home(stored.tensor, dtype, stored.quantisation)
    if buffer.layout != "feature" or buffer.dtype != dtype:
        raise CannotLower(f"{buffer.name} is stored as {buffer.dtype}, {buffer.layout}")
    return buffer


def homes(b: Builder, layer: Layer) -> tuple[Buffer, Buffer]:
    """Buffers of the first input and the output, both cubes of one size."""
    found = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    if cube_shape(found[0].shape) != cube_shape(found[1].shape):
        raise CannotLower(f"{found[0].shape} and {found[1].shape} do not lie alike in memory")
    return found


def _cubes(b: Builder, layer: Layer) -> tuple[Buffer, Buffer, Buffer]:
    """Buffers of two inputs and the output, all of one shape."""
    first, target = homes(b, layer)
    second = cube_of(b, layer, layer.inputs[1])
    if second.shape != first.shape:
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
    table: ActivationTable | None = None,
) -> None:
    """DPU tasks over all rows of all images, shared out to the cores.

    target  its images may lie further apart than those of the source: a part of a larger cube
    stages  from the second operand (address 0 where there is none) to what the DPU does
    table   to look the results up in
    """
    dtype = source.dtype
    item = 1 if dtype == "int8" else 2
    images, channels, height, width = cube_shape(source.shape)
    cores = min(b.spec.cores, height)
    for image in range(images):
        offset, written = (image * image_bytes(buffer.shape, dtype) for buffer in (source, target))
        for core in range(cores):
            low, high = (height * n // cores for n in (core, core + 1))
            inside = low * width * ATOM_BYTES
            address = second.address + offset + inside if second is not None else 0
            chosen = stages(Operand(address, alu, height * width, item))
            size = (aligned(channels, packing(dtype).channels), high - low, width)
            places = (source.address + offset + inside, target.address + written + inside)
            words = cube_words(size, height, places, dtype, chosen)
            if table is not None:
                words = with_table(words, table, b.needs_table(core, table), to_half=dtype == "float16")
            b.task(layer.head.id, core, words, DPU_ENABLES)


def with_table(words: list[Word], table: ActivationTable, fills: bool, *, to_half: bool) -> list[Word]:
    """The words of a task whose results go through a table; `fills` writes its entries, too."""
    switch = table.switch_words(to_half=to_half)
    entries = (registers().encode("DPU", name).offset for name in ("LUT_ACCESS_CFG", "LUT_ACCESS_DATA"))
    of_entries = frozenset(entries)
    fill = [word for word in table.fill if fills or word.offset not in of_entries]
    replaced = {(word.target, word.offset) for word in (*switch, *table.fill)}
    kept = [word for word in words if (word.target, word.offset) not in replaced]
    return [*kept, *fill, *switch]


def cube_words(
    size: tuple[int, int, int],
    height: int,
    places: tuple[int, int],
    dtype: str,
    stages: Stages,
    surface: int = 0,
) -> list[Word]:
    """Words of a DPU task that reads a cube from memory.

    height   of the whole cube; places  addresses of input and output
    surface  atoms between surfaces of the output, 0: as in the input
    """
    channels, rows, width = size
    precision = INT8 if dtype == "int8" else FP16
    size_e = 1
    surface = surface or height * width

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
        dpu("DST_SURF_STRIDE", stride=surface),
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
        dpu("SURFACE_ADD", step=surface * (size_e + 1)),
        rdma("DATA_CUBE_WIDTH", width=width - 1),
        rdma("DATA_CUBE_HEIGHT", height=rows - 1),
        rdma("DATA_CUBE_CHANNEL", channels=channels - 1),
        rdma("SRC_BASE_ADDR", address=places[0]),
        rdma("FEATURE_MODE_CFG", in_precision=precision, burst=15, proc_precision=precision, flying=1),
        rdma("SURF_NOTCH", notch=(height - rows) * width),
    ]
    changed = [*stages.words(to_half=dtype == "float16"), *stages.reader_words()]
    kept = {(word.target, word.offset) for word in changed}
    words = [word for word in words if (word.target, word.offset) not in kept] + changed
    return with_zeros(words, "DPU", "DPU_RDMA")
