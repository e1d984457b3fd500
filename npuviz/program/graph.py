"""The operator graph: nodes in an order in which they can run, tensors between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuviz.program.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Node:
    """One operator.

    id          index in `Graph.nodes`
    inputs      tensor ids, -1 where an optional input is absent
    attributes  plain values: int, float, str, bytes, lists of them, or numpy arrays
    """

    id: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in topological order and the tensors they exchange.

    constants  tensor id -> array of the tensor's shape and type, read-only; every tensor of kind
               "weight" has an entry
    source     the serialised ONNX ModelProto the graph came from (shapes fixed, functions
               inlined), for reference execution; empty when it did not come from ONNX
    """

    name: str
    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])
    opsets: Mapping[str, int] = field(default_factory=dict[str, int])
    source: bytes = b""

    def consumers(self) -> dict[int, list[int]]:
        """Tensor id -> ids of the nodes that read it, in node order."""
        found: dict[int, list[int]] = {tensor.id: [] for tensor in self.tensors}
        for node in self.nodes:
            for tensor in node.inputs:
                if tensor >= 0 and node.id not in found[tensor]:
                    found[tensor].append(node.id)
        return found
