"""The text form: bytes to text to bytes without loss, and one line for each mistake."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.errors import SourceError
from npuviz.targets.neuroncore.isa import ARG0, DST, SRC0, Alu, Engine, Flag, Opcode, Update
from npuviz.targets.neuroncore.neff.decoding import decode
from npuviz.targets.neuroncore.neff.encoding import encode
from tests.sweeps import examples
from tests.targets.neuroncore.instruction_strategies import programs
from tests.targets.neuroncore.text.assembler import assemble
from tests.targets.neuroncore.text.program_text import disassemble


@examples(40, 150)
@given(programs())
def test_bytes_to_text_to_bytes(program):
    raw = encode(*program)
    decoded = decode(raw, "f", Engine.POOL)
    text = "\n".join(disassemble(decoded.instructions, decoded.transfers))
    assert encode(*assemble(text)) == raw


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80) | st.text("DVE tensor_copy[]:,x<-=waitS>=0123456789.+#", max_size=80))
def test_any_text_is_a_program_or_a_source_error(text):
    message = ""
    try:
        assemble("DVE memset f32:sbuf[0:1,0x0,1x1]\n" + text)
    except SourceError as error:
        message = str(error)
    assert "\n" not in message


def test_a_line_reads_as_documented():
    line = (
        "DVE tensor_scalar.multiply.add bf16:sbuf[0:64,0x400,4x128,128x1] <- f32:psum[0:64,0x800,512x1] "
        "arg0=f32:sbuf[0:64,0x0,1x0] imm=0,1.5 +reverse1 wait:S3>=12 wait:S4>=1 signal:S5++ signal@read:E2!"
    )
    instructions, _ = assemble(f"; a comment\n\n{line} ; the end")
    (found,) = instructions
    assert found["engine"] == Engine.DVE
    assert found["opcode"] == Opcode.TENSOR_SCALAR
    assert (found["op0"], found["op1"], found["flags"]) == (Alu.MULTIPLY, Alu.ADD, Flag.REVERSE1)
    assert found["imm"].tolist() == [0, 1.5, 0]
    assert found["operands"][DST]["sizes"].tolist() == [1, 1, 4, 128]
    assert found["operands"][SRC0]["address"] == 0x800
    assert found["operands"][ARG0]["partitions"] == 64
    assert found["waits"]["value"].tolist() == [12, 1, 0]
    assert found["updates"]["kind"].tolist() == [Update.SEM_INC, Update.EVENT_SET]
    assert found["updates"]["when"].tolist() == [0, 1]
    (text,) = disassemble(instructions, {})
    assert np.array_equal(assemble(text)[0], instructions)


def test_a_dma_copy_carries_its_transfer():
    text = (
        "SP dma_copy id=4\n"
        '    transfer queue=2 trigger="hardware DGE" semaphore=5 remote=1,2 first_queue\n'
        "    fma float32:sb[0x0,64x1] <- bfloat16:v0[0x10,32x1], bfloat16:v1[0x0,32x1] scales=1.0,0.5\n"
    )
    _, transfers = assemble(text)
    transfer = transfers[0]
    assert (transfer.id, transfer.queue, transfer.trigger) == (4, 2, "hardware DGE")
    assert (transfer.semaphore, transfer.remote_semaphores, transfer.first_queue) == (5, (1, 2), True)
    (descriptor,) = transfer.descriptors
    assert descriptor.scales == (1.0, 0.5)
    assert [each.variable for each in descriptor.sources] == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("XX nop", r"p:1:1: unknown engine 'XX'; there are PE"),
        ("DVE jump", r"p:1:5: unknown instruction 'jump'"),
        ("DVE tensor_tensor", "takes 1 operators, found 0"),
        ("DVE tensor_tensor.plus", "unknown operator 'plus'"),
        ("DVE nop wait:S1=>2", "expected a wait such as"),
        ("DVE nop signal:S1", "expected an update such as"),
        ("DVE nop signal:E1++", "expected an update such as"),
        ("DVE nop wait:- wait:- wait:- wait:-", "at most 3 waits"),
        ("DVE nop +turbo", "unknown flag 'turbo'"),
        ("DVE nop speed=3", "unknown key 'speed'"),
        ("DVE nop imm=1,2,3,4", "at most three immediates"),
        ("DVE nop id=99999999999", "expected an integer from 0 to 4294967295"),
        ("DVE memset f32:sram[0:1,0x0,1x1]", "expected an operand such as"),
        ("DVE memset f32:sbuf[0:1,0x0,1x1,1x1,1x1,1x1,1x1]", "at most 4 dimensions"),
        ("DVE memset f32:sbuf[5:1,0x0,1x1]", "expected an integer from 5"),
        ("    copy uint8:sb[0x0,1x1] <- uint8:v0[0x0,1x1]", "belongs to a dma_copy"),
        ("SP dma_copy", "without a transfer line"),
        ("SP dma_copy\n    copy uint8:sb[0x0,1x1] <- uint8:v0[0x0,1x1]", "expected a transfer line"),
        ('SP dma_copy\n    transfer trigger="magic"', "unknown trigger"),
    ],
)
def test_each_mistake_has_a_line(text, message):
    with pytest.raises(SourceError, match=message):
        assemble(text, "p")
