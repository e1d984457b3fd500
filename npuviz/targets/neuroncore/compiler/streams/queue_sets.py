"""The queue sets of a program: which purpose has which, and who triggers it."""

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

    Weights, Loads  HBM to SBUF, triggered by SP, which does nothing else: a load waits for room in SBUF
                    without keeping any computation from going on
    Stores, Copies  SBUF to HBM and HBM to HBM, triggered by Pool (Activation where there is none)
    Gathers         descriptors made by Pool

    kind  how the descriptors of all but the gathers are made. Hardware DGE serves SP and Activation only,
          software DGE is Pool's. Ref: DGE
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
        """Index of the queue set of a core."""
        return core * len(PURPOSES) + PURPOSES.index(purpose)
