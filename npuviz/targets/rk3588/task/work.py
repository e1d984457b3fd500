"""Decode what a task does from its registers: sizes, addresses, stages. Ref: XML, TRM unless said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Precision codes. Ref: TRM.
INT8, INT16, FP16, BF16, INT32, FP32, INT4, TF32 = range(8)
PRECISION_BYTES = (1, 2, 2, 2, 4, 4, 1, 4)
PRECISION_NAMES = ("int8", "int16", "float16", "bfloat16", "int32", "float32", "int4", "tfloat32")
FLOATS = frozenset((FP16, BF16, FP32, TF32))
"""Precision codes with which the DPU calculates in fp32."""

ATOM_BYTES = 16

# Enable bits of GLOBAL 0xF008.
ENABLE_CNA, ENABLE_CORE, ENABLE_DPU, ENABLE_DPU_RDMA, ENABLE_PPU, ENABLE_PPU_RDMA = (
    1 << bit for bit in (0, 2, 3, 4, 5, 6)
)


@dataclass(frozen=True, slots=True)
class Convolution:
    """The work of CNA and CORE in a task. Sizes in elements, strides in atoms (16 bytes), offsets in bytes.

    height          rows of this task's input tile
    kernels         kernels of this task
    channels        aligned channels that are multiplied; real_channels as the model has them
    pixel_channels  channels of an image that is read as it is (1..4), 0 for feature cubes
    kernel_bytes    bytes of one kernel; weight_bytes of all
    line_stride, surface_stride  LINE + SURF is the distance between channel groups
    """

    is_depthwise: bool
    precision: int
    width: int
    height: int
    channels: int
    real_channels: int
    kernels: int
    kernel_height: int
    kernel_width: int
    stride_y: int
    stride_x: int
    dilation_y: int
    dilation_x: int
    pad_top: int
    pad_left: int
    pad_value: int
    feature_address: int
    line_stride: int
    surface_stride: int
    weight_address: int
    weight_bytes: int
    kernel_bytes: int
    data_banks: int
    weight_banks: int
    keeps_data: bool
    keeps_weights: bool
    grains: int
    entries: int
    co_work: int
    is_quantized: bool
    truncate: int
    out_width: int
    out_height: int
    out_kernels: int
    pixel_channels: int = 0

    @property
    def stored_channels(self) -> int:
        """Channels of a position in memory and in CBUF."""
        return self.pixel_channels or self.channels


@dataclass(frozen=True, slots=True)
class Stage:
    """The stage BS or BN of the DPU. alu: 2 add, 4 subtract, -1 bypassed; its operand is a constant or in
    memory."""

    is_bypassed: bool
    alu: int
    alu_from_memory: bool
    alu_operand: int
    has_mul: bool
    mul_from_memory: bool
    mul_operand: int
    mul_shift: int
    has_relu: bool
    relu_limit: int
    has_prelu: bool


@dataclass(frozen=True, slots=True)
class Elementwise:
    """The stage EW of the DPU.

    alu           0 max, 1 min, 2 add, 3 div, 4 minus, 5 abs, 6 neg, 7 floor, 8 ceil; -1: multiply
    operand_bits  bits of the second operand
    is_constant   the operand is `constant`
    """

    is_bypassed: bool
    alu: int
    has_lut: bool
    is_constant: bool
    constant: int
    operand_bits: int
    converts: bool
    scale: int
    shift: int
    offset: int
    has_relu: bool


@dataclass(frozen=True, slots=True)
class Output:
    """The DPU's cube and its write DMA.

    channels         channels in memory; original_channels those that are meant
    is_flying        input comes from memory through DPU_RDMA, not from CORE
    surface_stride   in atoms
    to_memory, to_ppu  where results go
    offset, scale, shift  of the output convert
    operand_is_cube  EW reads a value for every position, not one per channel
    row_gap          atoms from the end of a row to the next one, if whole rows are written
    """

    width: int
    height: int
    channels: int
    original_channels: int
    is_flying: bool
    to_memory: bool
    to_ppu: bool
    precision_in: int
    precision_out: int
    address: int
    surface_stride: int
    surface_add: int
    offset: int
    scale: int
    shift: int
    bs: Stage
    bn: Stage
    ew: Elementwise
    main_address: int
    operand_address: int
    operand_surface_stride: int
    operand_is_cube: bool = True
    row_gap: int = 0


@dataclass(frozen=True, slots=True)
class Pooling:
    """The work of the PPU in a task. method: 0 average, 1 max, 2 min; reciprocals as stored.

    source_*  only if it reads from memory (PPU_RDMA)
    """

    method: int
    is_flying: bool
    in_width: int
    in_height: int
    in_channels: int
    out_width: int
    out_height: int
    out_channels: int
    kernel_width: int
    kernel_height: int
    stride_x: int
    stride_y: int
    pad_left: int
    pad_top: int
    pad_right: int
    pad_bottom: int
    reciprocal_width: int
    reciprocal_height: int
    address: int
    surface_stride: int
    source_address: int
    source_line_stride: int
    source_surface_stride: int
    precision: int
    pad_value: int


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a task: its blocks, each None if it is not enabled."""

    convolution: Convolution | None
    output: Output | None
    pooling: Pooling | None


def bits(value: int, high: int, low: int) -> int:
    """Return bits high..low of a register."""
    return value >> low & ((1 << (high - low + 1)) - 1)


def signed(value: int, width: int) -> int:
    """Return a field as a two's complement number."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def decode_work(registers: Mapping[int, int], enable_mask: int) -> Work:
    """Return the work of a task whose effective registers are given by offset; absent ones are 0."""
    get = registers.get
    convolution = _convolution(get) if enable_mask & (ENABLE_CNA | ENABLE_CORE) else None
    output = _output(get) if enable_mask & ENABLE_DPU else None
    pooling = _pooling(get) if enable_mask & ENABLE_PPU else None
    return Work(convolution, output, pooling)


Reader = Callable[[int, int], int]


def _convolution(get: Reader) -> Convolution:
    con1, con2, con3 = get(0x100C, 0), get(0x1010, 0), get(0x1014, 0)
    size0, size1, weight2 = get(0x1020, 0), get(0x1024, 0), get(0x1038, 0)
    cbuf, pad, core, cube = get(0x1040, 0), get(0x1068, 0), get(0x3010, 0), get(0x3014, 0)
    return Convolution(
        is_depthwise=bits(con1, 3, 0) == 3,
        precision=bits(con1, 9, 7),
        width=bits(size0, 26, 16),
        height=bits(size0, 10, 0),
        channels=bits(size1, 15, 0),
        real_channels=bits(size1, 29, 16) + 1,
        kernels=bits(weight2, 13, 0),
        kernel_height=bits(weight2, 20, 16),
        kernel_width=bits(weight2, 28, 24),
        stride_y=bits(con3, 5, 3),
        stride_x=bits(con3, 2, 0),
        dilation_y=bits(con3, 25, 21) + 1,
        dilation_x=bits(con3, 20, 16) + 1,
        pad_top=bits(pad, 3, 0),
        pad_left=bits(pad, 7, 4),
        pad_value=signed(get(0x1184, 0), 32),
        feature_address=get(0x1070, 0),
        line_stride=get(0x107C, 0),
        surface_stride=signed(bits(get(0x1080, 0), 27, 0), 28),
        weight_address=get(0x1110, 0),
        weight_bytes=get(0x1030, 0),
        kernel_bytes=bits(get(0x1034, 0), 18, 0),
        data_banks=bits(cbuf, 3, 0),
        weight_banks=bits(cbuf, 7, 4),
        keeps_data=bool(bits(cbuf, 12, 12)),
        keeps_weights=bool(bits(cbuf, 13, 13)),
        grains=bits(con2, 13, 4),
        entries=bits(get(0x1044, 0), 13, 0),
        co_work=bits(con2, 31, 28),
        # Ref: MTX streams: set for fp16, clear for int8.
        is_quantized=not bits(core, 0, 0),
        truncate=bits(get(0x301C, 0), 4, 0),
        out_width=bits(cube, 15, 0) + 1,
        out_height=bits(cube, 31, 16) + 1,
        out_kernels=bits(get(0x3018, 0), 15, 0) + 1,
        # ARGB in: 8..11 are images of 1..4 channels.
        pixel_channels=max(0, bits(con1, 15, 12) - 7),
    )


def _stage(get: Reader, config: int) -> Stage:
    value, mul = get(config, 0), get(config + 8, 0)
    is_bypassed = bool(bits(value, 0, 0))
    return Stage(
        is_bypassed=is_bypassed,
        alu=-1 if is_bypassed or bits(value, 1, 1) else bits(value, 19, 16),
        alu_from_memory=bool(bits(value, 8, 8)),
        alu_operand=signed(get(config + 4, 0), 32),
        has_mul=not is_bypassed and not bits(value, 4, 4),
        mul_from_memory=bool(bits(mul, 0, 0)),
        mul_operand=signed(bits(mul, 31, 16), 16),
        mul_shift=bits(mul, 13, 8),
        has_relu=not is_bypassed and not bits(value, 6, 6),
        relu_limit=get(config + 12, 0) if bits(value, 7, 7) else 0,
        has_prelu=bool(bits(value, 5, 5)),
    )


def _elementwise(get: Reader) -> Elementwise:
    value, scale = get(0x4070, 0), get(0x4078, 0)
    is_bypassed = bool(bits(value, 0, 0))
    is_multiply = bool(bits(value, 2, 2))
    return Elementwise(
        is_bypassed=is_bypassed,
        alu=-1 if is_multiply else bits(value, 19, 16),
        has_lut=not is_bypassed and not bits(value, 7, 7),
        # Bit 6 chooses the operand: 0 register, 1 memory (E reader).
        is_constant=not bits(value, 6, 6),
        constant=signed(get(0x4090, 0), 32),
        operand_bits=4 << bits(value, 23, 22),
        converts=not bits(value, 8, 8),
        scale=signed(bits(scale, 15, 0), 16),
        shift=bits(scale, 21, 16),
        offset=signed(get(0x4074, 0), 32),
        has_relu=not is_bypassed and not bits(value, 9, 9),
    )


def _output(get: Reader) -> Output:
    mode, form, channels = get(0x400C, 0), get(0x4010, 0), get(0x403C, 0)
    width = bits(get(0x4030, 0), 12, 0) + 1
    is_whole = bits(get(0x405C, width - 1), 12, 0) + 1 == width
    return Output(
        width=width,
        height=bits(get(0x4034, 0), 12, 0) + 1,
        channels=bits(channels, 12, 0) + 1,
        original_channels=bits(channels, 28, 16) + 1,
        is_flying=bool(bits(mode, 0, 0)),
        to_memory=bool(bits(mode, 2, 2)),
        to_ppu=bool(bits(mode, 1, 1)),
        precision_in=bits(form, 28, 26),
        precision_out=bits(form, 31, 29),
        address=get(0x4020, 0),
        surface_stride=bits(get(0x4024, 0), 31, 4),
        surface_add=bits(get(0x40C0, 0), 31, 4),
        offset=signed(get(0x4080, 0), 32),
        scale=signed(bits(get(0x4084, 0), 15, 0), 16),
        shift=bits(get(0x4088, 0), 11, 0),
        bs=_stage(get, 0x4040),
        bn=_stage(get, 0x4060),
        ew=_elementwise(get),
        main_address=get(0x5018, 0),
        operand_address=get(0x5038, 0),
        operand_surface_stride=bits(get(0x5040, 0), 31, 4),
        operand_is_cube=bits(get(0x5034, 0), 31, 30) != 0,
        row_gap=bits(get(0x4038, 0), 12, 0) if is_whole else 0,
    )


def _pooling(get: Reader) -> Pooling:
    mode, kernel, pad = get(0x6024, 0), get(0x6034, 0), get(0x6040, 0)
    return Pooling(
        method=bits(mode, 1, 0),
        is_flying=bool(bits(mode, 4, 4)),
        in_width=bits(get(0x600C, 0), 12, 0) + 1,
        in_height=bits(get(0x6010, 0), 12, 0) + 1,
        in_channels=bits(get(0x6014, 0), 12, 0) + 1,
        out_width=bits(get(0x6018, 0), 12, 0) + 1,
        out_height=bits(get(0x601C, 0), 12, 0) + 1,
        out_channels=bits(get(0x6020, 0), 12, 0) + 1,
        kernel_width=bits(kernel, 3, 0) + 1,
        kernel_height=bits(kernel, 11, 8) + 1,
        stride_x=bits(kernel, 19, 16) + 1,
        stride_y=bits(kernel, 23, 20) + 1,
        pad_left=bits(pad, 2, 0),
        pad_top=bits(pad, 6, 4),
        pad_right=bits(pad, 10, 8),
        pad_bottom=bits(pad, 14, 12),
        reciprocal_width=bits(get(0x6038, 0), 16, 0),
        reciprocal_height=bits(get(0x603C, 0), 16, 0),
        address=get(0x6070, 0),
        surface_stride=bits(get(0x607C, 0), 31, 4),
        source_address=get(0x701C, 0),
        source_line_stride=bits(get(0x7024, 0), 31, 4),
        source_surface_stride=bits(get(0x7028, 0), 31, 4),
        precision=bits(get(0x6084, 0), 2, 0),
        pad_value=signed(get(0x6044, 0), 32),
    )
