"""Connects a machine with the recorder of its trace: schema, resolver, and a run from here to its end."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from npuviz.program.instruction import Listing
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription, Memory
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.stop import NO_STOPS, StopKind, StopReason
from npuviz.trace.bundle.bundle import BundleWriter
from npuviz.trace.recorder import Recorder
from npuviz.trace.schema import TraceSchema

_BUFFER_ROWS = 1 << 16
_FOREVER = 1 << 62


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


def run_recorded(machine: Machine, bundle: Path) -> StopReason:
    """Run a machine until it stops, and write the trace of that as a new bundle.

    Raises ExportError if the bundle cannot be written, and what `Machine.advance` raises.
    """
    schema = schema_of(machine.description, machine.program)
    resolver = ProgramResolver(machine.program.listing, machine.description.memories)
    recorder = Recorder(schema, resolver, BundleWriter(bundle, schema), keeps_in_memory=False)
    buffer = EventBuffer(max(_BUFFER_ROWS, machine.event_rows_per_cycle))
    while True:
        stop = machine.advance(_FOREVER, NO_STOPS, buffer)
        recorder.drain(buffer)
        recorder.mark(machine.cycle)
        if stop.kind is not StopKind.EVENTS_FULL:
            recorder.close()
            return stop
