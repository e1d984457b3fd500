"""Which computations with integers find their result there already."""

from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.machine.equal_values import repeated


def row(op: int, to: int, *sources: int, imm: int = 0, kind: int = isa.T_I16) -> list[int]:
    """One instruction."""
    first, second = (*sources, -1, -1)[:2]
    found = [0] * isa.CODE_WORDS
    found[isa.C_OP], found[isa.C_A], found[isa.C_B], found[isa.C_C] = op, to, first, second
    found[isa.C_IMM], found[isa.C_TYPE] = imm, kind
    return found


def test_equal_sums_are_made_once_in_either_order() -> None:
    assert repeated([row(isa.OP_ADD, 3, 1, 2), row(isa.OP_ADD, 4, 2, 1)]) == {1: 0}
    assert repeated([row(isa.OP_SUB, 3, 1, 2), row(isa.OP_SUB, 4, 2, 1)]) == {}


def test_a_copy_has_the_value_and_what_is_written_anew_has_not() -> None:
    code = [row(isa.OP_MOV, 7, 1), row(isa.OP_ADD, 3, 1, 2), row(isa.OP_ADD, 4, 7, 2)]
    assert repeated(code) == {2: 1}
    code.insert(2, row(isa.OP_LI, 7, imm=5))
    assert repeated(code) == {}


def test_behind_a_place_that_is_jumped_to_nothing_is_known() -> None:
    code = [row(isa.OP_ADD, 3, 1, 2), row(isa.OP_ADD, 4, 1, 2), row(isa.OP_JNZ, 3, imm=1)]
    assert repeated(code) == {}
    code[2][isa.C_IMM] = 0
    assert repeated(code) == {1: 0}


def test_a_call_may_change_everything_and_floats_are_left_alone() -> None:
    assert repeated([row(isa.OP_ADD, 3, 1, 2), row(isa.OP_CALL, 0), row(isa.OP_ADD, 4, 1, 2)]) == {}
    assert repeated([row(isa.OP_ADD, each, 1, 2, kind=isa.T_F32) for each in (3, 4)]) == {}
