"""Make the register words of one direct or depthwise convolution task, or of a matrix product as 1x1.

Values follow section 8 of the RK3588 reference; the order of the words is that of the public streams,
104 writes from DPU S_POINTER to the LUT registers (source: D MTX). No machine is needed: the task has
everything, including its addresses and how the buffer is split.

Measured: the words equal those of 60 convolution tasks in public vendor models (fp16, 1x1 and 3x3, tiles
for one to three cores) when feature grains and banks are taken from there; in 439 int8 tasks with bias
the CNA and CORE words are equal and only those of the DPU stages differ. Pixel input is not covered.
"""

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.conv_task import ELEMENT_BYTES, ConvTask, banks_of
from npuviz.formats.rk3588.regcmd.stream import Stream, Tail
from npuviz.formats.rk3588.registers import Word, writer
from npuviz.formats.rk3588.tensor_layout import ATOM_BYTES

ENTRY_BYTES = 64
"""Bytes of an entry of a feature row (source: D MTX; M DER)."""
CONVOLUTION_ENABLES = 0x0D

_PRECISIONS = {"int8": 0, "int16": 1, "float16": 2, "bfloat16": 3, "int32": 4, "float32": 5}
_SIZE_E = {"int8": 1, "int16": 1, "float16": 1, "bfloat16": 1, "float32": 3, "int32": 7}
"""Groups of output elements minus 1 (source: D MTX for fp16, fp32, int32; I for the others)."""
_DEPTHWISE_SIZE_E = 3
"""The step of SURFACE_ADD is 4 surface strides for depthwise (source: D MESA)."""
_DIRECT, _DEPTHWISE = 0, 3
_BURST_16 = 0xF


def conv_task_words(task: ConvTask, *, tail: Tail | None = None, address: int = 0) -> Stream:
    """Make the stream of a task: 104 writes and a tail (default: the chain ends, enables 0x0D).

    `address` is where the stream will lie. Raises FormatError for unknown dtypes, sizes over the
    limits of their fields, and buffers that do not fit 12 banks of 32 KB.
    """
    for dtype in (task.in_dtype, task.out_dtype):
        if dtype not in _PRECISIONS:
            raise FormatError("conv task", field="dtype", expected=", ".join(_PRECISIONS), found=dtype)
    words = (
        _dpu("S_POINTER", pointer_mode=1, executer_ping_pong=1, pointer_ping_pong=1),
        *_cna_shape(task),
        *_cna_buffers(task),
        *_core(task),
        *_dpu_output(task),
        *_dpu_stages(task),
    )
    return Stream(words, tail or Tail(CONVOLUTION_ENABLES), address)


_cna, _core_word, _dpu = writer("CNA"), writer("CORE"), writer("DPU")


def _cna_shape(task: ConvTask) -> list[Word]:
    """Make the words CONV_CON1 to WEIGHT_SIZE2."""
    precision = _PRECISIONS[task.in_dtype]
    grains = task.feature_grains or task.stride_y + task.kernel_height + 1  # D TRM
    return [
        _cna(
            "CONV_CON1",
            proc_precision=precision,
            in_precision=precision,
            mode=_DEPTHWISE if task.depthwise else _DIRECT,
        ),
        _cna("CONV_CON2", co_work=task.co_work, feature_grains=grains),
        _cna(
            "CONV_CON3",
            dilation_y=task.dilation_y,
            dilation_x=task.dilation_x,
            stride_y=task.stride_y,
            stride_x=task.stride_x,
        ),
        _cna("DATA_SIZE0", width=task.width, height=task.height),
        _cna("DATA_SIZE1", real_channels=(task.real_channels or task.channels) - 1, channels=task.channels),
        _cna("DATA_SIZE2", out_width=task.out_width),
        _cna("DATA_SIZE3", atomics=task.out_width * task.out_height),
        _cna("WEIGHT_SIZE0", weight_bytes=task.weight_bytes),
        _cna("WEIGHT_SIZE1", kernel_bytes=task.kernel_bytes),
        _cna(
            "WEIGHT_SIZE2",
            kernel_width=task.kernel_width,
            kernel_height=task.kernel_height,
            kernels=1 if task.depthwise else task.kernels,
        ),
    ]


def _cna_buffers(task: ConvTask) -> list[Word]:
    """Make the words CBUF_CON0 to PAD_CON1."""
    data_banks, weight_banks = banks_of(task)
    layer = task.layer_height or task.height
    return [
        _cna(
            "CBUF_CON0",
            weight_reuse=int(task.weight_reuse),
            data_reuse=int(task.data_reuse),
            weight_banks=weight_banks,
            data_banks=data_banks,
        ),
        _cna("CBUF_CON1", data_entries=_row_entries(task)),
        _cna("CVT_CON0", signed=1, type=1, bypass=1),
        *(_cna(f"CVT_CON{index}", scale=1) for index in (1, 2, 3, 4)),
        _cna("FC_CON0"),
        _cna("FC_CON1"),
        _cna("PAD_CON0", left=task.pad_left, top=task.pad_top),
        _cna("FEATURE_DATA_ADDR", address=task.feature_address),
        _cna("FC_CON2"),
        _cna("DMA_CON0", weight_burst=_BURST_16, data_burst=_BURST_16),
        _cna("DMA_CON1", line_stride=4 * task.width),
        _cna("DMA_CON2", surface_stride=task.width * (layer - 4)),
        _cna("FC_DATA_SIZE0", dma_width=task.width, dma_height=task.height),
        _cna("FC_DATA_SIZE1", dma_channels=task.channels),
        _cna("DCOMP_CTRL"),
        _cna("DCOMP_REGNUM"),
        _cna("DCOMP_ADDR0", address=task.weight_address),
        *(_cna(f"DCOMP_AMOUNT{index}") for index in range(16)),
        _cna("CVT_CON5"),
        _cna("PAD_CON1", value=task.pad_value),
    ]


def _row_entries(task: ConvTask) -> int:
    """Return the CBUF entries of one feature row: ceil(W * C * b / 64) (source: D MTX; M DER).

    An entry has four atoms of 16 bytes. Three atoms left over at a position take a whole entry, as in
    NVDLA: a vendor int8 model has 192 entries for W = 48, C = 240, not 180 (measured).
    """
    atoms = -(-task.channels * ELEMENT_BYTES[task.in_dtype] // ATOM_BYTES)
    whole, rest = divmod(atoms, ENTRY_BYTES // ATOM_BYTES)
    return task.width * whole + -(-task.width * (4 if rest == 3 else rest) // 4)


def _surface_stride(task: ConvTask) -> int:
    return task.surface_stride or task.out_height * task.out_width


def _core(task: ConvTask) -> list[Word]:
    precision = _PRECISIONS[task.in_dtype]
    return [
        _core_word(
            "MISC_CFG",
            proc_precision=precision,
            depthwise=int(task.depthwise),
            quantised=int(task.quantised),
        ),
        _core_word("DATAOUT_SIZE_0", height=task.out_height - 1, width=task.out_width - 1),
        _core_word("DATAOUT_SIZE_1", channels=task.out_channels - 1),
        _core_word("CLIP_TRUNCATE"),
        _core_word("REG_3030"),
    ]


def _dpu_output(task: ConvTask) -> list[Word]:
    """Make the words FEATURE_MODE_CFG to DATA_CUBE_CHANNEL."""
    precision = _PRECISIONS[task.in_dtype]
    original = task.real_channels or task.channels if task.depthwise else task.kernels
    return [
        _dpu(
            "FEATURE_MODE_CFG",
            burst=_BURST_16,
            mode=_DEPTHWISE if task.depthwise else _DIRECT,
            output=2,
        ),
        _dpu(
            "DATA_FORMAT",
            out_precision=_PRECISIONS[task.out_dtype],
            in_precision=precision,
            proc_precision=precision,
        ),
        _dpu("OFFSET_PEND"),
        _dpu("DST_BASE_ADDR", address=task.output_address),
        _dpu("DST_SURF_STRIDE", stride=_surface_stride(task)),
        _dpu("DATA_CUBE_WIDTH", width=task.out_width - 1),
        _dpu("DATA_CUBE_HEIGHT", height=task.out_height - 1),
        _dpu("DATA_CUBE_NOTCH_ADDR", notch_0=task.row_notch, notch_1=task.row_notch),
        _dpu("DATA_CUBE_CHANNEL", original_channels=original - 1, channels=task.out_channels - 1),
    ]


def _dpu_stages(task: ConvTask) -> list[Word]:
    """Make the words BS_CFG to LUT_LO_SLOPE_SHIFT:
    all stages are bypassed, the output is written unchanged."""
    size_e = _DEPTHWISE_SIZE_E if task.depthwise else _SIZE_E[task.out_dtype]
    bypass = {"relu_bypass": 1, "mul_bypass": 1, "alu_bypass": 1, "bypass": 1}
    return [
        _dpu("BS_CFG", **bypass),
        _dpu("BS_ALU_CFG"),
        _dpu("BS_MUL_CFG"),
        _dpu("BS_RELUX_CMP_VALUE"),
        _dpu("BS_OW_CFG", size_e_2=size_e, size_e_1=size_e, size_e_0=size_e, od_bypass=1),
        _dpu("BS_OW_OP"),
        _dpu("WDMA_SIZE_0", channels=task.out_channels - 1),
        _dpu("WDMA_SIZE_1", height=task.out_height - 1, width=task.out_width - 1),
        _dpu("BN_CFG", **bypass),
        _dpu("BN_ALU_CFG"),
        _dpu("BN_MUL_CFG"),
        _dpu("BN_RELUX_CMP_VALUE"),
        _dpu("EW_CFG", relu_bypass=1, convert_bypass=1, lut_bypass=1, op_bypass=1, bypass=1),
        _dpu("EW_CVT_OFFSET_VALUE"),
        _dpu("EW_CVT_SCALE_VALUE", scale=1),
        _dpu("EW_RELUX_CMP_VALUE"),
        _dpu("OUT_CVT_OFFSET"),
        _dpu("OUT_CVT_SCALE", fp32_to_fp16=int(task.out_dtype == "float16"), scale=1),
        _dpu("OUT_CVT_SHIFT"),
        *(_dpu(f"EW_OP_VALUE_{index}") for index in range(8)),
        _dpu("SURFACE_ADD", step=_surface_stride(task) * (size_e + 1)),
        _dpu("REG_40C4"),
        *(_dpu(name) for name in _LUT_NAMES),
    ]


_LUT_NAMES = (
    "LUT_ACCESS_CFG",
    "LUT_ACCESS_DATA",
    "LUT_CFG",
    "LUT_INFO",
    "LUT_LE_START",
    "LUT_LE_END",
    "LUT_LO_START",
    "LUT_LO_END",
    "LUT_LE_SLOPE_SCALE",
    "LUT_LE_SLOPE_SHIFT",
    "LUT_LO_SLOPE_SCALE",
    "LUT_LO_SLOPE_SHIFT",
)
