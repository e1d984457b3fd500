"""Make tasks of the DPU alone: cubes read, changed by its stages, and written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from npuviz.formats.rk3588.registers import Word
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import (
    ALU_ADD,
    DIVIDE,
    Operand,
    Stages,
    dpu_word,
    rdma_word,
    with_zeros,
)
from npuviz.targets.rk3588.compiler.layers import Layer, Stored
from npuviz.targets.rk3588.compiler.lookup_table import ActivationTable
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape, image_bytes
from npuviz.targets.rk3588.task.work import ATOM_BYTES, BF16, FP16, FP32, INT8, INT16, INT32

DPU_ENABLES = 0x18
MAX_SIDE = 8192
"""Channels, rows and columns of a task: 13 bits each. Ref: XML."""
_PRECISIONS = {
    "int8": INT8,
    "int16": INT16,
    "float16": FP16,
    "bfloat16": BF16,
    "int32": INT32,
    "float32": FP32,
}
"""Precision codes. Ref: TRM: only the DPU has those of 32 bits."""


def layer_dtype(layer: Layer) -> str:
    """Return the element type of the cubes of a layer."""
    return "int8" if layer.is_quantised else "float16"


def cube_of(b: Builder, layer: Layer, stored: Stored) -> Buffer:
    """Return the buffer of an input or the output of a layer. Raises CannotLower if it is no cube of its
    type."""
    dtype = layer_dtype(layer)
    buffer = b.home(stored.tensor, dtype, stored.quantisation)
    if buffer.layout != "feature" or buffer.dtype != dtype:
        raise CannotLower(f"{buffer.name} is stored as {buffer.dtype}, {buffer.layout}")
    return buffer


def homes(b: Builder, layer: Layer) -> tuple[Buffer, Buffer]:
    """Return the buffers of the first input and the output, both cubes of one size. Raises CannotLower."""
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
    """Emit DPU tasks over all rows of all images, shared out to the cores, as many as the registers require.

    target  may be of another type; its images may lie further apart than those of the source: a part of
            a larger cube
    second  a cube as large as the source, or with one position: one value per channel
    stages  from the second operand (address 0 where there is none) to what the DPU does
    table   table in which the results are looked up
    """
    dtype = source.dtype
    images, channels, height, width = cube_shape(source.shape)
    cores = min(b.spec.cores, height)
    # Filled-up channels would give quotients that are no numbers; types have atoms of different channels.
    is_exact = alu == DIVIDE or dtype != target.dtype
    size_c = channels if is_exact else aligned(channels, packing(dtype).channels)
    plane = Plane(height * width)
    for image in range(images):
        offset, written = (image * image_bytes(buffer.shape, buffer.dtype) for buffer in (source, target))
        operand = _image_address(second, image)
        for core, part in _parts((size_c, height, width), cores):
            chosen = stages(_operand_of(source, second, operand, part, alu)).from_channel(part.channel)
            places = (
                source.address + offset + part.inside(source),
                target.address + written + part.inside(target),
            )
            words = move_words(Move(part.size, places, (dtype, target.dtype), plane, plane), chosen)
            if table is not None:
                words = with_table(
                    words, table, b.needs_table(core, table), to_half=target.dtype == "float16"
                )
            b.task(layer.head.id, core, words, DPU_ENABLES)


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of an image that one task takes: size (channels, rows, columns), and where it begins."""

    size: tuple[int, int, int]
    channel: int
    row: int
    column: int

    def inside(self, buffer: Buffer) -> int:
        """Return the bytes from the beginning of an image of a cube to the part."""
        _, _, height, width = cube_shape(buffer.shape)
        surface = self.channel // packing(buffer.dtype).channels
        return ((surface * height + self.row) * width + self.column) * ATOM_BYTES


def _parts(size: tuple[int, int, int], cores: int) -> Iterator[tuple[int, _Part]]:
    """Yield parts of an image that single tasks can hold, each with its core.

    If columns are cut, each row is a part: EW's reader has no rows.
    """
    channels, height, width = size
    columns = list(chunks(0, width, MAX_SIDE))
    rows_at_once = MAX_SIDE if len(columns) == 1 else 1
    for core in range(cores):
        low, high = (height * n // cores for n in (core, core + 1))
        for channel, end in chunks(0, channels, MAX_SIDE):
            for row, last in chunks(low, high, rows_at_once):
                for column, right in columns:
                    yield core, _Part((end - channel, last - row, right - column), channel, row, column)


def chunks(low: int, high: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield a range as ranges of at most `most`."""
    for begin in range(low, high, most):
        yield begin, min(high, begin + most)


def _operand_of(source: Buffer, second: Buffer | None, address: int, part: _Part, alu: int) -> Operand:
    """Return what EW reads beside a part of the source. address  where the image of the second cube lies"""
    _, _, height, width = cube_shape(source.shape)
    item = numpy_dtype(source.dtype).itemsize
    if second is None:
        return Operand(part.inside(source), alu, height * width, item)
    if cube_shape(second.shape)[2:] == (1, 1) != (height, width):
        return Operand(address + part.channel * item, alu, 0, item)
    return Operand(address + part.inside(second), alu, height * width, item)


def _image_address(second: Buffer | None, image: int) -> int:
    """Return the address of an operand for an image; a single image serves all."""
    if second is None:
        return 0
    single = cube_shape(second.shape)[0] == 1
    return second.address + (0 if single else image * image_bytes(second.shape, second.dtype))


def with_table(
    words: list[Word], table: ActivationTable, fills: bool, *, to_half: bool, keeps_operand: bool = False
) -> list[Word]:
    """Return the words of a task whose results go through a table; `fills` writes its entries, too.

    keeps_operand  EW applies its operand before it looks up
    """
    switch = table.switch_words(to_half=to_half)
    if keeps_operand:
        own = dpu_word("EW_CFG")
        (config,) = (word for word in words if (word.target, word.offset) == (own.target, own.offset))
        looks = replace(config, value=config.value & ~dpu_word("EW_CFG", lut_bypass=1).value)
        switch = (looks, *(word for word in switch if word.offset != own.offset))
    replaced = table.written | {(word.target, word.offset) for word in switch}
    kept = [word for word in words if (word.target, word.offset) not in replaced]
    return [*kept, *(table.fill if fills else table.limits), *switch]


@dataclass(frozen=True, slots=True)
class Plane:
    """Atoms between neighbours of a cube in memory: surfaces, rows (0: a row of the task), positions of a
    row.

    Only a cube that is written may have its positions apart.
    """

    surface: int
    row: int = 0
    column: int = 1


@dataclass(frozen=True, slots=True)
class Move:
    """A cube that a task reads from memory and writes elsewhere.

    size    channels, rows, columns
    places  addresses of what is read and written
    dtypes, source, target  element types and planes of what is read and written
    """

    size: tuple[int, int, int]
    places: tuple[int, int]
    dtypes: tuple[str, str]
    source: Plane
    target: Plane


def copy_words(move: Move, stages: Stages) -> list[Word]:
    """Return the words of a copy, as `move_words` does.

    Unchanged 8-bit integers go in pairs as integers of 16 bits, because the DPU takes as long for either.
    """
    channels, rows, width = move.size
    if move.dtypes == ("int8", "int8") and stages == Stages() and channels % 2 == 0:
        move = replace(move, size=(channels // 2, rows, width), dtypes=("int16", "int16"))
    return move_words(move, stages)


def move_words(move: Move, stages: Stages) -> list[Word]:
    """Return the words of a DPU task that reads a cube from memory. Raises FormatError for sizes beyond the
    fields."""
    channels, rows, width = move.size
    taken, given = (_PRECISIONS[dtype] for dtype in move.dtypes)
    row = (move.source.row or width) if rows > 1 else width
    bypass = {"relu_bypass": 1, "mul_bypass": 1, "alu_bypass": 1, "bypass": 1}
    words = [
        dpu_word("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        rdma_word("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        dpu_word("FEATURE_MODE_CFG", burst=15, output=2, flying=1),
        dpu_word("DATA_FORMAT", out_precision=given, in_precision=taken, proc_precision=taken),
        dpu_word("DST_BASE_ADDR", address=move.places[1]),
        dpu_word("DST_SURF_STRIDE", stride=move.target.surface),
        dpu_word("DATA_CUBE_WIDTH", width=width - 1),
        dpu_word("DATA_CUBE_HEIGHT", height=rows - 1),
        dpu_word("DATA_CUBE_CHANNEL", original_channels=channels - 1, channels=channels - 1),
        dpu_word("BS_CFG", **bypass),
        dpu_word("BS_OW_CFG", size_e_2=1, size_e_1=1, size_e_0=1, od_bypass=1),
        *_written_words(move),
        dpu_word("BN_CFG", **bypass),
        dpu_word("EW_CFG", relu_bypass=1, convert_bypass=1, lut_bypass=1, op_bypass=1, bypass=1),
        dpu_word("EW_CVT_SCALE_VALUE", scale=1),
        rdma_word("DATA_CUBE_WIDTH", width=width - 1),
        rdma_word("DATA_CUBE_HEIGHT", height=rows - 1),
        rdma_word("DATA_CUBE_CHANNEL", channels=channels - 1),
        rdma_word("SRC_BASE_ADDR", address=move.places[0]),
        rdma_word("FEATURE_MODE_CFG", in_precision=taken, burst=15, proc_precision=taken, flying=1),
        # Notches count from the end of one row or surface read to the next.
        rdma_word("SURF_NOTCH", notch=max(0, move.source.surface - row * (rows - 1) - width)),
        *([rdma_word("SRC_DMA_CFG", line_notch=row - width)] if row != width else []),
    ]
    changed = [*stages.words(to_half=given == FP16), *stages.reader_words()]
    kept = {(word.target, word.offset) for word in changed}
    words = [word for word in words if (word.target, word.offset) not in kept] + changed
    return with_zeros(words, "DPU", "DPU_RDMA")


def _written_words(move: Move) -> list[Word]:
    """Return the words for the write DMA.

    Positions of a row go apart if the DMA has one column with the channels of all, as in the vendor's Resize
    tasks (measured).
    """
    channels, rows, width = move.size
    target = move.target
    row = target.row or width
    if target.column == 1 or width == 1:
        row = row if rows > 1 else width
        return [
            dpu_word("WDMA_SIZE_0", channels=channels - 1),
            dpu_word("WDMA_SIZE_1", height=rows - 1, width=width - 1),
            dpu_word("SURFACE_ADD", step=target.surface * 2),
            *(
                [dpu_word("DATA_CUBE_NOTCH_ADDR", notch_0=row - width, notch_1=row - width)]
                if row != width
                else []
            ),
        ]
    return [
        dpu_word("WDMA_SIZE_0", channels=channels * width - 1),
        dpu_word("WDMA_SIZE_1", height=rows - 1, width=0),
        dpu_word("SURFACE_ADD", step=row),
        dpu_word("DATA_CUBE_NOTCH_ADDR", notch_0=target.column - 1, notch_1=target.column - 1),
    ]
