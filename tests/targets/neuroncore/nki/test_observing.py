"""Values that the kernel's Python asks for are those of the chip; each costs what was done since the last."""

import threading

import numpy as np

from npuviz.targets.neuroncore.nki import observing, user_python
from tests.targets.neuroncore.nki.running import FIRST, SECOND, ran

_COUNTING = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=count, value=TURNS)
    register = nisa.register_alloc(1)
    while register:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
        nisa.register_load(register, count)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)


def test_each_turn_of_a_loop_costs_what_the_turn_before_cost(tmp_path, monkeypatch) -> None:
    lowered: list[int] = []
    lower = observing.lower

    def counted(recording, *others):
        lowered.append(len(recording.steps))
        return lower(recording, *others)

    monkeypatch.setattr(observing, "lower", counted)
    found = ran(tmp_path, _COUNTING.replace("TURNS", "40"), {"x": np.zeros((128, 8), np.float32)})
    assert np.all(found == 40)
    assert len(lowered) == 40
    assert max(lowered[3:]) == lowered[3] < 8


_SUMS = """
    # sums of products in PSUM, read while they grow; a scratch tensor in HBM; a state that is taken over
    state = nl.ndarray((1, 4), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=state, value=3)
    scratch = nl.ndarray((1, 4), dtype=nl.int32, buffer=nl.private_hbm)
    nisa.dma_copy(dst=scratch, src=state)
    register = nisa.register_alloc(9)
    turn = 0
    sums = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.psum)
    while register:
        nisa.nc_matmul(dst=sums, stationary=tile, moving=tile[:, 0:8])
        nisa.tensor_scalar(dst=state, data=state, op0=nl.multiply, operand0=3)
        nisa.tensor_scalar(dst=state, data=state, op0=nl.add, operand0=1)
        nisa.dma_copy(dst=scratch[0:1, turn % 4 : turn % 4 + 1], src=state[0:1, 1:2])
        back = nl.ndarray((1, 4), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=back, src=scratch)
        nisa.register_load(register, back[0:1, (turn + 2) % 4 : (turn + 2) % 4 + 1])
        seen.append(int(register))
        turn += 1
        if turn == 11:
            break
    copy = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=sums)
    nisa.dma_copy(dst=out[:, 0:8], src=copy)
"""


def test_values_are_those_of_a_run_from_the_first_step(tmp_path, monkeypatch) -> None:
    text = (
        SECOND
        + """
seen = []

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
"""
        + _SUMS
        + """
    nisa.tensor_scalar(dst=tile[0:1, 0:1], data=tile[0:1, 0:1], op0=nl.multiply, operand0=0.0)
    for n, value in enumerate(seen):
        nisa.memset(dst=tile[0:1, n : n + 1], value=float(value))
    nisa.dma_copy(dst=out[0:1, 8:128], src=tile[0:1, 0:120])
    nisa.dma_copy(dst=out[1:128, 8:128], src=tile[1:128, 8:128])
    return out
"""
    )
    x = {"x": np.eye(128, dtype=np.float32)}
    found = ran(tmp_path, text, x)
    monkeypatch.setattr(observing, "MAX_KEPT_BYTES", 0)
    assert np.array_equal(found, ran(tmp_path, text, x))
    state, cells, expected = 3, [3, 3, 3, 3], []
    for turn in range(11):
        state = state * 3 + 1
        cells[turn % 4] = state
        expected.append(cells[(turn + 2) % 4])
    assert found[0, 8:19].tolist() == expected


_TAKEN_OVER = (
    FIRST
    + """
@nki.jit
def kernel(x, start):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = nl.load(start)
    total = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    total[...] = nl.copy(count)
    for turn in range(6):
        later = nl.add(count, total)  # recorded before total is read, and total takes it over after that
        column = nisa.register_alloc(total)
        total[...] = later
        nl.store(out[0:1, int(column) : int(column) + 1], nl.load(x[0:1, turn : turn + 1]))
    return out
"""
).replace("import neuronxcc.nki.isa as nisa", "import nki.isa as nisa")


def test_a_step_that_is_taken_over_after_a_value_was_seen_counts(tmp_path, monkeypatch) -> None:
    x = {"x": np.arange(1, 129, dtype=np.float32)[None], "start": np.array([[2]], np.int32)}
    found = ran(tmp_path, _TAKEN_OVER, x)
    monkeypatch.setattr(observing, "MAX_KEPT_BYTES", 0)
    assert np.array_equal(found, ran(tmp_path, _TAKEN_OVER, x))
    assert [int(found[0, 2 * turn + 2]) for turn in range(6)] == [1, 2, 3, 4, 5, 6]


def test_places_between_two_lines_are_no_places(tmp_path) -> None:
    """Python has no line for some instructions."""
    scope: dict = {}
    exec("def loop(begun, end):\n    begun.set()\n    end.wait()\n", scope)
    scope["loop"].__code__ = scope["loop"].__code__.replace(
        co_linetable=b"", co_filename=str(tmp_path / "k.py")
    )
    begun, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=scope["loop"], args=(begun, end))
    thread.start()
    try:
        assert begun.wait(10)
        user_python._check_loops(thread)
        assert all(line for _, line in user_python._running(thread))
    finally:
        end.set()
        thread.join()


_LARGE = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=count, value=3)
    register = nisa.register_alloc(1)
    turns = 0
    while register:
        turns += 1
        for part in range(2):
            large = nl.ndarray((128, 25000), dtype=nl.int32, buffer=nl.sbuf)
            nisa.memset(dst=large, value=1)
            nisa.tensor_tensor(dst=count, data1=count, data2=large[0:1, 0:1], op=nl.subtract)
            nisa.tensor_tensor(dst=count, data1=count, data2=large[0:1, 1:2], op=nl.add)
        nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
        nisa.register_load(register, count)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=turns)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)


def test_values_are_right_where_what_is_kept_has_no_room(tmp_path) -> None:
    """Two tiles of half of SBUF each, one after the other, that the condition depends on."""
    assert np.all(ran(tmp_path, _LARGE, {"x": np.zeros((128, 8), np.float32)}) == 3)
