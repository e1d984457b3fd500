"""Moves DequantizeLinear of a table behind the Gather that reads it, so that only the read rows become
floats."""

import onnx

from npuviz.onnx.draft import Draft
from npuviz.onnx.node_order import names_read, replace_nodes


def read_rows_first(draft: Draft) -> None:
    """Swap DequantizeLinear of a weight and the Gather behind it, in place.

    Only for weights with one scale; the results are equal element by element.
    """
    graph = draft.proto.graph
    tables = {node.output[0]: node for node in graph.node if _is_of_one_scale(draft, node)}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        table = tables.get(node.input[0]) if node.op_type == "Gather" and node.domain == "" else None
        if table is None:
            nodes.append(node)
            continue
        rows = onnx.NodeProto.FromString(node.SerializeToString())
        rows.input[0], rows.output[0] = table.input[0], f"{node.output[0]}__stored"
        floats = onnx.NodeProto.FromString(table.SerializeToString())
        floats.name = f"{node.name or node.output[0]}__floats"
        floats.input[0], floats.output[0] = rows.output[0], node.output[0]
        nodes += [rows, floats]
    if len(nodes) == len(graph.node):
        return
    replace_nodes(graph, nodes)
    read = names_read(graph)
    left = [name for name in tables if name not in read]
    replace_nodes(graph, [node for node in graph.node if node.output[0] not in left])


def _is_of_one_scale(draft: Draft, node: onnx.NodeProto) -> bool:
    """Return whether a node dequantises a weight with a single scale."""
    if node.op_type != "DequantizeLinear" or not all(name in draft.weights for name in node.input):
        return False
    return draft.weights[node.input[1]].size == 1
