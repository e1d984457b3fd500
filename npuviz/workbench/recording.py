"""Connects a machine with the recorder of its trace: schema, resolver, and work that is not recorded yet."""

from collections.abc import Sequence

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription, Memory
from npuviz.sim.machine import Machine
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import TraceSchema
from npuviz.trace.unit_times import UnderWay


def schema_of(description: MachineDescription, program: Program) -> TraceSchema:
    """Return the schema of the trace that a machine writes when it runs a program."""
    graph = program.graph
    return TraceSchema(
        tracks=description.tracks,
        kinds=description.kinds,
        node_names=tuple(node.name for node in graph.nodes),
        node_types=tuple(node.op_type for node in graph.nodes),
        tensor_names=tuple(tensor.name for tensor in graph.tensors),
        memory_names=tuple((memory.name, memory.size_bytes) for memory in description.memories),
        frequency_hz=description.base_clock.frequency_hz,
        title=program.title,
        target=description.target,
    )


def under_way(machine: Machine | None, reader: TraceReader | None) -> list[UnderWay]:
    """Return the work of a paused machine that is under way and not in the trace, cut off at the current
    cycle."""
    if machine is None or reader is None:
        return []
    found, now = machine.activities(), machine.cycle
    is_known = reader.has_starts([each.track for each in found], [each.start for each in found])
    return [
        UnderWay(track, start, now if planned < 0 else min(planned, now), kind, node, instruction)
        for (track, start, planned, kind, node, instruction), known in zip(found, is_known, strict=True)
        if not known
    ]


class ProgramResolver:
    """Looks up nodes, destinations and bank sizes for the recorder, from program and description."""

    def __init__(self, listing: Listing, memories: Sequence[Memory]) -> None:
        self._listing = listing
        self._bank_bytes = {memory.id: memory.bank_bytes for memory in memories}

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the graph node ids (int32, -1 none) of instruction indices (int64)."""
        return self._listing.nodes_of(indices)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first written operand of each instruction: (address int64, size_bytes int64, tensor
        int32)."""
        return self._listing.destinations_of(indices)

    def bank_bytes(self, memory: int) -> int:
        """Return the size of one bank of a memory in bytes."""
        return self._bank_bytes[memory]
