"""What a NeuronCore program carries for its machine."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.tables import Tables


@dataclass(frozen=True)
class Payload:
    """The tables and the values of the graph's inputs (by name).

    is_estimated  a vendor's program: instructions stand for real ones, durations are assumed
    """

    tables: Tables
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    is_estimated: bool = False


def fingerprint(payload: Payload, graph: Graph, spec_text: str) -> str:
    """Digest of everything that decides a run: tables, machine, constants and inputs."""
    digest = hashlib.blake2b(spec_text.encode(), digest_size=16)
    tables = payload.tables
    for table in (
        tables.instructions,
        tables.sequencers,
        tables.nodes,
        tables.transfer_of,
        tables.allocations,
    ):
        digest.update(np.ascontiguousarray(table).view(np.uint8).data)
    digest.update(repr((tables.transfers, tables.queue_sets, tables.pieces)).encode())
    for variable in tables.variables:
        digest.update(f"{variable.name}:{variable.address}:{variable.size_bytes}:{variable.dtype}".encode())
        if variable.data is not None:
            digest.update(_bytes_of(variable.data))
    for name in sorted(payload.inputs):
        digest.update(name.encode())
        digest.update(_bytes_of(payload.inputs[name]))
    digest.update(repr([(node.op_type, node.inputs, node.outputs) for node in graph.nodes]).encode())
    return digest.hexdigest()


def _bytes_of(array: np.ndarray) -> bytes:
    """Bytes that stand for the values; a repeated value counts once, with its shape."""
    if array.size and not any(array.strides):
        return repr(array.shape).encode() + array.reshape(-1)[:1].tobytes()
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).tobytes()
