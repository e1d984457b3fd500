"""Sessions over the toy machine, with a recorder, for tests of everything above the machine."""

from npuviz.debug.session import Session
from npuviz.sim.machine import Machine
from npuviz.sim.recording import ProgramResolver, schema_of
from npuviz.trace.recorder import Recorder
from tests.toy.program import ToySpec
from tests.toy.target import make_machine


def make_recorder(machine: Machine) -> Recorder:
    """An in-memory recorder for a machine."""
    resolver = ProgramResolver(machine.program.listing, machine.description.memories)
    return Recorder(schema_of(machine.description, machine.program), resolver)


def make_session(
    blocks: int = 8,
    *,
    records: bool = True,
    budget_bytes: int = 64 << 20,
    cycle_seconds: float = 0.0,
    **sizes: int,
) -> Session:
    """A session at cycle 0 of a toy run; 8 blocks take 767 cycles, 128 instructions.

    cycle_seconds  if not 0, a simulated cycle takes this long by the session's clock, so that
                   slices and checkpoints do not depend on the computer
    """
    machine = make_machine(ToySpec(blocks=blocks, **sizes))
    recorder = make_recorder(machine) if records else None
    if not cycle_seconds:
        return Session(machine, recorder, budget_bytes)
    return Session(machine, recorder, budget_bytes, CycleClock(machine, cycle_seconds))


class CycleClock:
    """A clock that moves only while the machine simulates."""

    def __init__(self, machine: Machine, cycle_seconds: float) -> None:
        self._machine = machine
        self._cycle_seconds = cycle_seconds
        self._last = machine.cycle
        self._cycles = 0

    def __call__(self) -> float:
        now = self._machine.cycle
        self._cycles += max(0, now - self._last)
        self._last = now
        return self._cycles * self._cycle_seconds
