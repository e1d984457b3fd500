"""Leaves out what has no elements and nobody uses: inputs of Resize, and parts of a Split.

A Resize has sizes or scales; what is not used may be left out, or be empty. Checkers of single nodes take
an empty constant for one that is used. A Split in the standard's body of RotaryEmbedding cuts off what is not
rotated, which most models have none of; machines have no tensors without elements.
"""

from collections.abc import Collection

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.node_order import names_read

_OPTIONAL = 13
"""The first operator set in which these inputs may be left out."""


def leave_out_empty(draft: Draft) -> bool:
    """Leave out empty inputs, in place. Returns whether there was any."""
    opsets = {item.domain: item.version for item in draft.proto.opset_import}
    if opsets.get("", opsets.get("ai.onnx", 0)) < _OPTIONAL:
        return False
    found = False
    for node in draft.proto.graph.node:
        if node.op_type != "Resize" or node.domain not in ("", "ai.onnx") or len(node.input) < 4:
            continue
        for place, name in enumerate(node.input):
            if place and name in draft.weights and not draft.weights[name].size:
                node.input[place] = ""
                found = True
    return found


def drop_empty_parts(draft: Draft) -> bool:
    """Drop the parts of Splits that have no elements and that nobody reads, in place; a single part that is
    left is an Identity. Returns whether there was any."""
    splits = [node for node in draft.proto.graph.node if node.op_type == "Split" and not node.domain]
    read = names_read(draft.proto.graph) if splits else set[str]()
    return sum(_drop_parts(draft, node, read) for node in splits) > 0


def _drop_parts(draft: Draft, node: NodeProto, read: Collection[str]) -> bool:
    held = next((list(item.ints) for item in node.attribute if item.name == "split"), None)
    if held is None and len(node.input) > 1 and node.input[1] in draft.weights:
        held = draft.weights[node.input[1]].reshape(-1).astype(int).tolist()
    if held is None or len(held) != len(node.output):
        return False
    left = [place for place, size in enumerate(held) if size or node.output[place] in read]
    if not left or len(left) == len(held):
        return False
    outputs = [node.output[place] for place in left]
    sizes = [held[place] for place in left]
    del node.output[:]
    node.output.extend(outputs)
    attributes = [item for item in node.attribute if item.name == "axis"]
    del node.attribute[:]
    if len(left) == 1:
        node.op_type = "Identity"
        del node.input[1:]
        return True
    node.attribute.extend(attributes)
    if len(node.input) > 1:
        node.input[1] = f"{outputs[0]} and its neighbours"
        draft.weights[node.input[1]] = np.array(sizes, np.int64)
        declare_weight(draft.proto.graph, node.input[1], draft.weights[node.input[1]])
    else:
        node.attribute.append(helper.make_attribute("split", sizes))
    return True
