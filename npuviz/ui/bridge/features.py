"""Name the features of a machine beyond units and queues, by which panels and layouts are chosen."""

from types import UnionType

from npuviz.program.source import HasSource
from npuviz.sim.access_order import HasAccessOrder, RecordsAccesses
from npuviz.sim.check_result import HasReference
from npuviz.sim.fabric import HasFabric
from npuviz.sim.machine import ChecksMemory, HasHazards, HasSemaphores, Machine
from npuviz.trace.reader import TraceReader

CONTRACTS: dict[str, type | UnionType] = {
    "access order": HasAccessOrder | RecordsAccesses,
    "semaphores": HasSemaphores,
    "hazards": HasHazards | ChecksMemory,
    "routed fabric": HasFabric,
}
"""Feature -> interface: a machine that implements it has the feature without naming it in its description."""


def features_of(machine: Machine | None, reader: TraceReader | None = None) -> frozenset[str]:
    """Return the names of a machine's features: from its description, interfaces, program and trace."""
    tracks = reader.schema.tracks if reader is not None else ()
    recorded = {"counters"} if any(track.kind == "counter" for track in tracks) else set[str]()
    if machine is None:
        return frozenset(recorded)
    found = {name for name, contract in CONTRACTS.items() if isinstance(machine, contract)} | recorded
    program, listing = machine.program, machine.program.listing
    if program.graph.source or (isinstance(program.payload, HasReference) and program.payload.reference):
        found.add("reference")
    if isinstance(listing, HasSource) and listing.sources:
        found.add("source text")
    return frozenset(machine.description.features) | found
