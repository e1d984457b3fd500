"""The part of a NeuronCore program that its machine runs: tables, inputs, reference."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.program.fingerprint import Fingerprint
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.check.reference_call import ReferenceCall
from npuviz.targets.neuroncore.tables import Tables


@dataclass(frozen=True)
class Payload:
    """The tables and the values of the graph's inputs (by name).

    is_estimated  a vendor's program: instructions stand for real ones, durations are assumed
    reference     of a kernel: the call that computes the expected results
    """

    tables: Tables
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    is_estimated: bool = False
    reference: ReferenceCall | None = None


def fingerprint(payload: Payload, graph: Graph, spec_text: str) -> str:
    """Return a digest of everything that a run depends on: tables, machine, constants and inputs."""
    found = Fingerprint(spec_text)
    tables = payload.tables
    for table in (
        tables.instructions,
        tables.sequencers,
        tables.nodes,
        tables.transfer_of,
        tables.allocations,
    ):
        found.array(table)
    found.text(repr((tables.transfers, tables.queue_sets, tables.pieces)))
    for variable in tables.variables:
        found.text(f"{variable.name}:{variable.address}:{variable.size_bytes}:{variable.dtype}")
        if variable.data is not None:
            found.array(variable.data)
    found.inputs(payload.inputs)
    found.nodes(graph)
    return found.hexdigest()
