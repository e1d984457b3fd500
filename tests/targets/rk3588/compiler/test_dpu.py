"""Fixed-point factors, and stages as registers."""

import pytest

from npuviz.targets.rk3588.compiler.dpu import Stages, requantisation, with_zeros
from npuviz.targets.rk3588.compiler.dpu_task import Move, Plane, move_words
from npuviz.targets.rk3588.task.work import decode_work


@pytest.mark.parametrize("factor", [2.0**-39, 1e-6, 0.03, 0.49999, 0.999999, 1.0, 1.7, 900.0, 2.0**13.9])
def test_factors_are_within_15_bits(factor: float) -> None:
    found = requantisation(factor, -7)
    assert 0 < found.scale < 1 << 15
    assert found.shift >= 0
    assert found.scale / 2.0**found.shift == pytest.approx(factor, rel=2.0**-14)
    assert found.offset == -7


@pytest.mark.parametrize("factor", [0.0, -1.0, 2.0**-41, 2.0**15, float("inf"), float("nan")])
def test_factors_that_do_not_fit(factor: float) -> None:
    with pytest.raises(ValueError, match="rescaling factor"):
        requantisation(factor)


def registers_of(stages: Stages) -> dict[int, int]:
    """Of a task that reads a cube of one atom."""
    move = Move((16, 1, 1), (0x1000, 0x2000), ("int8", "int8"), Plane(1), Plane(1))
    return {word.offset: word.value for word in move_words(move, stages)}


def test_relu_stands_behind_the_last_sum() -> None:
    for stages, in_bn in (
        (Stages(bias_constant=3, relu=True), False),
        (Stages(bias_constant=3, scale_address=64, relu=True), False),
        (Stages(bias_constant=3, scale_address=64, relu=True, limit=9), True),
        (Stages(bias_constant=3, sum_address=64, relu=True), True),
    ):
        output = decode_work(registers_of(stages), 0x18).output
        assert output is not None
        assert (output.bs.has_relu, output.bn.has_relu) == (not in_bn, in_bn)
        assert output.bs.alu_operand == 3


def test_readers_say_what_they_read() -> None:
    found = registers_of(Stages(main_address=128, sum_address=256))
    assert (found[0x501C], found[0x5020]) == (4 << 1, 128)
    assert (found[0x5028], found[0x502C]) == (1 << 1, 256)
    output = decode_work(found, 0x18).output
    assert output is not None
    assert output.bs.mul_from_memory
    assert output.bn.alu_from_memory


def test_zeros_change_nothing_that_is_written() -> None:
    words = Stages(bias_constant=5).words(to_half=True)
    full = with_zeros(words, "DPU")
    assert full[: len(words)] == words
    assert len({word.offset for word in full}) == len(full)
    assert all(word.value == 0 for word in full[len(words) :])
