"""Hold what an RK3588 program carries for its machine, and compute a fingerprint of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.program.fingerprint import Fingerprint
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.tables import Tables


@dataclass(frozen=True)
class Payload:
    """The tables, and the values of the graph's inputs (by name).

    measured  operator name -> measured time in us, if a table of layer times lies beside the model
    """

    tables: Tables
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    measured: Mapping[str, float] = field(default_factory=dict[str, float])


def fingerprint(payload: Payload, graph: Graph, spec_text: str) -> str:
    """Return a digest of everything that decides a run: commands, buffers, machine and inputs."""
    found = Fingerprint(spec_text)
    tables = payload.tables
    for task in tables.tasks:
        found.text(repr((task.core, task.job, task.stream, task.node, task.enable_mask)))
        found.array(task.words)
    for buffer in tables.buffers:
        found.text(f"{buffer.name}:{buffer.address}:{buffer.size_bytes}:{buffer.dtype}")
        if buffer.data is not None:
            found.array(buffer.data)
    found.text(repr(tables.hosts))
    found.inputs(payload.inputs)
    found.nodes(graph)
    return found.hexdigest()
