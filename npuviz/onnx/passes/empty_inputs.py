"""Leaves out inputs of Resize that are constants without elements.

The operator has sizes or scales; what is not used may be left out, or be empty. Checkers of single nodes take
an empty constant for one that is used.
"""

from npuviz.onnx.draft import Draft

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
