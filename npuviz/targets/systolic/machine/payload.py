"""The payload of a systolic program for its machine."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import RequestPlan, SystolicTables


@dataclass(frozen=True)
class Payload:
    """The kernels' tables, values of the graph's inputs (by name; empty in parity mode), and the requests."""

    tables: SystolicTables
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    requests: tuple[RequestPlan, ...] = ()


def fingerprint(payload: Payload, graph: Graph, spec_text: str) -> str:
    """Compute a digest of everything that decides a run: tables, machine, weights and inputs."""
    digest = hashlib.blake2b(spec_text.encode(), digest_size=16)
    tables = payload.tables
    for table in (tables.code, tables.tiles, tables.layers, tables.entries, tables.launches, tables.edges):
        digest.update(np.ascontiguousarray(table).data)
    named = {graph.tensors[index].name: values for index, values in graph.constants.items()}
    for name, values in sorted({**named, **payload.inputs}.items()):
        digest.update(f"{name}{values.shape}{values.dtype}".encode())
        # A weight of one repeated value takes no memory, and shall take none here.
        repeated = values.size > 0 and not any(values.strides)
        digest.update((values.reshape(-1)[:1] if repeated else np.ascontiguousarray(values)).tobytes())
    return digest.hexdigest()


def pack_entries(tables: SystolicTables) -> SystolicTables:
    """Give the entries of every layer separate places, one after the other.

    ONNXim's addresses are mere keys that overlap; a memory map needs places.
    """
    entries = tables.entries.copy()
    for layer in tables.layers:
        first = int(layer[tk.LAYER.entry])
        for count in (int(layer[tk.LAYER.spad_entries]), int(layer[tk.LAYER.acc_entries])):
            sizes = entries[first : first + count, tk.ENTRY_ROOM.size]
            entries[first : first + count, tk.ENTRY_ROOM.address] = np.cumsum(sizes) - sizes
            first += count
    entries.setflags(write=False)
    return replace(tables, entries=entries)
