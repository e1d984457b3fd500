"""Threads that run a wafer side by side leave what one thread leaves, to the bit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.stencil import among_idle
from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import (
    NO_STOPS,
    STOP_INSTRUCTION,
    STOP_MEMORY_WRITE,
    STOP_WORD,
    StopKind,
    StopReason,
    stop_table,
)
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.bands import TEAM
from npuviz.targets.wavelet.kernels.log_numbers import LOG_LENGTHS, LOG_PRINT
from npuviz.targets.wavelet.machine import engine
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.wafer import HOST_COPY_IN, HOST_LAUNCH, HostCommand, PeProgram, QueueBinding
from tests.sweeps import quick
from tests.targets.wavelet.assembler import EAST, RAMP, WEST, Assembler, fabin, fabout, mem, route, wafer
from tests.targets.wavelet.running import build, finish, run, variable
from tests.targets.wavelet.samples import stencil

SIDE = 48
COLOR = 5
LAUNCH = HostCommand(HOST_LAUNCH, "go")


def square(program: PeProgram) -> WaveletMachine:
    """A square of PEs that run the same, each in the same cycle."""
    return build(wafer([program], [[0] * SIDE] * SIDE), [LAUNCH])


def on_threads(count: int, machine: WaveletMachine) -> WaveletMachine:
    """The machine, run by so many threads whatever processors there are."""
    machine.engine.most_threads = count
    return machine


def is_shared(machine: WaveletMachine) -> bool:
    """Whether more than one thread had a part in the last run, or could have had."""
    return int(TEAM(machine.engine.team).round) > 0


def alike(one: WaveletMachine, other: WaveletMachine) -> None:
    """As `same`, on the way: a digest is made of these words, and takes thrice as long as comparing them."""
    assert one.cycle == other.cycle
    np.testing.assert_array_equal(one.engine.used_state(), other.engine.used_state())


def same(one: WaveletMachine, other: WaveletMachine) -> None:
    alike(one, other)
    assert one.digest() == other.digest()


def test_a_stencil_goes_through_the_same_states(tmp_path: Path) -> None:
    alone, together = (
        on_threads(1, stencil(tmp_path, SIDE, 4, 2)),
        on_threads(2, stencil(tmp_path, SIDE, 4, 2)),
    )
    shared = 0
    while not alone.is_finished:
        until = alone.cycle + 97
        run(alone, until)
        assert not is_shared(alone)
        run(together, until)
        shared += is_shared(together)
        alike(alone, together)
    same(alone, together)
    assert shared > 3
    np.testing.assert_array_equal(alone.engine.trail(), together.engine.trail())
    assert alone.engine.counter(sk.BAND.hops) > 0


def printing(starts: bool = False, times: int = 24) -> PeProgram:
    """Prints, and gives operands of different lengths, again and again: rows of the log from all PEs.

    starts  from the first cycle on, not when it is launched
    """
    a = Assembler()
    buffer = a.variable("x", np.zeros(8, np.float32))
    if starts:
        a.task("go", isa.ID_LOCAL, 8)
    else:
        a.function("go", export=())
    for number in range(times):
        a.li(1, mem(buffer, 4 + number % 4))
        a.li(2, mem(buffer, 3))
        a.li(3, ord("a") + number % 24)
        a.sys("print", b=3)
        a.dsd("mov32", "ds", (1, 2))
    if not starts:
        a.unblock()
    a.ret()
    return a.program(activated=(8,)) if starts else a.program()


def test_the_log_is_in_order_whoever_comes_first() -> None:
    alone, together = (on_threads(count, square(printing())) for count in (1, 2))
    assert run(alone).kind is StopKind.FINISHED
    assert run(together).kind is StopKind.FINISHED
    assert is_shared(together)
    assert not is_shared(alone)
    rows = together.engine.log_rows()
    assert rows == alone.engine.log_rows()
    kinds = [kind for _, _, kind, _, _ in rows]
    assert kinds.count(int(LOG_PRINT)) == 24 * SIDE * SIDE
    assert kinds.count(int(LOG_LENGTHS)) > SIDE * SIDE
    same(alone, together)


def both(*machines: WaveletMachine, cycles: int = 17) -> Iterator[tuple[WaveletMachine, bool]]:
    """Run two machines, on one thread and on two: the first one, and whether the other one was shared."""
    alone, together = (on_threads(count, machine) for count, machine in enumerate(machines, 1))
    while not alone.is_finished:
        run(alone, alone.cycle + cycles)
        run(together, alone.cycle)
        alike(alone, together)
        yield alone, is_shared(together)
    same(alone, together)


def new_seats(machine: WaveletMachine) -> int:
    return int(machine.engine.state[sk.WAFER.seats_count] - machine.engine.state[sk.WAFER.sorted])


def look_at_frontier(machine: WaveletMachine) -> int:
    """Nodes that are not at the frontier have no neighbour with a new seat; returns how many there are."""
    s, nodes = machine.engine.state, machine.engine.program.nodes
    blocks = np.where(nodes.grid >= 0, s[s[sk.WAFER.nodes] + nodes.grid], 0)
    is_new = (blocks > 0) & (s[blocks + sk.BLOCK.seat] >= s[sk.WAFER.sorted])
    wide = np.pad(is_new, 1)
    is_near = is_new | wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]
    is_inside = (blocks > 0) & (s[blocks + sk.BLOCK.channels] & sk.FRONTIER == 0)
    assert not (is_inside & is_near).any()
    return int(is_inside.sum())


def test_pes_that_begin_later_take_seats_between_the_others() -> None:
    """Every other PE starts, the rest is launched while these run."""
    zeros = np.zeros((1, 1, 8), np.uint32)
    commands = [HostCommand(HOST_COPY_IN, "x", (0, 0, 1, 1), 8, zeros), LAUNCH]
    board = [[(row + column) % 2 for column in range(SIDE)] for row in range(SIDE)]
    machines = [build(wafer([printing(starts=True), printing()], board), commands) for _ in range(2)]
    seats = [int(machine.engine.state[sk.WAFER.seats_count]) for machine, shared in both(*machines) if shared]
    assert seats[0] == SIDE * SIDE // 2
    assert seats[-1] == SIDE * SIDE
    cycles = [list[int]() for _ in range(SIDE * SIDE)]
    for cycle, node, kind, _, _ in machines[0].engine.log_rows():
        if kind == LOG_PRINT:
            cycles[node].append(cycle)
    for node, found in enumerate(cycles):
        assert len(found) == 24
        assert found == cycles[sum(divmod(node, SIDE)) % 2]


def sending(words: int, prints: int) -> PeProgram:
    """Prints so many times, then sends."""
    a = Assembler()
    buffer = a.variable("x", np.arange(words, dtype=np.uint32))
    a.function("go", export=())
    a.li(3, ord("a"))
    for _ in range(prints):
        a.sys("print", b=3)
    a.li(1, fabout(2, words))
    a.li(2, mem(buffer, words))
    a.dsd("mov32", "ds", (1, 2))
    a.unblock()
    a.ret()
    return a.program(queues=(QueueBinding(2, True, COLOR),))


def taking(words: int, prints: int = 0) -> PeProgram:
    a = Assembler()
    buffer = a.variable("x", np.zeros(words, np.uint32))
    a.function("go", export=())
    a.li(3, ord("a"))
    for _ in range(prints):
        a.sys("print", b=3)
    a.li(1, mem(buffer, words))
    a.li(2, fabin(2, words))
    a.dsd("mov32", "ds", (1, 2))
    a.unblock()
    a.ret()
    return a.program(queues=(QueueBinding(2, False, COLOR),))


def test_words_reach_idle_routers_while_others_run_side_by_side() -> None:
    """To the right of a square of PEs at work, words go through routers that slept until then.

    Those of every other row come when the seats of the others were sorted, and words still pass there.
    """
    columns, words = SIDE + 50, 600
    programs = [printing(times=70), sending(words, 0), sending(words, 100), taking(words)]
    board = [[0] * SIDE + [1 + row % 2] + [-1] * (columns - SIDE - 2) + [3] for row in range(SIDE)]
    channels = {
        (x, y): (route(COLOR, RAMP if x == SIDE else WEST, RAMP if x == columns - 1 else EAST),)
        for x in range(SIDE, columns)
        for y in range(SIDE)
    }
    machines = [build(wafer(programs, board, channels), [LAUNCH]) for _ in range(2)]
    found = [(look_at_frontier(one), shared and new_seats(one) > 0) for one, shared in both(*machines)]
    assert len({inside for inside, is_growing in found if is_growing}) > 2
    for y in range(SIDE):
        assert variable(machines[1], "x", columns - 1, y).tolist() == list(range(words))


@quick("70-61-*")
@pytest.mark.parametrize(("columns", "rows", "x", "y"), [(70, 61, 20, 11), (300, 300, 0, 0)])
def test_idle_pes_do_not_keep_threads_apart(tmp_path: Path, columns: int, rows: int, x: int, y: int) -> None:
    small = stencil(tmp_path, SIDE, 4, 2).wafer
    machines = [build(among_idle(small, columns, rows, x, y)) for _ in range(2)]
    assert sum(shared for _, shared in both(*machines, cycles=97)) > 3
    alone = finish(build(small))
    assert machines[1].cycle == alone.cycle
    assert machines[1].engine.counter(sk.BAND.hops) == alone.engine.counter(sk.BAND.hops)


def test_the_first_fault_is_that_of_the_first_node() -> None:
    a = Assembler()
    a.function("go", export=())
    for number in range(60):
        a.li(1, number)
    a.li(2, mem(1 << 15, 4))
    a.dsd("mov32", "ds", (2, 2))
    a.unblock()
    a.ret()
    machines = [on_threads(count, square(a.program())) for count in (1, 2)]
    for machine in machines:
        stop = run(machine)
        assert stop.kind is StopKind.FAULT
        assert int(machine.engine.state[sk.WAFER.fault_node]) == 0
    assert is_shared(machines[1])
    same(*machines)


def recorded(machine: WaveletMachine, slice_cycles: int) -> tuple[np.ndarray, int]:
    """Run to the end in slices; the event rows, and how many slices were shared."""
    buffer = EventBuffer(max(1 << 16, 4 * machine.event_rows_per_cycle))
    parts: list[np.ndarray] = []
    shared = 0
    while not machine.is_finished:
        machine.advance(machine.cycle + slice_cycles, NO_STOPS, buffer)
        shared += is_shared(machine)
        parts.append(buffer.take())
    return np.concatenate(parts), shared


def waiting(folder: Path) -> Iterator[WaveletMachine]:
    """Programs with every kind of wait: a stencil; prints; rows of words behind full buffers."""
    folder.mkdir()
    yield stencil(folder, SIDE, 4, 2, watch="all")
    yield build(wafer([printing()], [[0] * SIDE] * SIDE), [LAUNCH], watch="all")
    columns, words = 70, 300
    programs = [sending(words, 0), sending(words, 30), taking(words, 90)]
    board = [[row % 2] + [-1] * (columns - 2) + [2] for row in range(2 * SIDE)]
    channels = {
        (x, y): (route(COLOR, RAMP if x == 0 else WEST, RAMP if x == columns - 1 else EAST),)
        for x in range(columns)
        for y in range(2 * SIDE)
    }
    yield build(wafer(programs, board, channels), [LAUNCH], watch="all")


@quick("113")
@pytest.mark.parametrize("slice_cycles", [1 << 40, 113])
def test_what_is_recorded_is_the_same_on_several_threads(tmp_path: Path, slice_cycles: int) -> None:
    for alone, together in zip(waiting(tmp_path / "1"), waiting(tmp_path / "2"), strict=True):
        wanted, _ = recorded(on_threads(1, alone), 1 << 40)
        found, shared = recorded(on_threads(2, together), slice_cycles)
        assert shared
        assert len(wanted) > SIDE * SIDE
        np.testing.assert_array_equal(found, wanted)
        same(alone, together)


def stops_of(machine: WaveletMachine, events: EventBuffer | None) -> tuple[list[StopReason], int]:
    """Where runs from the begin stop that look for a word, an instruction or a write; how many were shared.

    The first two hit on many PEs in one cycle, the last one on one PE far from both ends.
    """
    middle = f"PE({SIDE // 2 - 1},{SIDE // 2}).memory"
    memory = [each.name for each in machine.description.memories].index(middle)
    words = [(STOP_WORD, color, 0, 0, 0, color) for color in range(8)]
    instructions = [(STOP_INSTRUCTION, 0, index, index + 1, 0, index) for index in range(8, 88, 8)]
    start = machine.snapshot()
    found: list[StopReason] = []
    shared = 0
    for row in (*words, *instructions, (STOP_MEMORY_WRITE, memory, 0, 1 << 16, 0, 99)):
        machine.restore(start)
        found.append(machine.advance(1 << 40, stop_table([row]), events))
        shared += is_shared(machine)
        if events is not None:
            events.take()
    return found, shared


@quick("False")
@pytest.mark.parametrize("is_recorded", [False, True])
def test_what_hits_is_the_same_on_several_threads(tmp_path: Path, is_recorded: bool) -> None:
    found: list[list[StopReason]] = []
    machines: list[WaveletMachine] = []
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        machine = on_threads(count, stencil(folder, SIDE, 4, 2, watch="all"))
        events = EventBuffer(max(1 << 16, 4 * machine.event_rows_per_cycle)) if is_recorded else None
        stops, shared = stops_of(machine, events)
        assert (shared > 3) == (count == 2)
        found.append(stops)
        machines.append(machine)
    assert found[0] == found[1]
    same(*machines)
    assert sum(stop.kind is StopKind.BREAKPOINT for stop in found[0]) > 10


def test_short_runs_take_one_thread(tmp_path: Path) -> None:
    machine = on_threads(2, stencil(tmp_path, SIDE, 4, 1))
    run(machine, 400)
    assert is_shared(machine)
    run(machine, machine.cycle + engine.LONG_RUN - 1)
    assert not is_shared(machine)


SIZES = [(64, 64), (48, 48), (130, 40), (600, 5), (3, 1200), (37, 151)]


@quick("1.0-48-48", "0.7-48-48", "0.7-600-5", "0.7-37-151")
@pytest.mark.parametrize(("columns", "rows"), SIZES)
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_bands_have_no_neighbour_and_no_wheel_word_in_common(columns: int, rows: int, share: float) -> None:
    """Of the PEs at work, this share of all, anywhere."""
    a = Assembler()
    a.function("go", export=())
    a.ret()
    works = np.random.default_rng(columns).random((rows, columns)) < share
    idle = Assembler().program()
    machine = build(wafer([a.program(), idle], np.where(works, 0, 1).tolist()), [LAUNCH])
    while new_seats(machine) or not machine.engine.state[sk.WAFER.sorted]:
        run(machine, machine.cycle + 1)
    s = machine.engine.state
    count, bands = int(s[sk.WAFER.sorted]), int(s[sk.WAFER.bands_filled])
    size, border = 1 << int(s[sk.WAFER.band_shift]), int(s[sk.WAFER.border])
    assert count == works.sum()
    assert (bands - 1) * size < count <= bands * size
    seats = np.full((rows, columns), -1)
    seats[works] = np.arange(count)
    blocks = s[s[sk.WAFER.nodes] + machine.engine.program.nodes.grid[works]]
    assert (s[blocks + sk.BLOCK.seat] == np.arange(count)).all()
    near = np.pad(seats, 1, constant_values=-1)
    near = np.stack([seats, near[:-2, 1:-1], near[2:, 1:-1], near[1:-1, :-2], near[1:-1, 2:]])
    near = np.where(near < 0, seats, near)[:, works]
    seats = seats[works]
    band = seats // size
    inside = (seats % size < size - border) | (band == bands - 1)
    for part in (inside, ~inside):
        words = [set(near[:, (band == k) & part].ravel() // 16) for k in range(bands)]
        for k in range(bands - 1):
            assert not words[k] & words[k + 1]
