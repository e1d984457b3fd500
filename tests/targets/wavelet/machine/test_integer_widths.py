"""Operations on wide integers cost an instruction for each 16-bit word that somebody reads."""

import pytest

from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.machine.integer_widths import extra_cycles

STORE = (isa.OP_ST, 1, -1, 0, 0, 0, isa.T_U32)
AS_INDEX = (isa.OP_LDX, 2, -1, 1, 100, 4, isa.T_F32)
RETURN = (isa.OP_RET, -1, 0, 0, 0, 0, 0)


def instructions(*rows: tuple[int, ...]) -> list[int]:
    found = extra_cycles([[*row, 0] for row in rows])
    return [1 + found.get(at, 0) for at in range(len(rows))]


def op(number: int, c: int = 3, imm: int = 0, kind: int = isa.T_U32, a: int = 1) -> tuple[int, ...]:
    return (number, a, 0, c, imm, 0, kind)


@pytest.mark.parametrize(
    ("row", "whole", "low"),
    [
        (op(isa.OP_ADD), 2, 1),
        (op(isa.OP_SUB, kind=isa.T_I32), 2, 1),
        (op(isa.OP_XOR), 2, 1),
        (op(isa.OP_MUL), 5, 1),
        (op(isa.OP_ADD, kind=isa.T_I64), 4, 1),
        (op(isa.OP_ADD, kind=isa.T_U16), 1, 1),
        (op(isa.OP_SHL, -1, 4), 4, 1),  # the high word is put together of two
        (op(isa.OP_SHR, -1, 4), 4, 3),
        (op(isa.OP_SHL, -1, 16), 1, 1),  # words are renamed
        (op(isa.OP_EQ), 2, 2),
        (op(isa.OP_ADD, kind=isa.T_F32), 1, 1),
    ],
)
def test_words_that_are_read(row: tuple[int, ...], whole: int, low: int) -> None:
    assert instructions(row, STORE, RETURN)[0] == whole
    assert instructions(row, AS_INDEX, RETURN)[0] == low


def test_a_mask_and_a_conversion_read_the_low_word_only() -> None:
    narrowed = (isa.OP_CVT, 2, 1, 0, 0, isa.T_U16, isa.T_U32)
    assert instructions(op(isa.OP_ADD), narrowed, (isa.OP_ST, 2, -1, 0, 0, 0, isa.T_U16), RETURN)[0] == 1
    masked = (isa.OP_AND, 2, 1, -1, 15, 0, isa.T_U32)
    store = (isa.OP_ST, 2, -1, 0, 0, 0, isa.T_U32)
    assert instructions(op(isa.OP_SHR, -1, 6), masked, store, RETURN)[:2] == [1, 1]


def test_what_is_read_in_the_next_round_of_a_loop_is_read_whole() -> None:
    add = (isa.OP_ADD, 1, 1, -1, 1, 0, isa.T_U32)
    assert instructions(AS_INDEX, add, (isa.OP_JMP, 0, 0, 0, 0, 0, 0), RETURN)[1] == 2


def test_a_result_that_is_read_behind_a_jump_counts() -> None:
    jump = (isa.OP_JZ, 5, 0, 0, 4, 0, 0)
    assert instructions(op(isa.OP_ADD), jump, AS_INDEX, op(isa.OP_ADD), STORE, RETURN)[0] == 2


def test_what_calls_and_descriptors_read_counts_whole() -> None:
    assert instructions(op(isa.OP_ADD), (isa.OP_CALL, -1, 1, 1, 0, 0, 0), RETURN)[0] == 2
