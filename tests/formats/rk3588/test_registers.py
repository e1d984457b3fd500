"""The register database: every word of the reference streams, and words that do not exist."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.registers import EMPTY, Word, registers
from tests.formats.rk3588.cases import DUMPS, dump_words

DATABASE = registers()
WRITABLE = [
    register
    for block in DATABASE.blocks.values()
    if block.target is not None
    for register in block.registers.values()
]


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: Path(path).stem)
def test_every_word_of_a_dump_decodes_into_named_fields_and_back(path):
    for packed in dump_words(path):
        word = Word.unpacked(packed)
        decoded = DATABASE.decode(word.target, word.offset, word.value)
        fields = {field.name: field.value for field in decoded.fields}
        assert fields
        assert not [name for name in fields if name.startswith("reserved")]
        assert DATABASE.encode(decoded.block, decoded.name, **fields) == word
        assert word.packed == packed


@pytest.mark.parametrize(
    ("target", "offset", "value", "text"),
    [
        (0x0201, 0x1020, 0x00010004, "CNA DATA_SIZE0: width 1 columns, height 4 rows"),
        (0x0201, 0x1024, 0x003F0040, "CNA DATA_SIZE1: real_channels 64 channels, channels 64 channels"),
        (
            0x0201,
            0x1038,
            0x01010010,
            "CNA WEIGHT_SIZE2: kernel_width 1 columns, kernel_height 1 rows, kernels 16 kernels",
        ),
        (0x0201, 0x1080, 0x0FFFFFFD, "CNA DMA_CON2: surface_stride -3 atoms"),
        (0x0801, 0x3030, 0, "CORE REG_3030: unknown 0x0"),
        (0x0101, 0x0010, 0x1234_5670, "PC BASE_ADDRESS: next_address 0x12345670, mode PC mode"),
    ],
)
def test_readings(target, offset, value, text):
    assert str(DATABASE.decode(target, offset, value)) == text


def test_the_worked_example_of_the_reference():
    formats = DATABASE.decode(0x1001, 0x4010, 0xA8000002)
    texts = {field.name: field.text for field in formats.fields}
    assert (texts["out_precision"], texts["in_precision"], texts["proc_precision"]) == (
        "fp32",
        "fp16",
        "fp16",
    )
    banks = DATABASE.decode(0x0201, 0x1040, 0xB1)
    assert (banks["weight_banks"], banks["data_banks"]) == (11, 1)
    enables = DATABASE.decode(0x0081, 0x0008, 0x0D)
    assert [field.name for field in enables.fields if field.value] == ["dpu", "core", "cna"]


def test_fields_cover_every_register_once():
    for register in WRITABLE:
        bits = [bit for field in register.fields for bit in range(field.low, field.high + 1)]
        assert sorted(bits) == list(range(32)), register.name
        assert len({field.name for field in register.fields}) == len(register.fields)


def test_every_fact_has_a_source():
    count = 0
    for block in DATABASE.blocks.values():
        for register in block.registers.values():
            assert register.source.keys
            assert all(field.source.mark in "DMI" for field in register.fields)
            count += block.target not in (0x0000, 0x0041, 0x0081)
    # 199 registers have public names, two more are only known by their offset.
    assert count == 201


@given(st.sampled_from(WRITABLE), st.integers(0, (1 << 32) - 1))
def test_any_value_survives_decoding_and_encoding(register, value):
    target = DATABASE.blocks[register.block].target
    assert target is not None
    decoded = DATABASE.decode(target, register.offset, value)
    fields = {field.name: field.value for field in decoded.fields}
    assert DATABASE.encode(decoded.block, decoded.name, **fields).value == value


def one_line(error: pytest.ExceptionInfo[FormatError], *parts: str) -> None:
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_unknown_target():
    with pytest.raises(FormatError) as error:
        DATABASE.decode(0x0401, 0x1020, 0, file="a.bin", at=64)
    one_line(error, "a.bin, byte 64, target", "found 0401")


def test_unknown_register_and_the_block_that_owns_it():
    with pytest.raises(FormatError) as error:
        DATABASE.decode(0x1001, 0x1020, 0)
    one_line(error, "register 0x1020", "a register of DPU", "0x1020 is CNA DATA_SIZE0")
    with pytest.raises(FormatError):
        DATABASE.decode(0x0201, 0x10F0, 0)
    with pytest.raises(FormatError):
        DATABASE.decode(0x0201, 0x1021, 0)


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_values_have_32_bits(value):
    with pytest.raises(FormatError, match="32 bits"):
        DATABASE.decode(0x0201, 0x1020, value)


@pytest.mark.parametrize(
    ("block", "register", "fields", "parts"),
    [
        ("CNA", "DATA_SIZE0", {"width": 2048}, ("CNA DATA_SIZE0", "width (bits 26:16)", "0 to 2047", "2048")),
        (
            "CNA",
            "WEIGHT_SIZE2",
            {"kernels": 32000},
            ("CNA WEIGHT_SIZE2 (0x1038)", "kernels", "0 to 16383", "smaller tasks"),
        ),
        ("CNA", "DMA_CON2", {"surface_stride": 1 << 27}, ("surface_stride", "134217727")),
        ("CNA", "DATA_SIZE0", {"depth": 1}, ("expected one of", "width, height", "found depth")),
        ("CNA", "DATA_SIZE9", {}, ("block CNA", "DATA_SIZE9")),
        ("GPU", "DATA_SIZE0", {}, ("block", "GPU")),
        ("DDMA", "RD_WEIGHT_1", {"pc": 1}, ("no target code",)),
    ],
)
def test_what_cannot_be_encoded(block, register, fields, parts):
    with pytest.raises(FormatError) as error:
        DATABASE.encode(block, register, **fields)
    one_line(error, *parts)


def test_the_empty_word():
    assert EMPTY.packed == 0
    assert DATABASE.decode(EMPTY.target, EMPTY.offset, EMPTY.value).block == "NONE"
