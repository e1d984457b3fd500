"""What a machine has beyond units and queues, by name: panels and layouts ask for it."""

from types import UnionType

from npuviz.program.source import HasSource
from npuviz.sim.fabric import HasFabric
from npuviz.sim.machine import ChecksMemory, HasHazards, HasSemaphores, Machine

CONTRACTS: dict[str, type | UnionType] = {
    "semaphores": HasSemaphores,
    "hazards": HasHazards | ChecksMemory,
    "routed fabric": HasFabric,
}
"""Features that follow from what a machine can be asked, so that its description need not say so."""


def features_of(machine: Machine | None) -> frozenset[str]:
    """Names of the features of a machine: those of its description, and those of its contracts."""
    if machine is None:
        return frozenset()
    found = {name for name, contract in CONTRACTS.items() if isinstance(machine, contract)}
    listing = machine.program.listing
    if isinstance(listing, HasSource) and listing.sources:
        found.add("source text")
    return frozenset(machine.description.features) | found
