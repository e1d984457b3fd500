"""What KernelCall tells a kernel of its stop rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.kernels.twins import plain_twin
from npuviz.sim import stop
from npuviz.sim.parts import watch_kernels as wk
from npuviz.sim.parts.kernel_call import KernelCall

may_watch, may_watch_bytes = plain_twin(wk.may_watch), plain_twin(wk.may_watch_bytes)
NUMBERS = st.integers(0, 300)
MEMORY = (stop.STOP_MEMORY_READ, stop.STOP_MEMORY_WRITE)


@st.composite
def rows(draw: st.DrawFn) -> tuple[int, int, int, int, int, int]:
    """Draw a stop row of any test, a word of any color among them."""
    test = draw(st.integers(1, wk.NUM_TESTS - 1))
    subject = draw(st.integers(-1, 300) if test == stop.STOP_WORD else NUMBERS)
    low = draw(NUMBERS)
    return (test, subject, low, low + draw(st.integers(1, 100)), 0, 1)


def machine_of(call: KernelCall) -> wk.Machine:
    """Make what an uncompiled kernel is handed."""
    return wk.Machine(None, None, wk.CALL(call.x), None)


@given(st.lists(rows(), max_size=8), NUMBERS, NUMBERS, st.integers(1, 50))
def test_a_filter_lets_through_whatever_a_row_watches(found, subject, low, size):
    """No row that would hit is kept from being looked at."""
    machine = machine_of(KernelCall(10, stop.stop_table(found), None, 0))
    span = (low, low + size)
    for test, watched, begin, end, *_ in found:
        if test == stop.STOP_INSTRUCTION:
            assert not begin <= subject < end or may_watch(machine, test, subject)
        elif test in MEMORY:
            overlaps = watched == subject and begin < span[1] and end > span[0]
            assert not overlaps or may_watch_bytes(machine, test, subject, span)
        elif watched in (subject, -1):
            assert may_watch(machine, test, subject)


def test_a_filter_keeps_out_what_no_row_watches():
    """One row for each kind leaves the other subjects, instructions and bytes unlooked at."""
    table = stop.stop_table(
        [
            (stop.STOP_INSTRUCTION, 0, 5, 6, 0, 1),
            (stop.STOP_QUEUE, 3, 1, 0, 0, 2),
            (stop.STOP_MEMORY_WRITE, 2, 100, 104, 0, 3),
        ]
    )
    machine = machine_of(KernelCall(10, table, None, 0))
    assert [n for n in range(64) if may_watch(machine, stop.STOP_INSTRUCTION, n)] == [5]
    assert [n for n in range(64) if may_watch(machine, stop.STOP_QUEUE, n)] == [3]
    assert not any(may_watch(machine, stop.STOP_NODE_END, n) for n in range(64))
    spans = [(at, at + 4) for at in range(90, 112)]
    seen = [span[0] for span in spans if may_watch_bytes(machine, stop.STOP_MEMORY_WRITE, 2, span)]
    assert seen == list(range(97, 104))
    assert not may_watch_bytes(machine, stop.STOP_MEMORY_READ, 2, (100, 104))
    assert not may_watch_bytes(machine, stop.STOP_MEMORY_WRITE, 1, (100, 104))


def test_a_call_without_rows_watches_nothing():
    """Its filters are empty."""
    machine = machine_of(KernelCall(10, stop.NO_STOPS, None, 0))
    assert not any(may_watch(machine, test, n) for test in range(wk.NUM_TESTS) for n in range(64))


def test_the_tests_of_stop_rows_have_filters():
    """Every number of npuviz.sim.stop has a place."""
    names = ("INSTRUCTION", "QUEUE", "MEMORY_READ", "MEMORY_WRITE", "NODE_START", "NODE_END", "WORD", "PART")
    numbers = [getattr(stop, f"STOP_{name}") for name in names]
    assert sorted(numbers) == list(np.arange(1, wk.NUM_TESTS))
