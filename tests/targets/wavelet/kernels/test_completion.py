"""When the completion of an operation acts: with its results, later than the last step if words waited."""

from typing import Any

import numpy as np
import pytest

from npuviz.sim.stop import StopKind
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.log_numbers import LOG_ABSORBED
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand, PeProgram, QueueBinding, Wafer
from tests.targets.wavelet.assembler import EAST, RAMP, WEST, Assembler, fabin, fabout, mem, route, wafer
from tests.targets.wavelet.running import build, finish, launch, run, variable

FIRST, SECOND = 3, 4
"""Colors."""
COMPLETE = 2
"""Cycles from a step to its results (FAB)."""
WORDS = 6
LAUNCH = HostCommand(HOST_LAUNCH, "go")


def sender(*controls: bool) -> PeProgram:
    """Sends words of each color; a control word instead where `controls` says so."""
    a = Assembler()
    values = a.variable("x", np.arange(WORDS, dtype=np.uint32))
    a.function("go", export=())
    for place, is_control in enumerate(controls):
        a.li(1, fabout(2 + place, 1 if is_control else WORDS, control=int(is_control)))
        a.li(2, mem(values, 1 if is_control else WORDS))
        a.dsd("mov32", "ds", (1, 2))
    a.unblock()
    a.ret()
    bindings = tuple(QueueBinding(2 + n, True, color) for n, color in enumerate((FIRST, SECOND)))
    return a.program(queues=bindings[: len(controls)])


def wait(a: Assembler, cycles: int) -> None:
    for _ in range(cycles):
        a.emit("add", 9, 9, -1, 1)


def receive(a: Assembler, queue: int, target: int, **settings: int) -> None:
    a.li(1, mem(target, WORDS))
    a.li(2, fabin(queue, WORDS))
    a.dsd("mov32", "ds", (1, 2), **{"async": 1}, **settings)


def receiver(delay: int, words_end: bool = False) -> PeProgram:
    """Receives after so many cycles, and starts a task at the end.

    words_end  the end is a control word, the first one; else the operation's length
    """
    a = Assembler()
    target = a.variable("x", np.zeros(WORDS, np.uint32))
    a.function("go", export=())
    wait(a, delay)
    a.li(3, 9)
    settings = {"control": 2, "control_id": 3} if words_end else {"activate": 3}
    receive(a, 2, target, **settings)
    a.ret()
    a.task("received", k.ID_LOCAL, 9)
    a.unblock()
    a.ret()
    return a.program(queues=(QueueBinding(2, False, FIRST),))


def pair(first: PeProgram, second: PeProgram) -> Wafer:
    channels = {
        (0, 0): (route(FIRST, RAMP, EAST), route(SECOND, RAMP, EAST)),
        (1, 0): (route(FIRST, WEST, RAMP), route(SECOND, WEST, RAMP)),
    }
    return wafer([first, second], [[0, 1]], channels)


def block_of(machine: WaveletMachine) -> Any:
    return sk.BLOCK(machine.engine.state, machine.observer.block(1))


def lag(machine: WaveletMachine, number: int = 2) -> tuple[int, int]:
    """Run: cycles from a microthread's last step to what its completion does, and the cycle of the latter."""
    while not machine.is_finished:
        run(machine, machine.cycle + 1)
        block = block_of(machine)
        if int(block.active) >> 9 & 1 or int(block.task) == k.ID_LOCAL << 16 | 9:
            last = int(machine.observer.thread(1, number)[sk.THREAD.ended]) - 1
            acts = machine.cycle - 1
            finish(machine)
            return acts - last, acts
    raise AssertionError("nothing was activated")


DELAYS = range(40)


@pytest.mark.parametrize("words_end", [False, True])
def test_it_acts_with_the_last_word_if_the_operation_waited_and_with_the_results_if_words_did(
    words_end: bool,
) -> None:
    machines = [build(pair(sender(words_end), receiver(delay, words_end)), [LAUNCH]) for delay in DELAYS]
    lags, acts = zip(*(lag(machine) for machine in machines), strict=True)
    assert set(lags) == set(range(COMPLETE + 1))
    assert list(lags) == sorted(lags)
    # A receive that begins later ends no earlier.
    assert list(acts) == sorted(acts)
    if not words_end:
        assert variable(machines[-1], "x", 1).tolist() == list(range(WORDS))


def test_an_operation_without_words_acts_with_its_results() -> None:
    a = Assembler()
    values = a.variable("x", np.arange(8, dtype=np.uint32))
    target = a.variable("y", np.zeros(8, np.uint32))
    a.function("go", export=())
    a.li(1, mem(target, 8))
    a.li(2, mem(values, 8))
    a.li(3, 9)
    a.li(4, 5)
    a.dsd("mov32", "ds", (1, 2), activate=3, ut=4, **{"async": 1})
    a.ret()
    a.task("copied", k.ID_LOCAL, 9)
    a.unblock()
    a.ret()
    assert lag(build(pair(Assembler().program(), a.program()), [LAUNCH]), 5)[0] == COMPLETE


def counter(filler: int) -> PeProgram:
    """Two receives whose words are there start the same task; the task before it ends some cycles later."""
    a = Assembler()
    places = [a.variable(name, np.zeros(WORDS, np.uint32)) for name in ("x", "y")]
    a.function("go", export=())
    wait(a, 60)
    a.unblock()
    a.li(3, 9)
    for queue, place in enumerate(places, 2):
        receive(a, queue, place, activate=3)
    wait(a, filler)
    a.ret()
    a.task("count", k.ID_LOCAL, 9)
    a.ret()
    return a.program(queues=(QueueBinding(2, False, FIRST), QueueBinding(3, False, SECOND)))


def test_a_task_that_may_begin_does_so_before_a_completion_of_its_cycle_activates_it_again() -> None:
    ties = 0
    for filler in range(20):
        machine = finish(build(pair(sender(False, False), counter(filler)), [LAUNCH]))
        acts = int(machine.observer.thread(1, 3)[sk.THREAD.ended]) - 1 + COMPLETE
        absorbed = [cycle for cycle, _, kind, _, _ in machine.engine.log_rows() if kind == LOG_ABSORBED]
        runs = int(block_of(machine).task_count) - 1
        assert runs == 2 - len(absorbed)
        assert absorbed in ([], [acts])
        ties += not absorbed
    # With more to do behind the receives, the second activation is one with the first.
    assert 0 < ties < 20


def again(filler: int) -> PeProgram:
    """A microthread gets an operation while the completion of its last one may have yet to act."""
    a = Assembler()
    places = [a.variable(name, np.zeros(WORDS, np.uint32)) for name in ("x", "y")]
    a.function("go", export=())
    wait(a, 60)
    a.li(3, 9)
    a.li(4, 10)
    a.li(5, 2)
    receive(a, 2, places[0], activate=3, ut=5)
    wait(a, filler)
    receive(a, 3, places[1], activate=4, ut=5)
    a.ret()
    seen = a.variable("seen", np.zeros(2, np.uint16))
    for place, number in enumerate((9, 10)):
        a.task(f"received_{number}", k.ID_LOCAL, number)
        a.emit("ld", 6, -1, imm=seen + 2 * place)
        a.emit("add", 6, 6, -1, 1)
        a.emit("st", 6, -1, imm=seen + 2 * place)
        if place:
            a.unblock()
        a.ret()
    return a.program(queues=(QueueBinding(2, False, FIRST), QueueBinding(3, False, SECOND)))


@pytest.mark.parametrize("filler", range(12))
def test_no_completion_is_lost_when_its_thread_goes_on(filler: int) -> None:
    machine = launch(pair(sender(False, False), again(filler)))
    assert variable(machine, "seen", 1).tolist() == [1, 1]
    for name in "xy":
        assert variable(machine, name, 1).tolist() == list(range(WORDS))


@pytest.mark.parametrize("filler", [0, 3])
def test_a_state_in_between_goes_on_as_the_run_did(filler: int) -> None:
    wafer_ = pair(sender(False, False), again(filler))
    straight, other = build(wafer_, [LAUNCH]), build(wafer_, [LAUNCH])
    snapshots = [straight.snapshot()]
    pending = 0
    while not straight.is_finished:
        pending += straight.observer.block(1) > 0 and int(block_of(straight).timed) >> sk.ENDED != 0
        run(straight, straight.cycle + 1)
        snapshots.append(straight.snapshot())
    assert pending > 0
    for snapshot in snapshots[:-1]:
        other.restore(snapshot)
        assert run(other).kind is StopKind.FINISHED
        assert (other.cycle, other.digest()) == (straight.cycle, straight.digest())
