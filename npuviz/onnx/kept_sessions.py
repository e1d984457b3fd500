"""Sessions of single nodes in ONNX Runtime, kept by what the nodes are: a large network repeats few."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import onnx

from npuviz.base.errors import FormatError
from npuviz.onnx.reference import ReferenceSession
from npuviz.onnx.semantics.operators import draws
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

MOST_KEPT = 256
MOST_MODEL_BYTES = 1 << 14
"""Of a node with its stored inputs; larger ones are opened each time."""
_NAMELESS = ("Loop", "If", "Scan", "SequenceMap")
"""Operators with graphs inside, which read tensors by name."""


def run_kept(
    graph: Graph, node: Node, arrays: Mapping[int, np.ndarray], single: Graph
) -> list[np.ndarray] | None:
    """Results of a node in the order of `single`'s outputs, in a session that nodes of the same operator,
    attributes, types and shapes share. None where the node cannot be told from others by these, or the run
    fails: the failure would not name it.

    single  the node as a graph of its own
    """
    if node.op_type in _NAMELESS or draws(graph, node) or len(single.source) > MOST_MODEL_BYTES:
        return None
    places = {
        index: place for place, index in enumerate((*single.inputs, *single.constants, *single.outputs))
    }
    try:
        session = _session_of(
            _renamed(single, places),
            tuple((single.tensors[index].dtype, single.tensors[index].shape) for index in places),
            (len(single.inputs), len(single.outputs)),
        )
        return session.run({_name(places[index]): arrays[index] for index in single.inputs})
    except FormatError:
        return None


def _name(place: int) -> str:
    return f"t{place}"


def _renamed(single: Graph, places: Mapping[int, int]) -> bytes:
    """The model of one node with tensors called after their places."""
    names = {single.tensors[index].name: _name(place) for index, place in places.items()}
    model = onnx.ModelProto.FromString(single.source)
    graph = model.graph
    graph.name = graph.node[0].name = "node"
    for field in (graph.node[0].input, graph.node[0].output):
        field[:] = [names.get(name, name) for name in field]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names[value.name]
    return model.SerializeToString(deterministic=True)


@lru_cache(maxsize=MOST_KEPT)
def _session_of(
    source: bytes, types: tuple[tuple[str, tuple[int, ...]], ...], counts: tuple[int, int]
) -> ReferenceSession:
    """A session of a model.

    types   type and shape of each tensor: inputs, constants, outputs;  counts  of inputs and outputs
    """
    tensors = tuple(
        Tensor(place, _name(place), shape, dtype, "activation") for place, (dtype, shape) in enumerate(types)
    )
    inputs, outputs = (tuple(range(counts[0])), tuple(range(len(types) - counts[1], len(types))))
    graph = Graph("node", (), tensors, inputs, outputs, source=source)
    return ReferenceSession(graph, outputs)
