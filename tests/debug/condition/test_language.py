import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.errors import ConditionError
from npuviz.debug.condition.language import Condition, ProbeTest, parse
from npuviz.sim.stop import (
    CMP_GE,
    CMP_NE,
    STOP_INSTRUCTION,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
    STOP_QUEUE,
)
from tests.toy.target import make_machine

MACHINE = make_machine()


def understand(text: str) -> Condition:
    return parse(text, MACHINE.description, MACHINE.program, MACHINE.probes)


@pytest.mark.parametrize(
    ("text", "rows", "cycles"),
    [
        ("cycle == 1200", (), (1200,)),
        ("cycle>=0x10", (), (16,)),
        ("CYCLE > 5", (), (6,)),
        ("instr 7", ((STOP_INSTRUCTION, 0, 7, 8, 0),), ()),
        ("instr 10..20", ((STOP_INSTRUCTION, 0, 10, 20, 0),), ()),
        ("instr 10 .. 20", ((STOP_INSTRUCTION, 0, 10, 20, 0),), ()),
        ("instr 10.. 20", ((STOP_INSTRUCTION, 0, 10, 20, 0),), ()),
        ("op shift", ((STOP_NODE_START, 1, 0, 0, 0),), ()),
        ("op shift starts", ((STOP_NODE_START, 1, 0, 0, 0),), ()),
        ('op "final square" ends', ((STOP_NODE_END, 3, 0, 0, 0),), ()),
        ("queue Core[0].ST >= 2", ((STOP_QUEUE, 1, 2, 0, CMP_GE),), ()),
        ("queue Core[0].ALU != 0", ((STOP_QUEUE, 0, 0, 0, CMP_NE),), ()),
        ("Core[0].ALU.occupancy>=1", ((STOP_QUEUE, 0, 1, 0, CMP_GE),), ()),
        ("read Core[0].SPAD 0x10..0x20", ((STOP_MEMORY_READ, 1, 16, 32, 0),), ()),
        ("write DRAM 0", ((STOP_MEMORY_WRITE, 0, 0, 1, 0),), ()),
        ("op mix or cycle == 4", ((STOP_NODE_START, 2, 0, 0, 0),), (4,)),
    ],
)
def test_lowered(text: str, rows: tuple[tuple[int, ...], ...], cycles: tuple[int, ...]) -> None:
    condition = understand(text)
    assert (condition.rows, condition.cycles, condition.is_slow) == (rows, cycles, False)
    assert condition.text == text
    assert condition.stop_rows(7) == [(*row, 7) for row in rows]


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("shift", "op shift"),
        ('"final square" ends', 'op "final square" ends'),
        ("mix or (shift and cycle > 3)", "op mix or (op shift and cycle > 3)"),
        ("read SPAD 0x10", "read SPAD 0x10"),
        ("Core[0].LD.latency > 3", "Core[0].LD.latency > 3"),
    ],
)
def test_words_that_say_what_a_name_is_may_be_left_out(text: str, full: str) -> None:
    condition = understand(text)
    assert condition.text == full
    assert (condition.rows, condition.triggers) == (understand(full).rows, condition.triggers)


def test_a_name_without_what_it_is_in_must_be_the_only_one() -> None:
    assert understand("write SPAD 0x10").rows == understand("write Core[0].SPAD 0x10").rows
    assert understand("unit LD starts").rows == understand("unit Core[0].LD starts").rows
    with pytest.raises(ConditionError, match="no unit of this name"):
        understand("unit D starts")


@pytest.mark.parametrize("test", ["== 1e400", "> 1e300", "== -1e400", "== nan", "> nan"])
def test_cycles_that_never_come_are_conditions(test: str) -> None:
    assert not understand(f"cycle {test} or instr 5").is_slow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Core[0].LD.latency > 9", ProbeTest("Core[0].LD.latency", -1, ">", 9)),
        ("Core[0].busy[2] <= 1.5", ProbeTest("Core[0].busy", 2, "<=", 1.5)),
        ("Core[0].SPAD[1][0] == -1e3", ProbeTest("Core[0].SPAD[1]", 0, "==", -1000.0)),
    ],
)
def test_probes_are_slow(text: str, expected: ProbeTest) -> None:
    condition = understand(text)
    assert condition.probes == (expected,)
    assert condition.is_slow


def test_probe_tests_compare() -> None:
    assert ProbeTest("p", -1, ">", 9).holds(10)
    assert not ProbeTest("p", -1, ">", 9).holds(9)
    assert ProbeTest("p", 3, "!=", 1).holds(np.array([[1, 1], [1, 2]]))


@pytest.mark.parametrize(
    ("text", "bad", "reason"),
    [
        ("", "", "expected cycle, instr"),
        ("cycle", "", "expected a comparison"),
        ("cycle = ", "", "expected a cycle"),
        ("cycle == soon", "soon", "expected a cycle"),
        ("cycle < 5", "cycle < 5", "never becomes true: it holds from the first cycle"),
        ("cycle == -5", "-5", "never true: cycles are whole numbers from 0"),
        ("cycle == 99999999999999999999", "99999999999999999999", "2^62"),
        ("instr 20..10", "20..10", "empty range"),
        ("instr 10 .. 999", "10 .. 999", "outside 0..128"),
        ("instr 128", "128", "outside 0..128"),
        ("instr ..", "..", "expected the end of the range"),
        ("op conv1", "conv1", "no operator of this name; known: scale, shift, mix, final square"),
        ("op shfit", "shfit", "did you mean shift?"),
        ('op "final square', '"final square', "quote is not closed"),
        ("queue Core[0].AL >= 1", "Core[0].AL", "did you mean Core[0].ALU"),
        ("queue Core[0].ALU 1", "1", "expected a comparison"),
        ("queue Core[0].ALU >= 3", "3", "never true: the queue has room for 2"),
        ("queue Core[0].ALU > 2", "2", "never true"),
        ("read Core[0].SPAM 0", "Core[0].SPAM", "did you mean Core[0].SPAD"),
        ("write DRAM 0xe00", "0xe00", "outside 0..3584"),
        ("Core[0].LD.latnecy > 3", "Core[0].LD.latnecy", "did you mean Core[0].LD.latency"),
        ("Core[0].busy > 3", "Core[0].busy", "has 3 elements; name one of them, such as Core[0].busy[0]"),
        ("Core[0].busy[3] > 3", "Core[0].busy[3]", "element 3 is outside 0..2"),
        ("Core[0].LD.latency > nine", "nine", "expected a number"),
        ("cycle == 4 andd op shift", "andd", "expected `and`, `or`"),
        ("cycle == 4 or", "", "expected cycle, instr"),
    ],
)
def test_mistakes_say_where(text: str, bad: str, reason: str) -> None:
    with pytest.raises(ConditionError) as caught:
        understand(text)
    error = caught.value
    start, end = error.span
    if reason.startswith("expected the end"):
        assert start == len(text)
    else:
        assert text[start:end] == bad
    assert reason in error.reason
    assert f">>{text[start:end]}<<" in str(error)


WORDS = [
    "cycle",
    "==",
    ">=",
    "7",
    "instr",
    "1..2",
    "..",
    "op",
    "shift",
    "ends",
    '"',
    "queue",
    "Core[0].ALU",
    "or",
]


@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)))
def test_any_text_is_understood_or_refused_with_a_place(text: str) -> None:
    condition, span = None, (0, 0)
    try:
        condition = understand(text)
    except ConditionError as error:
        span = error.span
    assert 0 <= span[0] <= span[1] <= len(text)
    assert condition is None or condition.rows or condition.cycles or condition.probes or condition.triggers
