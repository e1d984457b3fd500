"""Registers decoded into work, and the cost that follows from it."""

from dataclasses import replace

import pytest

from benchmarks.rk3588_streams import matmul_task
from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.conv_words import conv_task_words
from npuviz.formats.rk3588.registers import Word, registers
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.cost import cost_of, kernel_group, output_rate
from npuviz.targets.rk3588.task.work import (
    BF16,
    FP16,
    FP32,
    INT4,
    INT8,
    INT32,
    TF32,
    Work,
    bits,
    decode_work,
    signed,
)
from tests.targets.rk3588.hand_tasks import dump
from tests.targets.rk3588.machine_cases import BYPASSED, CONVOLUTION, NO_EW, OUTPUT, task_of

SPEC = RknnSpec()


def decoded(words: list[Word], enables: int) -> Work:
    return decode_work({word.offset: word.value for word in words}, enables)


def word(block: str, name: str, **fields: int) -> Word:
    return registers().encode(block, name, **fields)


def test_the_public_product() -> None:
    values = {each & 0xFFFF: each >> 16 & 0xFFFFFFFF for each in dump("fp16_4x64x16") if each >> 48 > 0x101}
    work = decode_work(values, 0x0D)
    conv, output = work.convolution, work.output
    assert conv is not None
    assert output is not None
    assert work.pooling is None
    assert (conv.width, conv.height, conv.channels, conv.real_channels, conv.kernels) == (1, 4, 64, 64, 16)
    assert (conv.precision, conv.is_quantized, conv.is_depthwise) == (FP16, False, False)
    assert (conv.kernel_bytes, conv.weight_bytes) == (128, 2048)
    assert (conv.data_banks, conv.weight_banks, conv.entries) == (1, 11, 2)
    assert (conv.line_stride, conv.surface_stride) == (4, 0)
    assert (conv.feature_address, conv.weight_address) == (0xFFFF8000, 0xFFFF9000)
    assert (output.address, output.surface_stride, output.surface_add) == (0xFFFFA000, 4, 16)
    assert (output.precision_in, output.precision_out) == (FP16, FP32)
    assert (output.width, output.height, output.channels) == (1, 4, 16)
    assert output.bs == replace(BYPASSED, mul_from_memory=False)
    assert output.ew.is_bypassed
    assert (output.to_memory, output.to_ppu, output.is_flying) == (True, False, False)
    cost = cost_of(task_of(work), SPEC)
    assert (cost.mac_cycles, cost.feature_bytes, cost.weight_bytes, cost.written_bytes) == (8, 512, 2048, 256)


def test_every_size_of_a_convolution_comes_back() -> None:
    task = ConvTask(
        "int8", "int8", width=33, height=17, channels=96, kernels=64, kernel_height=3, kernel_width=5,
        out_width=15, out_height=9, stride_y=2, stride_x=2, dilation_y=1, dilation_x=2, pad_top=1, pad_left=2,
        pad_value=7, real_channels=90, layer_height=40, feature_grains=12, data_banks=4, weight_banks=8,
        data_reuse=True, weight_reuse=True, co_work=2, feature_address=0x1234560, weight_address=0x2345670,
        output_address=0x3456780,
    )  # fmt: skip
    conv = decoded(list(conv_task_words(task).words), 0x0D).convolution
    assert conv is not None
    assert (conv.width, conv.height, conv.channels, conv.real_channels) == (33, 17, 96, 90)
    assert (conv.kernels, conv.kernel_height, conv.kernel_width) == (64, 3, 5)
    assert (conv.stride_y, conv.stride_x, conv.dilation_y, conv.dilation_x) == (2, 2, 2, 3)
    assert (conv.pad_top, conv.pad_left, conv.pad_value) == (1, 2, 7)
    assert (conv.keeps_data, conv.keeps_weights) == (True, True)
    assert (conv.grains, conv.co_work, conv.data_banks, conv.weight_banks) == (12, 2, 4, 8)
    assert (conv.out_width, conv.out_height, conv.out_kernels) == (15, 9, 64)
    assert (conv.line_stride, conv.surface_stride) == (132, 33 * 36)
    assert (conv.line_stride + conv.surface_stride) == 33 * 40


def test_short_layers_have_negative_strides() -> None:
    task = ConvTask("int8", "int8", width=20, height=2, channels=32, kernels=32, out_width=20, out_height=2)
    conv = decoded(list(conv_task_words(task).words), 0x0D).convolution
    assert conv is not None
    assert conv.surface_stride == -40
    assert conv.line_stride + conv.surface_stride == 40


def test_stages_of_the_dpu() -> None:
    work = decoded(
        [
            word("DPU", "BS_CFG", alu_op=2, alu_source=1, relux=1, mul_bypass=1),
            word("DPU", "BS_RELUX_CMP_VALUE", limit=600),
            word("DPU", "BN_CFG", alu_bypass=1, relu_bypass=1, prelu=1),
            word("DPU", "BN_MUL_CFG", operand=-2, shift=9, mul_source=1),
            word("DPU", "EW_CFG", data_mode=1, data_size=1, source=1, op_type=1, lut_bypass=1, relu_bypass=1),
            word("DPU", "EW_CVT_SCALE_VALUE", scale=0x7FFF, shift=3),
            word("DPU", "OUT_CVT_OFFSET", offset=-7),
            word("DPU", "OUT_CVT_SCALE", scale=0x4321),
            word("DPU", "OUT_CVT_SHIFT", shift=21),
            word("DPU", "FEATURE_MODE_CFG", output=3, flying=1),
        ],
        0x18,
    )
    output = work.output
    assert output is not None
    assert work.convolution is None
    assert (output.bs.alu, output.bs.alu_from_memory, output.bs.has_mul) == (2, True, False)
    assert (output.bs.has_relu, output.bs.relu_limit) == (True, 600)
    assert (output.bn.alu, output.bn.has_mul, output.bn.mul_from_memory) == (-1, True, True)
    assert (output.bn.mul_shift, output.bn.mul_operand, output.bn.has_prelu) == (9, -2, True)
    assert (output.ew.alu, output.ew.operand_bits, output.ew.is_constant) == (-1, 8, False)
    assert (output.ew.converts, output.ew.scale, output.ew.shift) == (True, 0x7FFF, 3)
    assert (output.offset, output.scale, output.shift) == (-7, 0x4321, 21)
    assert (output.to_memory, output.to_ppu, output.is_flying) == (True, True, True)


def test_pooling() -> None:
    words = [
        word("PPU", "OPERATION_MODE_CFG", method=1, flying=1),
        Word(0x4001, 1 << 20 | 2 << 16 | 3 << 8 | 4, 0x6034),
        Word(0x4001, 1 | 2 << 4 | 3 << 8 | 4 << 12, 0x6040),
        Word(0x4001, 41, 0x600C),
        Word(0x4001, 31, 0x6010),
        Word(0x4001, 63, 0x6014),
        Word(0x4001, 13, 0x6018),
        Word(0x4001, 15, 0x601C),
        Word(0x4001, 63, 0x6020),
    ]
    pool = decoded(words, 0x60).pooling
    assert pool is not None
    assert (pool.method, pool.is_flying) == (1, True)
    assert (pool.stride_y, pool.stride_x, pool.kernel_height, pool.kernel_width) == (2, 3, 4, 5)
    assert (pool.pad_left, pool.pad_top, pool.pad_right, pool.pad_bottom) == (1, 2, 3, 4)
    assert (pool.in_width, pool.in_height, pool.in_channels) == (42, 32, 64)
    assert (pool.out_width, pool.out_height, pool.out_channels) == (14, 16, 64)
    cost = cost_of(task_of(Work(None, None, pool)), SPEC)
    assert cost.is_pooling
    assert cost.feature_bytes == 42 * 32 * 64
    assert cost.written_bytes == 14 * 16 * 64


@pytest.mark.parametrize(
    ("enables", "parts"),
    [
        (0x0D, (True, True, False)),
        (0x18, (False, True, False)),
        (0x60, (False, False, True)),
        (0x7D, (True, True, True)),
        (0x00, (False, False, False)),
    ],
)
def test_enable_bits_say_which_blocks_work(enables: int, parts: tuple[bool, ...]) -> None:
    work = decode_work({}, enables)
    assert tuple(part is not None for part in (work.convolution, work.output, work.pooling)) == parts
    cost_of(task_of(work), SPEC)


def test_bits_and_signs() -> None:
    assert bits(0xABCD1234, 31, 28) == 0xA
    assert bits(0xABCD1234, 15, 0) == 0x1234
    assert [signed(value, 4) for value in (0, 7, 8, 15)] == [0, 7, -8, -1]


# --- costs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "group"), [(INT8, 32), (INT4, 64), (FP16, 16), (BF16, 16), (TF32, 8), (INT32, 16)]
)
def test_kernels_at_a_time(precision: int, group: int) -> None:
    assert kernel_group(precision, SPEC) == group


def test_reuse_moves_nothing_again() -> None:
    usual = cost_of(task_of(Work(CONVOLUTION, OUTPUT, None)), SPEC)
    kept = cost_of(
        task_of(Work(replace(CONVOLUTION, keeps_data=True, keeps_weights=True), OUTPUT, None)), SPEC
    )
    assert (usual.feature_bytes, usual.weight_bytes) == (8 * 8 * 32, 1024)
    assert (kept.feature_bytes, kept.weight_bytes) == (0, 0)
    assert kept.mac_cycles == usual.mac_cycles
    assert kept.bus_bytes == usual.bus_bytes - 8 * 8 * 32 - 1024


def test_depthwise_takes_64_channels_at_a_time() -> None:
    conv = replace(
        CONVOLUTION, is_depthwise=True, channels=128, real_channels=100, kernels=1, kernel_height=3,
        kernel_width=3, kernel_bytes=9 * 128, weight_bytes=9 * 128, out_kernels=128,
    )  # fmt: skip
    cost = cost_of(task_of(Work(conv, replace(OUTPUT, channels=128), None)), SPEC)
    assert cost.mac_cycles == 8 * 8 * 9 * 2
    assert cost.group_bytes == 9 * 64


def test_what_the_dpu_does_decides_its_rate() -> None:
    sum_ = replace(NO_EW, is_bypassed=False, is_constant=False)
    table = replace(NO_EW, is_bypassed=False, has_lut=True, alu=2)
    clip = replace(BYPASSED, is_bypassed=False, has_relu=True, relu_limit=6)
    rates = [
        output_rate(replace(OUTPUT, **changes), SPEC)
        for changes in ({}, {"bs": clip}, {"ew": sum_}, {"ew": table}, {"ew": replace(table, alu=-1)})
    ]
    assert rates == [4.0, 1 / 0.39, 3.9, 1 / 0.55, 1 / 0.59]
    assert output_rate(None, SPEC) == 4.0


def test_a_sum_reads_its_second_operand() -> None:
    plain = replace(OUTPUT, is_flying=True)
    ew = replace(NO_EW, is_bypassed=False, is_constant=False)
    first = cost_of(task_of(Work(None, plain, None)), SPEC)
    second = cost_of(task_of(Work(None, replace(plain, ew=ew), None)), SPEC)
    assert first.feature_bytes == second.feature_bytes == 2048
    assert (first.operand_bytes, second.operand_bytes) == (0, 2048)
    nowhere = replace(plain, to_memory=False)
    assert cost_of(task_of(Work(None, nowhere, None)), SPEC).problem == "DPU sends its results nowhere"


def test_products_of_the_public_streams() -> None:
    for (rows, inner, columns, dtype), cycles in (
        ((256, 512, 512, "float16"), 256 * 16 * 32),
        ((512, 512, 512, "int8"), 512 * 16 * 16),
        ((1, 1024, 1024, "float16"), 32 * 64),
    ):
        task = matmul_task(rows, inner, columns, dtype, addresses=(0x10000000, 0x20000000, 0x30000000))
        cost = cost_of(task_of(decoded(list(conv_task_words(task).words), 0x0D)), SPEC)
        assert cost.mac_cycles == cycles
        assert cost.problem == ""
