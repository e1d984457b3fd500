"""Words of convolution tasks: the five reference dumps, tiles, depthwise, limits."""

import re
from dataclasses import replace

import pytest

from benchmarks.rk3588_streams import matmul_task
from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.conv_words import conv_task_words
from npuviz.formats.rk3588.regcmd.stream import Tail, amount_of, parse_stream
from npuviz.formats.rk3588.registers import registers
from tests.formats.rk3588.cases import DUMPS, check_line, dump_words

ADDRESSES = (0xFFFF8000, 0xFFFF9000, 0xFFFFA000)
DTYPES = {"fp16": "float16", "int8": "int8"}

TILE = ConvTask(
    "int8",
    "int8",
    width=40,
    height=23,
    channels=64,
    kernels=128,
    kernel_height=3,
    kernel_width=5,
    out_width=20,
    out_height=11,
    stride_y=2,
    stride_x=2,
    pad_top=1,
    pad_left=2,
    pad_value=0x80,
    layer_height=40,
    surface_stride=400,
    weight_reuse=True,
    data_banks=3,
    co_work=1,
    feature_address=0x1000,
    weight_address=0x20000,
    output_address=0x30010,
)


def values(task: ConvTask) -> dict[str, int]:
    """Every field of the stream, by "BLOCK REGISTER.field"."""
    database = registers()
    return {
        f"{register.block} {register.name}.{field.name}": field.value
        for register in (
            database.decode(word.target, word.offset, word.value) for word in conv_task_words(task).words
        )
        for field in register.fields
    }


def refused(act, *parts: str) -> None:
    with pytest.raises(FormatError) as error:
        act()
    check_line(error.value)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_matrix_products_equal_the_dumps_word_for_word(path):
    parts = re.fullmatch(r"regcmd_(\w+)_(\d+)x(\d+)x(\d+)", path.stem)
    assert parts is not None
    rows, inner, columns = (int(part) for part in parts.groups()[1:])
    task = matmul_task(rows, inner, columns, DTYPES[parts[1]], addresses=ADDRESSES)
    assert conv_task_words(task).packed().tolist() == dump_words(path)


def test_a_tile_of_a_layer():
    held = values(TILE)
    expected = {
        "CNA CONV_CON1.mode": 0,
        "CNA CONV_CON1.in_precision": 0,
        "CNA CONV_CON2.co_work": 1,
        "CNA CONV_CON2.feature_grains": 2 + 3 + 1,
        "CNA CONV_CON3.stride_y": 2,
        "CNA DATA_SIZE0.width": 40,
        "CNA DATA_SIZE0.height": 23,
        "CNA DATA_SIZE1.real_channels": 63,
        "CNA DATA_SIZE3.atomics": 220,
        "CNA WEIGHT_SIZE0.weight_bytes": 128 * 3 * 5 * 64,
        "CNA WEIGHT_SIZE1.kernel_bytes": 3 * 5 * 64,
        "CNA WEIGHT_SIZE2.kernel_width": 5,
        "CNA WEIGHT_SIZE2.kernel_height": 3,
        "CNA WEIGHT_SIZE2.kernels": 128,
        "CNA CBUF_CON0.weight_reuse": 1,
        "CNA CBUF_CON0.data_banks": 3,
        "CNA CBUF_CON0.weight_banks": 9,
        "CNA CBUF_CON1.data_entries": 40,
        "CNA PAD_CON0.left": 2,
        "CNA PAD_CON0.top": 1,
        "CNA PAD_CON1.value": 0x80,
        "CNA FEATURE_DATA_ADDR.address": 0x1000,
        "CNA DCOMP_ADDR0.address": 0x20000,
        "CNA DMA_CON1.line_stride": 160,
        "CNA DMA_CON2.surface_stride": 40 * 36,
        "CORE DATAOUT_SIZE_0.height": 10,
        "CORE DATAOUT_SIZE_1.channels": 127,
        "CORE MISC_CFG.quantised": 0,
        "DPU DST_BASE_ADDR.address": 0x30010,
        "DPU DST_SURF_STRIDE.stride": 400,
        "DPU SURFACE_ADD.step": 800,
        "DPU BS_OW_CFG.size_e_0": 1,
        "DPU OUT_CVT_SCALE.fp32_to_fp16": 0,
    }
    assert {name: held[name] for name in expected} == expected


def test_kernels_that_fill_no_group_of_sixteen():
    """As in a vendor model with 1001 kernels: 1001 weights, 1008 channels out of the array."""
    held = values(
        ConvTask("float16", "float16", 1, 1, 1024, 1001, real_channels=64, data_banks=1, surface_stride=4)
    )
    assert held["CNA WEIGHT_SIZE2.kernels"] == 1001
    assert held["CNA DATA_SIZE1.real_channels"] == 63
    assert held["CORE DATAOUT_SIZE_1.channels"] == 1007
    assert held["DPU DATA_CUBE_CHANNEL.original_channels"] == 1000
    assert held["DPU DATA_CUBE_CHANNEL.channels"] == 1007
    assert held["DPU OUT_CVT_SCALE.fp32_to_fp16"] == 1
    assert held["DPU SURFACE_ADD.step"] == 8


@pytest.mark.parametrize(
    ("dtype", "width", "channels", "entries"),
    [
        ("int8", 48, 240, 192),  # three of four atoms are left: a whole entry
        ("int8", 96, 16, 24),
        ("int8", 10, 32, 5),
        ("int8", 1, 32, 1),
        ("int8", 5, 80, 7),
        ("float16", 40, 160, 200),
    ],
)
def test_entries_of_a_row(dtype, width, channels, entries):
    held = values(ConvTask(dtype, dtype, width, 4, channels, 32, out_width=width, out_height=4))
    assert held["CNA CBUF_CON1.data_entries"] == entries


def test_int8_kernels_fill_groups_of_32():
    held = values(ConvTask("int8", "int8", 8, 8, 16, 16, out_width=8, out_height=8))
    assert held["CNA WEIGHT_SIZE2.kernels"] == 16
    assert held["CORE DATAOUT_SIZE_1.channels"] == 31
    assert held["DPU DATA_CUBE_CHANNEL.original_channels"] == 15


def test_depthwise():
    task = ConvTask(
        "int8", "int8", 14, 14, 96, 96, 3, 3, 12, 12, depthwise=True
    )  # fmt: skip
    held = values(task)
    assert held["CNA CONV_CON1.mode"] == held["DPU FEATURE_MODE_CFG.mode"] == 3
    assert held["CORE MISC_CFG.depthwise"] == 1
    assert held["CNA WEIGHT_SIZE2.kernels"] == 1
    assert held["CNA WEIGHT_SIZE0.weight_bytes"] == held["CNA WEIGHT_SIZE1.kernel_bytes"] == 9 * 96
    assert held["DPU DATA_CUBE_CHANNEL.original_channels"] == 95
    assert held["DPU DATA_CUBE_CHANNEL.channels"] == 127
    assert held["DPU SURFACE_ADD.step"] == 4 * 144


def test_tail_and_place():
    tail = Tail(0x0D, 0x2000, amount_of(104), 1)
    stream = conv_task_words(TILE, tail=tail, address=0x1C00)
    assert parse_stream(stream.packed(), address=0x1C00) == stream
    assert stream.tail == tail


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"width": 1024}, ("CBUF banks", "46 or more for features", "12 in all")),
        (
            {"width": 2048, "height": 1, "channels": 32, "layer_height": 8},
            ("width (bits 26:16)", "0 to 2047"),
        ),
        ({"kernels": 32000}, ("kernels (bits 13:0)", "0 to 16383")),
        ({"kernel_height": 32}, ("kernel_height (bits 20:16)", "0 to 31")),
        ({"stride_x": 8}, ("stride_x", "0 to 7")),
        ({"dilation_y": 32}, ("dilation_y", "0 to 31")),
        ({"pad_left": 16}, ("left", "0 to 15")),
        ({"feature_grains": 1024}, ("feature_grains", "0 to 1023")),
        ({"out_width": 0}, ("width", "found -1")),
        ({"output_address": 1 << 32}, ("address", "0 to 4294967295")),
        ({"data_banks": 1}, ("2 or more for features", "1 for features")),
        ({"data_banks": 12}, ("12 for features, 0 for weights",)),
        ({"data_banks": 10, "weight_banks": 3}, ("10 for features, 3 for weights",)),
        (
            {"weight_banks": 1, "data_banks": 0, "channels": 4096, "height": 1},
            ("a kernel in 1 banks", "61440 bytes"),
        ),
        ({"in_dtype": "float64"}, ("dtype", "float64")),
        ({"out_dtype": "bool"}, ("dtype", "bool")),
    ],
)
def test_what_no_register_can_hold(changes, parts):
    refused(lambda: conv_task_words(replace(TILE, **changes)), *parts)


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "dtype", "parts"),
    [
        (5, 64, 16, "float16", ("rows", "1 or a multiple of 4")),
        (0, 64, 16, "float16", ("rows",)),
        (4, 36, 16, "float16", ("inner", "a multiple of 32")),
        (4, 64, 24, "float16", ("columns", "a multiple of 16")),
        (4, 64, 48, "int8", ("columns", "a multiple of 32")),
        (4, 32768, 16, "float16", ("inner", "at most 32768 bytes")),
        (512, 512, 512, "float16", ("CBUF banks", "16 or more for features", "fewer rows")),
        (4, 64, 16, "bfloat16", ("float16 or int8",)),
    ],
)
def test_products_that_are_no_single_task(rows, inner, columns, dtype, parts):
    refused(lambda: matmul_task(rows, inner, columns, dtype, addresses=ADDRESSES), *parts)
