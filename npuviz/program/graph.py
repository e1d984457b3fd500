"""The operator graph: nodes in an order in which they can run, tensors between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.program.tensor import Tensor

NEWEST_OPSET = 1 << 30
"""Stands for the newest known version of an operator set."""


FUNCTION = "function"
"""Operator type of a node that stands for a function of code, not an operator;
its meaning is the program's own."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator.

    id          index in `Graph.nodes`
    inputs      tensor ids, -1 for an absent optional input; a node with subgraphs ends with the
                outer tensors its subgraphs read, `attributes["captured_inputs"]` of them
    outputs     tensor ids, -1 for an absent optional output before the last one
    attributes  plain values: int, float, str, bytes, lists of them, or numpy arrays; a subgraph is
                the bytes of its GraphProto
    opset       version of the operator set that defines the operator
    """

    id: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    opset: int = field(default=NEWEST_OPSET, compare=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """An arrow between nodes whose inputs and outputs are not listed as tensors, such as lines of a kernel.

    source, sink  ids of nodes, source < sink; -1 for a graph input or output, which `tensor` names
    tensor        id of what flows, -1 for data on the chip; text  its name
    """

    source: int
    sink: int
    tensor: int = -1
    text: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in topological order and the tensors they exchange.

    constants  tensor id -> array of the tensor's shape and type, read-only; every tensor of kind
               "weight" has an entry. Arrays may have zero strides (one repeated value) or be mapped
               from a file: copy before handing them to code that wants contiguous memory
    source     the serialised ONNX ModelProto the graph came from (shapes fixed, functions
               inlined), for reference execution; empty when it did not come from ONNX. Large
               weights are left out of it and taken from `constants`: open it with
               onnx.reference
    assumptions  what the reader had to assume, one sentence each
    file       the ONNX file that the graph was read from, None without one; its outputs must be the graph's
    flows      arrows beside those from the outputs of nodes to inputs of others
    """

    name: str
    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])
    opsets: Mapping[str, int] = field(default_factory=dict[str, int])
    source: bytes = b""
    assumptions: tuple[str, ...] = ()
    file: Path | None = None
    flows: tuple[Flow, ...] = ()

    def consumers(self) -> dict[int, list[int]]:
        """Return, for each tensor id, the ids of the nodes that read it, in node order."""
        found: dict[int, list[int]] = {tensor.id: [] for tensor in self.tensors}
        for node in self.nodes:
            for tensor in node.inputs:
                if tensor >= 0 and node.id not in found[tensor]:
                    found[tensor].append(node.id)
        return found
