"""Compute slope and offset by channel of a BatchNormalization with constant parameters."""

import numpy as np

from npuviz.program.graph import Graph, Node


def is_known(graph: Graph, node: Node) -> bool:
    """Return whether the node is a BatchNormalization at inference whose parameters are all constants."""
    return (
        node.op_type == "BatchNormalization"
        and not int(node.attributes.get("training_mode", 0))
        and all(tensor in graph.constants for tensor in node.inputs[1:5])
        and not any(tensor >= 0 for tensor in node.outputs[1:])
        and len(graph.tensors[node.inputs[0]].shape) > 1
    )


def slope_and_offset(graph: Graph, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Return (slope, offset) as fp32 of shape (channels, 1, ...), to be broadcast over the input."""
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    gain, shift, mean, variance = (np.asarray(graph.constants[t], np.float64) for t in node.inputs[1:5])
    slope = gain / np.sqrt(variance + epsilon)
    offset = shift - mean * slope
    shape = (-1, *(1,) * (len(graph.tensors[node.inputs[0]].shape) - 2))
    return slope.astype(np.float32).reshape(shape), offset.astype(np.float32).reshape(shape)


def parameter_keys(node: Node) -> tuple[int, int]:
    """Return negative ids for slope and offset, which differ from all tensor ids."""
    return -2 - 2 * node.id, -3 - 2 * node.id
