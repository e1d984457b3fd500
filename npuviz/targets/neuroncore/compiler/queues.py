"""The queue sets of a program: which purpose has which, and who triggers it."""

from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet

PURPOSES = ("Weights", "Loads", "Stores", "Copies", "Gathers")


class QueuePlan:
    """Queue sets by core and purpose. Sets that stay unused are left out of the program.

    Weights, Loads  HBM to SBUF, triggered by SP, which does nothing else: a load waits for room in SBUF
                    without keeping any computation from going on
    Stores, Copies  SBUF to HBM and HBM to HBM, triggered by Pool (Activation where there is none)
    Gathers         descriptors made by Pool
    """

    def __init__(self, spec: NeuronSpec) -> None:
        storing = Engine.POOL if spec.has_pool else Engine.ACTIVATION
        self._owners = (Engine.SP, Engine.SP, storing, storing, Engine.POOL)
        self._num_purposes = len(PURPOSES)
        rings = min(spec.num_dma_engines, spec.max_queues)
        self.sets: list[QueueSet] = []
        for core in range(spec.num_cores):
            for purpose, owner in zip(PURPOSES, self._owners, strict=True):
                name = f"q{_SHORT[owner]}{purpose}"
                self.sets.append(QueueSet(len(self.sets), name, core, owner, rings))

    def queue(self, core: int, purpose: str) -> int:
        """Index of the queue set of a core."""
        return core * self._num_purposes + PURPOSES.index(purpose)

    def owner(self, purpose: str) -> Engine:
        """The engine that triggers the transfers of a purpose."""
        return self._owners[PURPOSES.index(purpose)]


_SHORT = {Engine.SP: "SP", Engine.POOL: "Pool", Engine.ACTIVATION: "Act"}
