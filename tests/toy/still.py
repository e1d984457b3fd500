"""A toy whose contents another thread may ask for while it goes on."""

from npuviz.sim.machine import Machine
from tests.toy.machine import ToyMachine
from tests.toy.program import ToySpec, make_program


class StillToy(ToyMachine):
    def still_memories(self) -> ToyMachine:
        """A second machine in the same state."""
        still = ToyMachine(self._spec, self._program)
        still.restore(self.snapshot())
        return still


def make_still_toy(**sizes: int) -> Machine:
    """A machine at cycle 0."""
    spec = ToySpec(**sizes)
    return StillToy(spec, make_program(spec, {}, "toy"))
