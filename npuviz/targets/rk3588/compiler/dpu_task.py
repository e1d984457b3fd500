"""Tasks of the DPU alone: cubes read, changed by its stages, and written."""

from collections.abc import Callable

from npuviz.formats.rk3588.registers import Word, registers
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler.builder import Builder, cube_shape, image_bytes
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, Operand, Stages, dpu_word, rdma_word, with_zeros
from npuviz.targets.rk3588.compiler.layers import Layer, Stored
from npuviz.targets.rk3588.compiler.lookup_table import ActivationTable
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES, FP16, INT8

DPU_ENABLES = 0x18


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

    bypass = {"relu_bypass": 1, "mul_bypass": 1, "alu_bypass": 1, "bypass": 1}
    words = [
        dpu_word("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        rdma_word("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        dpu_word("FEATURE_MODE_CFG", burst=15, output=2, flying=1),
        dpu_word("DATA_FORMAT", out_precision=precision, in_precision=precision, proc_precision=precision),
        dpu_word("DST_BASE_ADDR", address=places[1]),
        dpu_word("DST_SURF_STRIDE", stride=surface),
        dpu_word("DATA_CUBE_WIDTH", width=width - 1),
        dpu_word("DATA_CUBE_HEIGHT", height=rows - 1),
        dpu_word("DATA_CUBE_CHANNEL", original_channels=channels - 1, channels=channels - 1),
        dpu_word("BS_CFG", **bypass),
        dpu_word("BS_OW_CFG", size_e_2=size_e, size_e_1=size_e, size_e_0=size_e, od_bypass=1),
        dpu_word("WDMA_SIZE_0", channels=channels - 1),
        dpu_word("WDMA_SIZE_1", height=rows - 1, width=width - 1),
        dpu_word("BN_CFG", **bypass),
        dpu_word("EW_CFG", relu_bypass=1, convert_bypass=1, lut_bypass=1, op_bypass=1, bypass=1),
        dpu_word("EW_CVT_SCALE_VALUE", scale=1),
        dpu_word("SURFACE_ADD", step=surface * (size_e + 1)),
        rdma_word("DATA_CUBE_WIDTH", width=width - 1),
        rdma_word("DATA_CUBE_HEIGHT", height=rows - 1),
        rdma_word("DATA_CUBE_CHANNEL", channels=channels - 1),
        rdma_word("SRC_BASE_ADDR", address=places[0]),
        rdma_word("FEATURE_MODE_CFG", in_precision=precision, burst=15, proc_precision=precision, flying=1),
        rdma_word("SURF_NOTCH", notch=(height - rows) * width),
    ]
    changed = [*stages.words(to_half=dtype == "float16"), *stages.reader_words()]
    kept = {(word.target, word.offset) for word in changed}
    words = [word for word in words if (word.target, word.offset) not in kept] + changed
    return with_zeros(words, "DPU", "DPU_RDMA")
