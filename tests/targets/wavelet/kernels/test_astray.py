"""What registers hold is known when a program runs: kernels stop at a fault before it leads them astray."""

import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.sim.stop import StopKind
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, Fifo, HostCommand, QueueBinding
from tests.targets.wavelet.assembler import RAMP, Assembler, fabin, fabout, mem, route, wafer
from tests.targets.wavelet.running import build, run

HIGHEST = (1 << 63) - 1
COLOR = 5


def fault_of(a: Assembler, channels=(), **others) -> str:
    """How a program ends that function "go" starts; the state of its neighbours is as it was."""
    program = a.program(**others)
    machine = build(
        wafer([program], [[0, 0]], {(0, 0): channels, (1, 0): channels} if channels else None),
        [HostCommand(HOST_LAUNCH, "go", (0, 0, 1, 1))],
    )
    stop = run(machine, 5000)
    assert stop.kind is StopKind.FAULT, stop
    return stop.detail


@pytest.mark.parametrize("address", [HIGHEST, HIGHEST - 2, -1, -HIGHEST, 1 << 40])
@pytest.mark.parametrize("name", ["ld", "st", "copy", "fill"])
def test_addresses_may_be_any_word(name, address):
    a = Assembler()
    a.function("go", export=())
    a.li(1, address)
    a.emit(name, 1 if name in ("copy", "fill") else 0, 1, aux=8, type=k.T_U32)
    a.ret()
    assert "outside the PE's memory" in fault_of(a)


def test_calls_of_values_count_their_arguments():
    a = Assembler()
    a.function("go", export=())
    a.li(1, 1)
    a.emit("calli", -1, 2, 12, aux=1)
    a.ret()
    a.function("few", num_regs=2)
    a.ret()
    assert "function 1 takes fewer arguments" in fault_of(a)


@pytest.mark.parametrize("name", ["fifo_read_length", "fifo_write_length"])
def test_fifos_that_are_none(name):
    a = Assembler()
    a.function("go", export=())
    a.li(1, isa.pack(k.KIND_FIFO, base=60_000))
    a.li(2, 7)
    a.sys(name, -1, 1, 2)
    a.ret()
    assert "no descriptor" in fault_of(a, fifos=(Fifo("f", 0, 8),))


@pytest.mark.parametrize("size", [0, 3])
def test_a_fifo_at_the_end_of_the_memory_does_not_go_beyond_it(size):
    a = Assembler()
    a.function("go", export=())
    a.li(1, isa.pack(k.KIND_FIFO, base=0))
    a.li(2, isa.pack(k.KIND_FIFO, base=0))
    a.dsd("mov16", "dv", (1, 2))
    a.dsd("mov16", "ds", (1, 1))
    a.dsd("mov32", "dv", (1, 2))
    a.li(1, 1 << 40)
    a.emit("ld", 0, 1)
    a.ret()
    program = {"memory_bytes": 512, "fifos": (Fifo("f", 512 - size, size, 1, 1),)}
    assert "outside the PE's memory" in fault_of(a, **program)


def test_a_file_of_descriptors_that_there_is_not():
    a = Assembler()
    a.function("go", export=())
    a.li(1, isa.pack(k.KIND_DSR, dsr_file=3, dsr_id=15))
    a.emit("dsr_load", 0, 0, 1, imm=-1)
    a.dsd("mov16", "dv", (1, 2))
    a.ret()
    assert "no DSR" in fault_of(a)


def test_a_priority_that_there_is_not_is_the_lowest():
    a = Assembler()
    a.function("go", export=())
    a.li(1, fabout(2, 1, priority=3))
    a.dsd("mov32", "dv", (1, 2), **{"async": 1})
    a.unblock()
    a.ret()
    program = a.program(queues=(QueueBinding(2, True, COLOR),))
    channels = {(0, 0): (route(COLOR, RAMP, 0),)}
    machine = build(wafer([program], [[0]], channels), [HostCommand(HOST_LAUNCH, "go")])
    assert run(machine, 5000).kind is StopKind.FINISHED


def test_cursors_that_nobody_opened():
    a = Assembler()
    a.function("go", export=())
    a.emit("map_read", 0, 3)
    a.emit("map_write", 0, 3)
    a.li(1, 1 << 40)
    a.emit("ld", 0, 1)
    a.ret()
    assert "outside the PE's memory" in fault_of(a)


def test_a_cursor_of_a_queue_that_is_not_bound():
    a = Assembler()
    a.function("go", export=())
    a.li(1, fabin(7, 4))
    a.emit("map_open", 0, 1, type=k.T_U32)
    a.ret()
    assert "input queue 7 has no color" in fault_of(a)


def test_an_operation_that_reads_a_queue_twice():
    a = Assembler()
    place = a.variable("x", np.ones(1, np.uint32))
    a.function("go", export=())
    a.li(1, fabout(2, 1))
    a.li(2, mem(place, 1))
    a.dsd("mov32", "ds", (1, 2))
    a.li(3, fabin(2, 1))
    a.dsd("fadds", "dss", (2, 3, 3))
    a.ret()
    bound = (QueueBinding(2, True, COLOR), QueueBinding(2, False, COLOR))
    assert "input queue 2 is empty" in fault_of(a, (route(COLOR, RAMP, RAMP),), queues=bound)


def test_dfilt_without_a_queue():
    a = Assembler()
    place = a.variable("x", np.ones(4, np.uint32))
    a.function("go", export=())
    a.li(1, mem(place, 4))
    a.dsd("dfilt", "ds", (1, 1))
    a.ret()
    assert "dfilt has no source" in fault_of(a)


def test_a_launch_gives_no_more_arguments_than_the_function_takes():
    a = Assembler()
    a.function("go", export=(k.T_U32,))
    a.ret()
    with pytest.raises(UsageError, match="go: expected 1 arguments, found 200"):
        build(wafer([a.program()], [[0]]), [HostCommand(HOST_LAUNCH, "go", data=np.zeros(200, np.uint32))])
