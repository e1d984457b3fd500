"""Describe one convolution task of the RK3588 in plain numbers."""

from dataclasses import dataclass

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.tensor_layout import DEPTHWISE_GROUP, aligned, packing

BANKS = 12
BANK_BYTES = 32 << 10
BLOCK = 32
"""Channels of a block of weights (source: D MTX)."""

ELEMENT_BYTES = {"int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4}


@dataclass(frozen=True, slots=True)
class ConvTask:
    """One task: sizes in elements, addresses in bytes.

    `height` and `out_height` are the rows of this task, `layer_height` those of the layer's input (0:
    the same); `channels` must be padded as the layouts need it. `surface_stride` is the distance of
    output surfaces in atoms (0: the positions of this task); vendor streams round the positions of
    the layer up to a multiple of 4. `row_notch` atoms lie between a row that is written and the next.
    `real_channels` goes into DATA_SIZE1 (0: `channels`). `feature_grains` 0 applies the rule of
    the manual, stride + R + 1; `data_banks` 0 means as many as the features fill, `weight_banks` 0
    the rest of 12.
    """

    in_dtype: str
    out_dtype: str
    width: int
    height: int
    channels: int
    kernels: int
    kernel_height: int = 1
    kernel_width: int = 1
    out_width: int = 1
    out_height: int = 1
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 0
    dilation_x: int = 0
    pad_top: int = 0
    pad_left: int = 0
    pad_value: int = 0
    depthwise: bool = False
    layer_height: int = 0
    surface_stride: int = 0
    row_notch: int = 0
    real_channels: int = 0
    feature_grains: int = 0
    data_banks: int = 0
    weight_banks: int = 0
    data_reuse: bool = False
    weight_reuse: bool = False
    co_work: int = 0
    quantised: bool = False
    feature_address: int = 0
    weight_address: int = 0
    output_address: int = 0

    @property
    def feature_bytes(self) -> int:
        """Bytes of the features of this task."""
        return self.width * self.height * self.channels * ELEMENT_BYTES[self.in_dtype]

    @property
    def kernel_bytes(self) -> int:
        """Bytes of one kernel; a depthwise task has one kernel with all channels (source: D MESA)."""
        return self.kernel_height * self.kernel_width * self.channels * ELEMENT_BYTES[self.in_dtype]

    @property
    def weight_bytes(self) -> int:
        """Bytes of all kernels."""
        return self.kernel_bytes * (1 if self.depthwise else self.kernels)

    @property
    def out_channels(self) -> int:
        """Output channels, padding included.

        Padded to a multiple of 64 if depthwise (source: D MESA), else of a group of kernels
        (measured on vendor streams: fp16 16, int8 32).
        """
        if self.depthwise:
            return aligned(self.channels, DEPTHWISE_GROUP)
        return aligned(self.kernels, max(packing(self.in_dtype).kernels, 16))


def banks_of(task: ConvTask) -> tuple[int, int]:
    """Return the banks for features and for weights; all features and at least one kernel must fit.

    Vendor streams never give features fewer banks than they fill; weights may exceed their banks
    (source: M ALLB, DER).
    """
    needed = -(-task.feature_bytes // BANK_BYTES)
    data = task.data_banks or needed
    weights = task.weight_banks or BANKS - data
    if data < max(needed, 1) or weights < 1 or data + weights > BANKS:
        raise FormatError(
            "conv task",
            field="CBUF banks",
            expected=f"{max(needed, 1)} or more for features, {BANKS} in all",
            found=f"{data} for features, {max(weights, 0)} for weights",
            hint="cut the operation into tasks of fewer rows",
        )
    if task.kernel_bytes > weights * BANK_BYTES:
        raise FormatError(
            "conv task",
            field="CBUF banks",
            expected=f"a kernel in {weights} banks for weights",
            found=f"{task.kernel_bytes} bytes",
        )
    return data, weights
