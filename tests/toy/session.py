"""Sessions over the toy machine, with a recorder, for tests of everything above the machine."""

from collections.abc import Callable, Iterator
from itertools import count

from npuviz.debug.session import Session
from npuviz.sim.machine import Machine
from npuviz.trace.recorder import Recorder
from npuviz.workbench.recording import ProgramResolver, schema_of
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
    clock: Callable[[], float] | None = None,
    **sizes: int,
) -> Session:
    """A session at cycle 0 of a toy run; 8 blocks take 767 cycles, 128 instructions."""
    machine = make_machine(ToySpec(blocks=blocks, **sizes))
    recorder = make_recorder(machine) if records else None
    if clock is None:
        return Session(machine, recorder, budget_bytes)
    return Session(machine, recorder, budget_bytes, clock)


def ticking_clock(seconds: float = 0.004) -> Callable[[], float]:
    """A clock that moves by itself at each look: checkpoints then do not depend on the computer."""
    ticks: Iterator[int] = count()
    return lambda: next(ticks) * seconds
