"""Routers: multicast, back-pressure, switches, control words, filters, teardown, and what breaks them."""

from typing import Any

import numpy as np
import pytest

from npuviz.sim.fabric import (
    HasElements,
    HasFabric,
    HasQueueFill,
    HasRoutes,
    HasWordPaths,
    HasWords,
    glance_at,
)
from npuviz.sim.stop import StopKind
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, Channel, HostCommand, PeProgram, QueueBinding
from tests.targets.wavelet.assembler import (
    EAST,
    NORTH,
    RAMP,
    SOUTH,
    WEST,
    Assembler,
    fabin,
    fabout,
    mem,
    route,
    wafer,
)
from tests.targets.wavelet.running import build, finish, launch, run, variable

COLOR = 5


def sender(words: np.ndarray, **fields: int) -> PeProgram:
    """Sends 32-bit words, one operation each way `fields` of the descriptor say."""
    a = Assembler()
    place = a.variable("x", words.astype(np.uint32))
    a.function("go", export=())
    a.li(1, fabout(2, len(words), **fields))
    a.li(2, mem(place, len(words)))
    a.dsd("mov32", "ds", (1, 2))
    a.unblock()
    a.ret()
    return a.program(queues=(QueueBinding(2, True, COLOR),))


def collector(room: int = 32) -> PeProgram:
    """A data task that appends every word it gets to an array."""
    a = Assembler()
    got = a.variable("got", np.zeros(room, np.uint32))
    count = a.variable("count", np.zeros(1, np.uint16))
    a.function("go", export=())
    a.unblock()
    a.ret()
    a.task("take", k.ID_DATA, 2, (k.T_U32,))
    a.emit("ld", 1, -1, imm=count, type=k.T_U16)
    a.emit("stx", 0, -1, 1, imm=got, aux=4, type=k.T_U32)
    a.emit("add", 1, 1, -1, imm=1, type=k.T_U16)
    a.emit("st", 1, -1, imm=count, type=k.T_U16)
    a.ret()
    return a.program(queues=(QueueBinding(2, False, COLOR),))


def got(machine: Any, column: int, row: int) -> list[int]:
    count = int(variable(machine, "count", column, row)[0])
    return variable(machine, "got", column, row)[:count].tolist()


def test_multicast_reaches_all_and_itself_twice_is_not_needed() -> None:
    words = np.arange(1, 9)
    channels = {
        (0, 0): (route(COLOR, RAMP, EAST),),
        (1, 0): (route(COLOR, WEST, EAST | SOUTH | RAMP),),
        (2, 0): (route(COLOR, WEST, RAMP),),
        (1, 1): (route(COLOR, NORTH, RAMP),),
    }
    machine = launch(wafer([sender(words), collector()], [[0, 1, 1], [-1, 1, -1]], channels))
    for place in ((1, 0), (2, 0), (1, 1)):
        assert got(machine, *place) == words.tolist()


def test_a_slow_receiver_holds_the_sender_back_and_nothing_is_lost() -> None:
    words = np.arange(1, 61)
    channels = {(0, 0): (route(COLOR, RAMP, EAST),), (1, 0): (route(COLOR, WEST, RAMP),)}
    commands = [HostCommand(HOST_LAUNCH, "go")]
    machine = build(wafer([sender(words), collector(64)], [[0, 1]], channels), commands)
    held = 0
    for cycle in range(30, 300, 5):
        run(machine, cycle)
        held += int(machine.element_states(machine.fabric.program)[0, 0]) == 4
    assert held > 3, "the sender is seen to be held back"
    assert got(finish(machine), 1, 0) == words.tolist()


def star(channel: Channel, program: PeProgram) -> Any:
    """A sender in the middle of four collectors."""
    channels = {
        (1, 1): (channel,),
        (2, 1): (route(COLOR, WEST, RAMP),),
        (0, 1): (route(COLOR, EAST, RAMP),),
        (1, 0): (route(COLOR, SOUTH, RAMP),),
        (1, 2): (route(COLOR, NORTH, RAMP),),
    }
    return launch(wafer([program, collector()], [[-1, 1, -1], [1, 0, 1], [-1, 1, -1]], channels))


def switched(**others: Any) -> Channel:
    """Base NORTH, then WEST, EAST, SOUTH, in a ring, starting at 1 (wavelet-fabric.md section 3.3)."""
    positions = ((RAMP, NORTH), (RAMP, WEST), (RAMP, EAST), (RAMP, SOUTH))
    return Channel(COLOR, positions, position=1, ring=True, **others)


def test_advance_then_data_goes_east_south_north_west() -> None:
    a = Assembler()
    place = a.variable("x", np.array([0x11, 0x22, 0x33, 0x44], np.uint32))
    # SWITCH_ADV as command 0, ignored by processors; all other commands NOP and ignored.
    command = a.variable("command", np.array([0x09DF9249 & ~(3 << 22) | 1 << 22], np.uint32))
    a.function("go", export=())
    for index in range(4):
        a.li(1, fabout(2, 1, control=1))
        a.li(2, mem(command, 1))
        a.dsd("mov32", "ds", (1, 2))
        a.li(1, fabout(2, 1))
        a.li(2, mem(place + 4 * index, 1))
        a.dsd("mov32", "ds", (1, 2))
    a.unblock()
    a.ret()
    machine = star(switched(), a.program(queues=(QueueBinding(2, True, COLOR),)))
    assert [got(machine, *p) for p in ((2, 1), (1, 2), (1, 0), (0, 1))] == [[0x11], [0x22], [0x33], [0x44]]


def test_a_control_word_travels_by_the_position_it_meets() -> None:
    """Its own advance acts on later words: the same values inside the control words go W, E, S, N."""
    a = Assembler()
    words = np.array([1 << 22 | value for value in (0x11, 0x22, 0x33, 0x44)], np.uint32)
    place = a.variable("x", words)
    a.function("go", export=())
    a.li(1, fabout(2, 4, control=1))
    a.li(2, mem(place, 4))
    a.dsd("mov32", "ds", (1, 2))
    a.unblock()
    a.ret()
    b = Assembler()
    argument = b.variable("argument", np.zeros(1, np.uint16))
    b.function("go", export=())
    b.unblock()
    b.ret()
    b.task("control", k.ID_CONTROL, 0, (k.T_U16,))
    b.emit("st", 0, -1, imm=argument, type=k.T_U16)
    b.ret()
    taker = b.program(queues=(QueueBinding(2, False, COLOR),), unblocked=((k.ID_INPUT_QUEUE, 2),))
    channels = {
        (1, 1): (switched(),),
        (2, 1): (route(COLOR, WEST, RAMP),),
        (0, 1): (route(COLOR, EAST, RAMP),),
        (1, 0): (route(COLOR, SOUTH, RAMP),),
        (1, 2): (route(COLOR, NORTH, RAMP),),
    }
    program = a.program(queues=(QueueBinding(2, True, COLOR),))
    machine = launch(wafer([program, taker], [[-1, 1, -1], [1, 0, 1], [-1, 1, -1]], channels))
    places = ((0, 1), (2, 1), (1, 2), (1, 0))
    assert [int(variable(machine, "argument", *p)[0]) for p in places] == [0x11, 0x22, 0x33, 0x44]


def test_advance_switch_after_the_last_word() -> None:
    a = Assembler()
    place = a.variable("x", np.arange(1, 7, dtype=np.uint32))
    a.function("go", export=())
    for index in range(2):
        a.li(1, fabout(2, 3, advance_switch=1))
        a.li(2, mem(place + 12 * index, 3))
        a.dsd("mov32", "ds", (1, 2))
    a.unblock()
    a.ret()
    machine = star(switched(), a.program(queues=(QueueBinding(2, True, COLOR),)))
    assert got(machine, 0, 1) == [1, 2, 3]
    assert got(machine, 2, 1) == [4, 5, 6]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"kind": 0, "count_data": 1, "limit1": 14, "max_counter": 1}, [1, 2, 16, 17]),
        ({"kind": 0, "count_data": 1, "limit1": 3, "max_counter": 0, "init_counter": 2}, [3, 7, 11, 15, 19]),
        ({"kind": 2, "min_idx": 0, "max_idx": 0}, list(range(1, 21))),
    ],
)
def test_filters(fields: dict[str, int], wanted: list[int]) -> None:
    """A counter passes while it is at most max_counter and counts to limit1 inclusive."""
    words = np.arange(1, 21)
    channels = {(0, 0): (route(COLOR, RAMP, EAST),), (1, 0): (route(COLOR, WEST, RAMP, filter=fields),)}
    machine = launch(wafer([sender(words), collector()], [[0, 1]], channels))
    assert got(machine, 1, 0) == wanted


def test_range_filter_looks_at_the_index() -> None:
    words = np.array([index << 16 | 7 for index in range(10)])
    fields = {"kind": 2, "min_idx": 3, "max_idx": 5}
    channels = {(0, 0): (route(COLOR, RAMP, EAST),), (1, 0): (route(COLOR, WEST, RAMP, filter=fields),)}
    machine = launch(wafer([sender(words), collector()], [[0, 1]], channels))
    assert [word >> 16 for word in got(machine, 1, 0)] == [3, 4, 5]


def test_a_color_that_starts_in_teardown_waits_and_starts_no_handler() -> None:
    a = Assembler()
    results = a.variable("got", np.zeros(32, np.uint32))
    count = a.variable("count", np.zeros(1, np.uint16))
    closed = a.variable("closed", np.zeros(1, np.uint16))
    a.function("go", export=())
    a.li(0, 1)
    a.emit("st", 0, -1, imm=closed, type=k.T_U16)
    a.li(0, COLOR)
    a.sys("teardown_exit", b=0)
    a.unblock()
    a.ret()
    a.task("take", k.ID_DATA, 2, (k.T_U32,))
    a.emit("ld", 1, -1, imm=count, type=k.T_U16)
    a.emit("stx", 0, -1, 1, imm=results, aux=4, type=k.T_U32)
    a.emit("add", 1, 1, -1, imm=1, type=k.T_U16)
    a.emit("st", 1, -1, imm=count, type=k.T_U16)
    a.ret()
    handler = a.function("closed_down")
    a.li(0, 2)
    a.emit("st", 0, -1, imm=closed, type=k.T_U16)
    a.ret()
    program = a.program(queues=(QueueBinding(2, False, COLOR),), teardown_handlers={COLOR: handler})
    channels = {(0, 0): (route(COLOR, RAMP, EAST),), (1, 0): (route(COLOR, WEST, RAMP, teardown=True),)}
    machine = launch(wafer([sender(np.arange(1, 5)), program], [[0, 1]], channels))
    assert variable(machine, "closed", 1)[0] == 1
    assert got(machine, 1, 0) == [1, 2, 3, 4]


def test_words_wait_for_a_position_that_accepts_them() -> None:
    """A word whose port is not accepted now is held, and the deadlock report says where."""
    channels = {(0, 0): (route(COLOR, RAMP, EAST),), (1, 0): (route(COLOR, NORTH, RAMP),)}
    commands = [HostCommand(HOST_LAUNCH, "go")]
    words = np.arange(40)
    machine = build(wafer([sender(words), collector(64)], [[0, 1]], channels), commands)
    stop = run(machine)
    assert stop.kind is StopKind.DEADLOCK
    assert "launch of go" in stop.detail
    assert "does not accept" in stop.detail
    assert "WEST" in stop.detail
    assert run(machine).kind is StopKind.DEADLOCK


def test_a_word_without_a_route_is_a_fault() -> None:
    commands = [HostCommand(HOST_LAUNCH, "go")]
    machine = build(wafer([sender(np.arange(3))], [[0]], {(0, 0): (route(COLOR, RAMP, EAST),)}), commands)
    stop = run(machine)
    assert stop.kind is StopKind.FINISHED
    (hazard,) = (each for each in machine.hazards() if each.kind == "leaves-rectangle")
    assert "PE(0,0): a wavelet of color" in hazard.text
    assert "leaves the rectangle by EAST: it is dropped" in hazard.text
    channels = {(0, 0): (route(COLOR, RAMP, EAST),), (1, 0): (route(COLOR + 1, WEST, RAMP),)}
    machine = build(wafer([sender(np.arange(3)), collector()], [[0, -1]], channels), commands)
    stop = run(machine)
    assert (stop.kind, stop.unit) == (StopKind.FAULT, "PE(1,0)")


def test_a_ring_of_channels_shares_a_link_fairly() -> None:
    """Two colors over one link: each gets half of its cycles."""
    a = Assembler()
    place = a.variable("x", np.arange(64, dtype=np.uint32))
    a.function("go", export=())
    a.li(2, mem(place, 64))
    for queue in (2, 3):
        a.li(1, fabout(queue, 64))
        a.dsd("mov32", "ds", (1, 2), **{"async": 1})
    a.unblock()
    a.ret()
    b = Assembler()
    first = b.variable("first", np.zeros(64, np.uint32))
    second = b.variable("second", np.zeros(64, np.uint32))
    b.function("go", export=())
    for queue, target in ((2, first), (3, second)):
        b.li(1, fabin(queue, 64))
        b.li(2, mem(target, 64))
        b.dsd("mov32", "ds", (2, 1), **{"async": 1})
    b.unblock()
    b.ret()
    colors = (COLOR, COLOR + 1)
    programs = [
        a.program(queues=tuple(QueueBinding(2 + n, True, c) for n, c in enumerate(colors))),
        b.program(queues=tuple(QueueBinding(2 + n, False, c) for n, c in enumerate(colors))),
    ]
    channels = {
        (0, 0): tuple(route(c, RAMP, EAST) for c in colors),
        (1, 0): tuple(route(c, WEST, RAMP) for c in colors),
    }
    machine = launch(wafer(programs, [[0, 1]], channels))
    assert variable(machine, "first", 1).tolist() == list(range(64))
    assert variable(machine, "second", 1).tolist() == list(range(64))


def test_what_the_panel_asks_for() -> None:
    channels = {(0, 0): (route(COLOR, RAMP, EAST),), (1, 0): (route(COLOR, WEST, RAMP),)}
    commands = [HostCommand(HOST_LAUNCH, "go")]
    machine = build(wafer([sender(np.arange(1, 33)), collector()], [[0, 1]], channels), commands)
    for protocol in (HasFabric, HasElements, HasQueueFill, HasRoutes, HasWords, HasWordPaths):
        assert isinstance(machine, protocol)
    run(machine, 60)
    digest = machine.digest()
    whole = machine.fabric.whole
    assert (machine.fabric.columns, machine.fabric.rows) == (9, 3)
    states = machine.element_states(whole)
    assert states.shape == (3, 9)
    for column in range(9):
        assert glance_at(machine, column, 1).state == states[1, column]
    assert machine.link_loads(whole)[1, 4, 2] > 0
    assert machine.queue_fill(whole)[1, 5] > 0
    routes = machine.routes(COLOR, whole)
    assert routes["column"].tolist() == [4, 5]
    assert routes["outputs"].tolist() == [EAST, RAMP]
    words = machine.words(whole)
    assert len(set(words["id"].tolist())) == len(words) > 0
    assert (words["source_column"] == 4).all()
    path = machine.word_path(int(words["id"][0]))
    assert path is not None
    assert path.hops[0].kind == "sent"
    assert path.is_under_way
    assert machine.word_path(1 << 50) is None
    assert machine.digest() == digest
    finish(machine)
    path = machine.word_path(0)
    assert path is not None
    assert [hop.kind for hop in path.hops] == ["sent", "hop", "taken"]
    assert not path.is_under_way
    assert machine.engine.counter(sk.BAND.hops) == 32
