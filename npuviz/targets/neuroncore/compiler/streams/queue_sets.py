"""Plan the queue sets of a program: one for each core and purpose, with the engine that triggers it."""

from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet, TriggerKind

PURPOSES = ("Weights", "Loads", "Stores", "Copies", "Gathers")

_KINDS: dict[str, TriggerKind] = {
    "static": "static",
    "hardware": "hardware DGE",
    "software": "software DGE",
}
_SHORT = {Engine.SP: "SP", Engine.POOL: "Pool", Engine.ACTIVATION: "Act"}


class QueuePlan:
    """Queue sets by core and purpose. Sets that stay unused are left out of the program.

    Weights, Loads  HBM to SBUF, triggered by SP, which does nothing else, so that a load that waits for room
    in SBUF holds up no computation
    Stores, Copies  SBUF to HBM and HBM to HBM, triggered by Pool (Activation if there is none)
    Gathers         descriptors made by Pool

    kind  trigger kind of all sets but the gathers. Only SP and Activation have hardware DGE, only Pool has
    software DGE. Ref: DGE
    """

    def __init__(self, spec: NeuronSpec) -> None:
        self.kind: TriggerKind = _KINDS[spec.dge]
        loading, storing = Engine.SP, Engine.POOL if spec.has_pool else Engine.ACTIVATION
        if self.kind == "hardware DGE":
            storing = Engine.ACTIVATION
        elif self.kind == "software DGE":
            loading = Engine.POOL
        owners = (loading, loading, storing, storing, Engine.POOL)
        rings = min(spec.num_dma_engines, spec.max_queues)
        self.sets: list[QueueSet] = []
        for core in range(spec.num_cores):
            for purpose, owner in zip(PURPOSES, owners, strict=True):
                name = f"q{_SHORT[owner]}{purpose}"
                self.sets.append(QueueSet(len(self.sets), name, core, owner, rings))

    def queue(self, core: int, purpose: str) -> int:
        """Return the index of the queue set of a core and purpose."""
        return core * len(PURPOSES) + PURPOSES.index(purpose)
