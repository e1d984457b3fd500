"""What connects a machine with the recorder of its trace: schema, resolver, and what is not recorded yet."""

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
    """The words of the trace that this machine writes when it runs this program."""
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
    """What a machine that stands still has under way and the trace does not hold, up to now."""
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
    """Answers the recorder's questions about instructions and memories from program and description."""

    def __init__(self, listing: Listing, memories: Sequence[Memory]) -> None:
        self._listing = listing
        self._bank_bytes = {memory.id: memory.bank_bytes for memory in memories}

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Graph node ids (int32, -1 none) of instruction indices (int64)."""
        return self._listing.nodes_of(indices)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """First written operand of each: (address int64, size_bytes int64, tensor int32)."""
        return self._listing.destinations_of(indices)

    def bank_bytes(self, memory: int) -> int:
        """Bytes of one bank of a memory."""
        return self._bank_bytes[memory]
