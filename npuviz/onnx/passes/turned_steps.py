"""Replaces two reversals of the sequence around a recurrent operator by the operator's other direction.

Exporters of frameworks without a backward direction reverse the sequence before and behind the operator. The
final states are the same in both forms, but the other direction moves no data.
"""

from collections.abc import Iterator

from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft
from npuviz.onnx.node_order import replace_nodes
from npuviz.onnx.passes.neighbours import Neighbours, Shapes

_RECURRENT = frozenset(("GRU", "LSTM", "RNN"))
_VIEWS = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))
_OTHER_WAY = {b"forward": b"reverse", b"reverse": b"forward"}
_LENGTHS = 4
"""Position of the input with sequence lengths: with padding, a reversal is no change of direction."""
_MOST_VIEWS = 8


def turn_recurrent(draft: Draft, shapes: Shapes) -> bool:
    """Change the direction of recurrent operators between two reversals of their steps, in place, and remove
    the reversals. Returns whether there was any.

    shapes  element type and shape of every tensor
    """
    if not any(node.op_type in _RECURRENT for node in draft.proto.graph.node):
        return False
    seen = _Steps(draft, shapes)
    before: dict[str, list[NodeProto]] = {}
    turned: dict[str, NodeProto] = {}
    for node in draft.proto.graph.node:
        way = _direction(node)
        chain = seen.chain_to(node.input[0]) if way is not None else None
        if chain is not None and chain[0].output[0] in turned:
            continue  # the reversal before it was removed with the previous operator
        ends = seen.reversals_of(node.output[0]) if chain is not None else None
        if way is None or chain is None or ends is None:
            continue
        first = next(name for name in node.output if name)
        source, before[first] = _unturned(chain)
        turned[first] = _with(node, source, _OTHER_WAY[way])
        for end in ends:
            turned[end.output[0]] = helper.make_node("Identity", end.input[:1], end.output, name=end.name)
    if not turned:
        return False
    nodes: list[NodeProto] = []
    for node in draft.proto.graph.node:
        name = next((name for name in node.output if name), "")
        nodes += [*before.get(name, ()), turned.get(name, node)]
    replace_nodes(draft.proto.graph, nodes)
    return True


def _direction(node: NodeProto) -> bytes | None:
    """Return the direction of a recurrent operator with one direction, steps as first axis and no sequence
    lengths; None for all others."""
    if node.op_type not in _RECURRENT or node.domain not in ("", "ai.onnx"):
        return None
    given = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    way = given.get("direction", b"forward")
    has_lengths = len(node.input) > _LENGTHS and bool(node.input[_LENGTHS])
    return None if has_lengths or given.get("layout", 0) or way not in _OTHER_WAY else way


class _Steps(Neighbours):
    """Neighbours of a draft's nodes, and their effect on the first axis."""

    def __init__(self, draft: Draft, shapes: Shapes) -> None:
        super().__init__(draft)
        self._shapes = shapes

    def chain_to(self, name: str) -> list[NodeProto] | None:
        """Return the reversal and the views behind it that make a tensor; None if there is no reversal."""
        found: list[NodeProto] = []
        while len(found) < _MOST_VIEWS:
            maker = self.makers.get(name)
            if maker is None:
                return None
            found.insert(0, maker)
            if self._is_reversal(maker):
                return found
            if not self._keeps_steps(maker):
                return None
            name = maker.input[0]
        return None

    def reversals_of(self, name: str) -> list[NodeProto] | None:
        """Return all reversals that read a tensor, directly or through views; None if it has other
        readers."""
        if not name:
            return []
        try:
            return list(self._reversals(name, _MOST_VIEWS))
        except _ReadAsItIs:
            return None

    def _reversals(self, name: str, most: int) -> Iterator[NodeProto]:
        if name in self.held or not most:
            raise _ReadAsItIs
        for node in self.readers.get(name, ()):
            if self._is_reversal(node):
                yield node
            elif self._keeps_steps(node) and node.input[0] == name:
                yield from self._reversals(node.output[0], most - 1)
            else:
                raise _ReadAsItIs

    def _keeps_steps(self, node: NodeProto) -> bool:
        """Return whether a node is a view that keeps the first axis."""
        if node.op_type not in _VIEWS or node.domain not in ("", "ai.onnx"):
            return False
        ends = [self._shapes.get(name, (0, ()))[1] for name in (node.input[0], node.output[0])]
        return bool(ends[0] and ends[1]) and ends[0][0] == ends[1][0]

    def _is_reversal(self, node: NodeProto) -> bool:
        """Return whether a node is a Slice that reverses all of the first axis, and no other."""
        if node.op_type != "Slice" or node.domain not in ("", "ai.onnx") or len(node.input) < 5:
            return False
        shape = self._shapes.get(node.input[0], (0, ()))[1]
        weights = self.draft.weights
        if not shape or any(name not in weights or weights[name].size != 1 for name in node.input[1:5]):
            return False
        start, end, axis, step = (int(weights[name].reshape(-1)[0]) for name in node.input[1:5])
        count = shape[0]
        is_whole = (start == -1 or start >= count - 1) and end < -count
        return step == -1 and axis in (0, -len(shape)) and is_whole


class _ReadAsItIs(Exception):
    """A tensor has a reader that is neither a reversal nor a view."""


def _unturned(chain: list[NodeProto]) -> tuple[str, list[NodeProto]]:
    """Apply the views of a chain to the input of its reversal. Returns the name of the result and the new
    views."""
    source = chain[0].input[0]
    views: list[NodeProto] = []
    for view in chain[1:]:
        new = NodeProto()
        new.CopyFrom(view)
        new.input[0], new.output[0], new.name = (
            source,
            f"{view.output[0]}__unturned",
            f"{view.name}__unturned",
        )
        views.append(new)
        source = new.output[0]
    return source, views


def _with(node: NodeProto, source: str, direction: bytes) -> NodeProto:
    new = NodeProto()
    new.CopyFrom(node)
    new.input[0] = source
    kept = [item for item in new.attribute if item.name != "direction"]
    del new.attribute[:]
    new.attribute.extend([*kept, helper.make_attribute("direction", direction)])
    return new
