"""Builds and runs hand-written wafers, for tests of the machine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npuviz.sim.stop import NO_STOPS, StopKind, StopReason
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.target import TARGET
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand, Wafer
from tests.targets.wavelet.assembler import Assembler, mem, wafer


def build(wafer_: Wafer, commands: Sequence[HostCommand] = (), **settings: str) -> WaveletMachine:
    machine = TARGET.build(*make_program(wafer_, commands, "test", settings))
    assert isinstance(machine, WaveletMachine)
    return machine


def run(machine: WaveletMachine, until: int = 1 << 40) -> StopReason:
    return machine.advance(until, NO_STOPS, None)


def finish(machine: WaveletMachine) -> WaveletMachine:
    stop = run(machine)
    assert stop.kind is StopKind.FINISHED, stop
    return machine


def launch(wafer_: Wafer, **settings: str) -> WaveletMachine:
    """Run function "go" on every PE to the end."""
    return finish(build(wafer_, [HostCommand(HOST_LAUNCH, "go")], **settings))


def variable(machine: WaveletMachine, name: str, column: int = 0, row: int = 0) -> np.ndarray:
    program = machine.wafer.programs[int(machine.wafer.program_of[row, column])]
    symbol = next(s for s in program.symbols if s.name == name)
    return np.frombuffer(machine.read_symbol(column, row, symbol), symbol.dtype).reshape(symbol.shape)


def compute(name: str, forms: str, *operands: Any, dtype: Any, half: int | None = None) -> np.ndarray:
    """Run one DSD operation on one PE; operands are arrays or the bits of scalars."""
    a = Assembler()
    count = max(len(o) for o in operands if isinstance(o, np.ndarray))
    target = a.variable("result", np.zeros(1 if forms[0] == "p" else count, dtype))
    places = [a.variable(f"v{n}", o) if isinstance(o, np.ndarray) else o for n, o in enumerate(operands)]
    a.function("go", export=())
    a.li(0, target if forms[0] == "p" else mem(target, count))
    for register, (letter, place) in enumerate(zip(forms[1:], places, strict=True), 1):
        a.li(register, mem(place, count) if letter == "s" else place)
    a.dsd(name, forms, tuple(range(len(forms))))
    a.unblock()
    a.ret()
    program = a.program() if half is None else replace(a.program(), half=half)
    return variable(launch(wafer([program], [[0]])), "result")
