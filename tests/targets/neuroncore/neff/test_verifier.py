"""Programs and records that do not fit each other or the machine: one line each, whatever is damaged."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.errors import FormatError, UsageError
from npuviz.formats.neff.file import neff_from_members
from npuviz.formats.neff.model import Neff
from npuviz.targets.neuroncore.isa import ENGINE_NAMES
from npuviz.targets.neuroncore.neff.encoding import encode
from npuviz.targets.neuroncore.neff.reader import load_compiled, neff_spec
from npuviz.targets.neuroncore.neff.writer import compiled_neff
from npuviz.targets.neuroncore.spec import make_spec
from tests.sweeps import examples
from tests.targets.neuroncore.every_kind import LNC2, everything
from tests.targets.neuroncore.text.assembler import assemble


def with_program(neff: Neff, member: str, text: str) -> Neff:
    """The NEFF with another program."""
    return with_member(neff, member, encode(*assemble(text)))


def with_member(neff: Neff, member: str, content: bytes) -> Neff:
    return neff_from_members({**neff.members, member: content}, neff.header, "m.neff")


@pytest.mark.parametrize(
    ("member", "text", "message"),
    [
        (
            "sg00/SP.bin",
            "SP dma_trigger id=5",
            r"sg00/SP\.bin, byte 0, dma_trigger: expected an id",
        ),
        (
            "sg00/SP.bin",
            "SP nop\nSP tensor_copy",
            r"byte 64, opcode: expected an instruction of SP",
        ),
        ("sg00/SP.bin", "SP nop wait:S256>=1", "wait: expected a number below 256, found 256"),
        ("sg00/SP.bin", "SP nop wait:E300==1", "wait: expected a number below 256, found 300"),
        ("sg00/SP.bin", "SP nop signal:S999++", "update: expected a number below 256"),
        ("sg00/SP.bin", "SP branch.r0 id=9", "id: expected an instruction of the program, found 9"),
        ("sg00/SP.bin", "SP reg_move.#70", "op0: expected a known operator, found 70"),
        ("sg00/Activation.bin", "Activation table_load id=21", "id: expected a known table set"),
        ("sg00/Activation.bin", "Activation activation.#99", "op0: expected a known operator, found 99"),
        ("npuviz/Host.bin", "Host host_call id=2", "id: expected a node of the graph, found 2"),
        (
            "sg00/DVE.bin",
            "DVE memset f32:sbuf[0:8,0x37ffd,1x1]",
            "dst: expected SBUF bytes within",
        ),
        ("sg00/DVE.bin", "DVE memset f32:psum[0:8,0x0,2x-1]", "dst: expected PSUM bytes within"),
        (
            "sg00/Pool.bin",
            'Pool dma_copy id=9\n    transfer queue=5 trigger="software DGE"',
            "queue: expected one of 2 queue sets, found 5",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer\n    copy uint8:v9[0x0,4x1] <- uint8:v0[0x0,4x1]",
            "transfer 9: expected a declared variable, found var_id 10",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer\n    copy uint8:sb[0x0,4x1] <- uint8:v0[0x1e,4x1]",
            "transfer 9: expected bytes inside x of 32 bytes, found bytes 30 to 33",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer\n    copy uint8:sb[0x0,4x1] <- uint8:v0[0x0,3x1]",
            "transfer 9: expected equal byte counts, found 3 from, 4 to",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer semaphore=700\n    copy uint8:sb[0x0,4x1] <- uint8:v0[0x0,4x1]",
            "transfer 9: expected a semaphore below 256",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=8\n    transfer",
            "dma id 8: expected one transfer of this id in a core, found two",
        ),
    ],
)
def test_linking_errors(member: str, text: str, message: str) -> None:
    neff = with_program(compiled_neff(everything(), LNC2, "all"), member, text)
    with pytest.raises(FormatError, match=message) as caught:
        load_compiled(neff, LNC2)
    assert str(caught.value).startswith("m.neff")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, r"program\.json\.version: expected 1, found 2; compile the model again"),
        ("queue_sets", [], r"queue_sets: expected those of def\.json"),
        ("queue_sets", [[0, "qSP"]], "ValueError"),
        ("transfers", [], "its transfers are not those of the engines"),
        ("dtypes", ["float32"], "ValueError"),
        ("outputs", [[1, 99]], "outputs name a tensor or variable"),
        ("outputs", [[0, 1]], "outputs name a tensor or variable"),
        ("pieces", [[1, 2]], "ValueError"),
        ("pieces", [[1, 999, 0, 0, 0, 0, 0, 0, 0]], "piece"),
        ("variables", [], "KeyError: 2"),
        ("variables", 7, "TypeError"),
        ("graph", {}, "KeyError"),
        ("notes", [["info"]], "ValueError"),
    ],
)
def test_a_wrong_record(key: str, value: object, message: str) -> None:
    neff = compiled_neff(everything(), LNC2, "all")
    record = orjson.loads(neff.members["npuviz/program.json"])
    neff = with_member(neff, "npuviz/program.json", orjson.dumps({**record, key: value}))
    with pytest.raises(FormatError, match=message):
        load_compiled(neff, LNC2)


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("npuviz/nodes.npy", b"", "program.json"),
        ("npuviz/tiles.npy", b"\x93NUMPY\x01\x00\x05\x00{   }", "program.json"),
        ("sg00/constant2.npy", b"123", "program.json"),
    ],
)
def test_damaged_columns(member: str, content: bytes, message: str) -> None:
    neff = with_member(compiled_neff(everything(), LNC2, "all"), member, content)
    with pytest.raises(FormatError, match=message):
        load_compiled(neff, LNC2)


def test_another_number_of_cores() -> None:
    neff = compiled_neff(everything(), LNC2, "all")
    with pytest.raises(FormatError, match="expected 1 subgraphs, one for each core, found 2"):
        load_compiled(neff, make_spec("trn2")[0])


_RAW = bytes(compiled_neff(everything(), LNC2, "all").members["npuviz/program.json"])


@examples(25, 80)
@given(st.data())
def test_any_damage_to_the_record_is_a_format_error(data: st.DataObject) -> None:
    raw = bytearray(_RAW)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b'0123456789-"[]{},:ax\0'))
    neff = with_member(compiled_neff(everything(), LNC2, "all"), "npuviz/program.json", bytes(raw))
    message = ""
    try:
        load_compiled(neff, neff_spec(neff)[0])
    except (FormatError, UsageError) as error:
        message = str(error)
    assert "\n" not in message


@examples(20, 60)
@given(st.data())
def test_any_damage_to_a_program_is_a_format_error(data: st.DataObject) -> None:
    neff = compiled_neff(everything(), LNC2, "all")
    name = data.draw(st.sampled_from([f"sg00/{each}.bin" for each in ENGINE_NAMES[:-1]]))
    raw = bytearray(neff.members[name])
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    message = ""
    try:
        load_compiled(with_member(neff, name, bytes(raw)), LNC2)
    except FormatError as error:
        message = str(error)
    assert not message or message.startswith("m.neff")
