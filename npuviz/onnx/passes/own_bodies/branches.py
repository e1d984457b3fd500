"""Writes If as both of its branches and a choice between their results."""

from onnx import GraphProto, NodeProto, helper

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer
from npuviz.onnx.passes.functions import bind_nodes
from npuviz.onnx.semantics.operators import RANDOM

MAX_NODES = 1024
"""Most operators of both branches: a branch that is not chosen takes its time, too."""
_OLDEST_OPSET = 9


def write_if(writer: Writer, node: NodeProto) -> None:
    """Rewrite If whose branches give numbers of the same sizes."""
    branches: list[GraphProto] = [writer.attribute(name, None) for name in ("then_branch", "else_branch")]
    size = sum(len(branch.node) for branch in branches)
    if writer.opset < _OLDEST_OPSET or size > MAX_NODES or any(_is_random(each) for each in branches):
        raise CannotWrite
    for place, output in enumerate(node.output):
        shape = list(writer.shape(output))
        if writer.dtype(output).kind not in "biuf" or any(_sizes(b, place) != shape for b in branches):
            raise CannotWrite
    one, other = (
        _inlined(writer, branch, name) for branch, name in zip(branches, ("then", "else"), strict=True)
    )
    for chosen, left, output in zip(one, other, node.output, strict=True):
        writer.add("Where", [writer.given(0), chosen, left], output)


def _is_random(branch: GraphProto) -> bool:
    return any(node.op_type in RANDOM for node in branch.node)


def _sizes(branch: GraphProto, place: int) -> list[int] | None:
    """Return the declared sizes of a branch's result, None if one is not known."""
    tensor = branch.output[place].type.tensor_type
    if not tensor.HasField("shape"):
        return None
    sizes = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    return sizes if min(sizes, default=0) >= 0 else None


def _inlined(writer: Writer, branch: GraphProto, name: str) -> list[str]:
    """Add the nodes of a branch. Returns the names of its results."""
    prefix = f"{writer.name}/{name}"
    names = {"": ""}
    for tensor in branch.initializer:
        names[tensor.name] = f"{prefix}/{tensor.name}"
        writer.nodes.append(
            helper.make_node("Constant", [], [names[tensor.name]], value=tensor, name=names[tensor.name])
        )
    writer.nodes += bind_nodes(branch.node, names, {}, prefix)
    return [names.get(value.name, value.name) for value in branch.output]
