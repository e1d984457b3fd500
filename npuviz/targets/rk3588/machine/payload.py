"""What an RK3588 program carries for its machine."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.rk3588.tables import Tables


@dataclass(frozen=True)
class Payload:
    """The tables, and the values of the graph's inputs (by name).

    measured  operator name -> measured time in us, where a table of layer times lies beside the model
    """

    tables: Tables
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    measured: Mapping[str, float] = field(default_factory=dict[str, float])


def fingerprint(payload: Payload, graph: Graph, spec_text: str) -> str:
    """Digest of everything that decides a run: commands, buffers, machine and inputs."""
    digest = hashlib.blake2b(spec_text.encode(), digest_size=16)
    tables = payload.tables
    for task in tables.tasks:
        place = (task.core, task.job, task.stream, task.node, task.enable_mask)
        digest.update(repr(place).encode())
        digest.update(np.ascontiguousarray(task.words).tobytes())
    for buffer in tables.buffers:
        digest.update(f"{buffer.name}:{buffer.address}:{buffer.size_bytes}:{buffer.dtype}".encode())
        if buffer.data is not None:
            digest.update(np.ascontiguousarray(buffer.data).tobytes())
    digest.update(repr(tables.hosts).encode())
    for name in sorted(payload.inputs):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(payload.inputs[name]).tobytes())
    digest.update(repr([(node.op_type, node.inputs, node.outputs) for node in graph.nodes]).encode())
    return digest.hexdigest()
