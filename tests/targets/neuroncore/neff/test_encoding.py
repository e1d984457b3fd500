"""The slots: every instruction survives, and nothing but `encode`'s output is read."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.targets.neuroncore.costs.table import CONTROL_COSTS, COSTS
from npuviz.targets.neuroncore.isa import (
    INSTRUCTION_DTYPE,
    SLOT_BYTES,
    Activation,
    Alu,
    Engine,
    Flag,
    Opcode,
    ReduceCmd,
    Space,
)
from npuviz.targets.neuroncore.neff.decoding import decode
from npuviz.targets.neuroncore.neff.encoding import ACCESS_DTYPES, encode
from npuviz.targets.neuroncore.tables import Access, Descriptor, Transfer
from npuviz.targets.neuroncore.text.mnemonics import SHORT_DTYPES
from tests.sweeps import examples
from tests.targets.neuroncore.instruction_strategies import programs


@examples(40, 150)
@given(programs())
def test_every_program_survives(program):
    instructions, transfers = program
    decoded = decode(encode(instructions, transfers), "Pool.bin", Engine.POOL)
    assert decoded.instructions.tobytes() == instructions.tobytes()
    assert decoded.transfers == transfers


@examples(30, 100)
@given(programs(), st.data())
def test_a_damaged_program_is_a_format_error_or_another_program(program, data):
    raw = bytearray(encode(*program))
    if not raw:
        return
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    message = ""
    try:
        decoded = decode(bytes(raw), "Pool.bin", Engine.POOL)
        assert encode(decoded.instructions, decoded.transfers) == bytes(raw)
    except FormatError as error:
        message = str(error)
    assert not message or ("Pool.bin, byte" in message and "\n" not in message)


def test_a_program_cut_anywhere_is_refused_or_shorter():
    raw = encode(*_copy_program())
    for end in range(1, len(raw)):
        with contextlib.suppress(FormatError):
            assert len(decode(raw[:end], "f", Engine.SP).instructions) < 2


def _copy_program():
    instructions = np.zeros(2, INSTRUCTION_DTYPE)
    instructions["engine"] = Engine.SP
    instructions["opcode"] = [Opcode.NOP, Opcode.DMA_COPY]
    descriptor = Descriptor("fma", Access(-1, 0, (1,), (64,)), (Access(0, 0, (1,), (64,)),) * 2, (1.0, 2.0))
    return instructions, {1: Transfer(0, 0, 1, (descriptor, descriptor), "hardware DGE", 4)}


def test_slots_are_counted_as_documented():
    instructions = np.zeros(1, INSTRUCTION_DTYPE)
    instructions["operands"]["space"][0, [0, 1, 5]] = Space.SBUF
    instructions["operands"]["sizes"] = 1
    instructions["operands"]["partitions"] = 1
    instructions["opcode"] = Opcode.ACTIVATION
    instructions["engine"] = Engine.ACTIVATION
    assert len(encode(instructions, {})) == 3 * SLOT_BYTES
    assert len(encode(*_copy_program())) == (1 + 1 + 1 + 2 * (1 + 1 + 3)) * SLOT_BYTES


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ((0, 255), "opcode: expected a known opcode, found 255"),
        ((1, 0x10 | Engine.PE), "engine: expected SP, found PE"),
        ((1, 0x77), "the vendor's own encoding is not public"),
        ((7, 0x00), "byte 7"),
        ((7, 0xBF), "expected slots for all operands, found the end"),
        ((27, 3), "wait: expected 0 to 2"),
        ((24, 1), "wait: expected zeros"),
        ((50, 9), "update: expected a known kind"),
    ],
)
def test_each_rule_has_its_message(change, text):
    instructions = np.zeros(1, INSTRUCTION_DTYPE)
    instructions["engine"] = Engine.SP
    raw = bytearray(encode(instructions, {}))
    raw[change[0]] = change[1]
    with pytest.raises(FormatError, match=f"m.neff, byte 0.*{text}"):
        decode(bytes(raw), "m.neff", Engine.SP)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("space", 7, "SBUF, PSUM or a pattern"),
        ("dtype", 99, "a known dtype"),
        ("partition", 120, "partitions within"),
        ("partitions", 0, "partitions within"),
        ("sizes", 0, "sizes of at least 1"),
    ],
)
def test_operands_are_checked(field, value, text):
    instructions = np.zeros(1, INSTRUCTION_DTYPE)
    instructions["opcode"], instructions["engine"] = Opcode.MEMSET, Engine.DVE
    operand = instructions["operands"][0][:1]
    operand["space"], operand["partitions"], operand["sizes"] = Space.SBUF, 16, 1
    decode(encode(instructions, {}), "f", Engine.DVE)
    operand[field] = value
    with pytest.raises(FormatError, match=text):
        decode(encode(instructions, {}), "f", Engine.DVE)


def test_a_transfer_that_fits_no_slot_is_a_value_error():
    instructions, transfers = _copy_program()
    wide = Access(0, 0, (1,) * 5, (1,) * 5)
    bad = Transfer(0, 0, 1, (Descriptor("copy", wide, (wide,)),))
    with pytest.raises(ValueError, match="5 sizes"):
        encode(instructions, {**transfers, 1: bad})


def test_the_page_names_everything():
    text = (Path(__file__).parents[4] / "docs" / "neuron-isa.md").read_text()
    names = [f"| {each.value} | `{each.name.lower()}` |" for each in (*Opcode, *Flag)]
    names += [f"{each.value} `{each.name.lower()}`" for each in (*Alu, *Activation, *ReduceCmd)]
    for kinds in (ACCESS_DTYPES, SHORT_DTYPES):
        names += [f"{number} `{name}`" for number, name in enumerate(kinds)]
    assert [name for name in names if name not in text] == []
    costs = [f"| {row.text} | {row.source} |" for row in (*COSTS.values(), *CONTROL_COSTS.values())]
    assert [row for row in costs if row not in text] == []
