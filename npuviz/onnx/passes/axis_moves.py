"""Removes Transposes around operators that work equally well in the order of axes before them.

Exporters of channels-last frameworks transpose each image before a convolution and back behind it. Operators
between two Transposes (activations, sums, products with constants, pads, views) do the same work in either
order, so that both can go. A region is rewritten only if Transposes then move fewer bytes.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft
from npuviz.onnx.passes.element_operators import ALONE, PAIRS, WITH_NUMBERS
from npuviz.onnx.passes.neighbours import Neighbours, Nodes, Shapes, settle_regions, store_weight

Order = tuple[int, ...]
"""Axes of a tensor in the order of storage, as `perm` of Transpose."""


def settle_transposes(draft: Draft, shapes: Shapes) -> bool:
    """Remove Transposes around operators that do not need them, in place. Returns whether any was removed.

    shapes  element type and shape of every tensor
    """
    return settle_regions(draft, shapes, _Graph, _next_region)


class _Graph(Neighbours):
    """Neighbours of a draft's nodes, with shapes and all Transposes."""

    def __init__(self, draft: Draft, shapes: Shapes, nodes: Nodes) -> None:
        super().__init__(draft, nodes)
        self.shapes = shapes
        self.turns = [entry.node for entry in nodes.entries if _is_transpose(entry.node)]


def _next_region(graph: _Graph, refused: Collection[str]) -> "tuple[str, _Region] | None":
    begin = next((node for node in graph.turns if node.output[0] not in refused), None)
    return None if begin is None or len(graph.turns) < 2 else (begin.output[0], _Region(graph, begin))


def _is_transpose(node: NodeProto) -> bool:
    return node.op_type == "Transpose" and node.domain in ("", "ai.onnx")


def _order_of(node: NodeProto, rank: int) -> Order:
    found = next((tuple(item.ints) for item in node.attribute if item.name == "perm"), None)
    return tuple(range(rank))[::-1] if found is None else found


def _inverse(order: Order) -> Order:
    return tuple(int(place) for place in np.argsort(order))


def _through(first: Order, second: Order) -> Order:
    """Return the order of two Transposes, one behind the other, as one."""
    return tuple(first[axis] for axis in second)


def _keeps_order(shape: Sequence[int], order: Order) -> bool:
    """Return whether a Transpose keeps elements in place because it only moves axes of size 1."""
    moved = [axis for axis in order if shape[axis] > 1]
    return moved == sorted(moved)


@dataclass
class _Move:
    """A node that is to work in another order of axes.

    weights  position of an input -> constant to replace it;  attributes  name -> new value
    """

    node: NodeProto
    weights: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])
    attributes: dict[str, object] = field(default_factory=dict[str, object])


class _Region:
    """The operators behind one Transpose that can work in the order of axes before it.

    moves    nodes to rewrite;  ends  Transposes that read tensors of the region
    orders   tensor of the region -> order in which it is then stored
    brought  operand from outside -> order in which the region needs it
    """

    def __init__(self, graph: _Graph, begin: NodeProto) -> None:
        self._graph, self._draft, self._shapes, self._begin = graph, graph.draft, graph.shapes, begin
        self.moves: list[_Move] = []
        self.orders: dict[str, Order] = {}
        self.brought: dict[str, Order] = {}
        self.ends: list[NodeProto] = []
        self._kept: set[str] = set()
        if graph.shapes.get(begin.output[0], (0, ()))[0]:
            self._grow()

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name][1]

    def _bytes(self, name: str) -> int:
        kind, shape = self._shapes[name]
        return math.prod(shape) * np.dtype(helper.tensor_dtype_to_np_dtype(kind)).itemsize

    def _grow(self) -> None:
        begin = self._begin.output[0]
        self.orders[begin] = _inverse(_order_of(self._begin, len(self._shape(begin))))
        waiting = [begin]
        taken: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in self._graph.held:
                self._kept.add(name)
            for node in self._graph.readers.get(name, ()):
                if _first(node) in taken:
                    continue
                if _is_transpose(node):
                    self.ends.append(node)
                    continue
                found = self._moved(node, name)
                if found is None:
                    self._kept.add(name)
                    continue
                move, order = found
                taken.add(node.output[0])
                self.moves.append(move)
                self.orders[node.output[0]] = order
                waiting.append(node.output[0])
        made = {move.node.output[0] for move in self.moves}
        self.brought = {name: order for name, order in self.brought.items() if name not in made}
        self._drop_misfits()

    def _drop_misfits(self) -> None:
        """Empty the region if operands of one of its nodes would be stored in different orders."""
        for move in self.moves:
            names = [name for place, name in enumerate(move.node.input) if place not in move.weights and name]
            given = [name for name in names if name not in self._draft.weights]
            wanted = {self.orders.get(name, self.brought.get(name)) for name in given}
            if None in wanted or (len(given) > 1 and len(wanted) > 1):
                self.orders, self.moves, self.ends = {}, [], []
                return

    # --- operators -------------------------------------------------------------------------------------

    def _moved(self, node: NodeProto, name: str) -> tuple[_Move, Order] | None:
        """Return how a reader of a region's tensor works in the region's order, and the order of its result;
        None if it cannot."""
        if node.domain not in ("", "ai.onnx") or len(node.output) != 1 or node.output[0] not in self._shapes:
            return None
        order = self.orders[name]
        kind = node.op_type
        if kind in ALONE and len(node.input) == 1:
            return _Move(node), order
        if kind in WITH_NUMBERS and node.input[0] == name:
            others = [each for each in node.input[1:] if each]
            weights = self._draft.weights
            is_plain = all(each in weights and weights[each].size == 1 for each in others)
            return (_Move(node), order) if is_plain else None
        if kind in PAIRS and len(node.input) == 2:
            return self._pair(node, order)
        rule = _RULES.get(kind)
        if rule is None or node.input[0] != name:
            return None
        values = [self._draft.weights.get(each) if each else None for each in node.input[1:]]
        if any(each and value is None for each, value in zip(node.input[1:], values, strict=True)):
            return None
        return rule(node, order, values, len(self._shape(node.output[0])))

    def _pair(self, node: NodeProto, order: Order) -> tuple[_Move, Order] | None:
        shape = self._shape(node.output[0])
        move = _Move(node)
        for place, name in enumerate(node.input):
            constant = self._draft.weights.get(name)
            if constant is None:
                if name not in self._shapes or self._shape(name) != shape:
                    return None
                if name not in self.orders:
                    self.brought[name] = order
            elif constant.size > 1:
                if constant.ndim > len(shape):
                    return None
                whole = constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape)
                move.weights[place] = np.ascontiguousarray(whole.transpose(order))
        return move, order

    # --- what it costs ---------------------------------------------------------------------------------

    def is_better(self) -> bool:
        """Return whether Transposes would move fewer bytes after the rewrite."""
        return self.moved_after() < self.moved_before()

    def moved_before(self) -> int:
        """Return the bytes that the Transposes of this region and of its operands move now."""
        found = {node.output[0]: node for node in (self._begin, *self.ends)}
        for name in self.brought:
            maker = self._graph.makers.get(name)
            if maker is not None and _is_transpose(maker) and self._goes(name):
                found[name] = maker
        return sum(self._moving(node) for node in found.values())

    def moved_after(self) -> int:
        """Return the bytes that Transposes would move after the rewrite."""
        found = 0 if self._goes(self._begin.output[0]) else self._moving(self._begin)
        if not self.moves and not self.ends:
            return found + self._moving(self._begin)
        for end in self.ends:
            order = self._left(end)
            stored = self._stored_shape(end.input[0])
            found += self._bytes(end.output[0]) * (not _keeps_order(stored, order))
        for name in self._kept - {self._begin.output[0]}:
            stored = self._stored_shape(name)
            found += self._bytes(name) * (not _keeps_order(stored, _inverse(self.orders[name])))
        for name, order in self.brought.items():
            source, rest = self._source(name, order)
            found += self._bytes(name) * (not _keeps_order(self._shape(source), rest))
        return found

    def _moving(self, node: NodeProto) -> int:
        shape = self._shape(node.input[0])
        return self._bytes(node.output[0]) * (not _keeps_order(shape, _order_of(node, len(shape))))

    def _goes(self, name: str) -> bool:
        """Return whether only this region reads the result of a Transpose, so that it can go."""
        if name in self._graph.held or name in self._kept:
            return False
        inside = {move.node.output[0] for move in self.moves} | {end.output[0] for end in self.ends}
        return all(_first(node) in inside for node in self._graph.readers.get(name, ()))

    def _stored_shape(self, name: str) -> tuple[int, ...]:
        shape = self._shape(name)
        return tuple(shape[axis] for axis in self.orders[name])

    def _left(self, end: NodeProto) -> Order:
        """Return the order that a Transpose at the end of the region still has to make."""
        order = self.orders[end.input[0]]
        return _through(_inverse(order), _order_of(end, len(order)))

    def _source(self, name: str, order: Order) -> tuple[str, Order]:
        """Return the tensor to read for an operand from outside, and the order left to make: a Transpose that
        made the operand is skipped."""
        maker = self._graph.makers.get(name)
        if maker is None or not _is_transpose(maker) or maker.input[0] not in self._shapes:
            return name, order
        return maker.input[0], _through(_order_of(maker, len(order)), order)

    # --- writing ---------------------------------------------------------------------------------------

    def write(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Rewrite the region in the model. Returns types and shapes of the new tensors."""
        names = {self._begin.output[0]: self._begin.input[0]}
        made: dict[str, tuple[int, tuple[int, ...]]] = {}
        for name, order in self.orders.items():
            if name not in names:
                names[name] = f"{name}__turned"
                made[names[name]] = self._shapes[name][0], tuple(self._shape(name)[axis] for axis in order)
        before: dict[str, list[NodeProto]] = {}
        for name, order in self.brought.items():
            source, rest = self._source(name, order)
            if rest == tuple(range(len(rest))):
                names[name] = source
                continue
            names[name] = f"{name}__brought"
            made[names[name]] = self._shapes[name][0], tuple(self._shape(source)[axis] for axis in rest)
            reader = next(move.node for move in self.moves if name in move.node.input)
            nodes = before.setdefault(reader.output[0], [])
            nodes.append(self._transposed(source, names[name], rest, made[names[name]][1]))
        placed: dict[str, list[NodeProto]] = {}
        for move in self.moves:
            name = move.node.output[0]
            placed[name] = [*before.get(name, ()), self._rewritten(move, names)]
            if name in self._kept:
                back = _inverse(self.orders[name])
                placed[name].append(self._transposed(names[name], name, back, self._shape(name)))
        for end in self.ends:
            name = end.output[0]
            placed[name] = [self._transposed(names[end.input[0]], name, self._left(end), self._shape(name))]
        self._graph.nodes.replace(placed, ("Transpose",))
        return made

    def _transposed(self, source: str, target: str, order: Order, shape: tuple[int, ...]) -> NodeProto:
        """Make a node that stores a tensor in another order: Identity or Reshape if elements stay in place,
        else
        Transpose. shape  of the target"""
        if order == tuple(range(len(order))):
            return helper.make_node("Identity", [source], [target], name=f"{target}__same")
        if _keeps_order([shape[place] for place in _inverse(order)], order):
            sizes = store_weight(self._draft, f"{target}__shape", np.array(shape, np.int64))
            return helper.make_node("Reshape", [source, sizes], [target], name=f"{target}__view")
        return helper.make_node("Transpose", [source], [target], name=f"{target}__order", perm=order)

    def _rewritten(self, move: _Move, names: Mapping[str, str]) -> NodeProto:
        new = NodeProto()
        new.CopyFrom(move.node)
        new.output[0] = names[move.node.output[0]]
        for place, name in enumerate(move.node.input):
            new.input[place] = names.get(name, name)
        for place, values in move.weights.items():
            new.input[place] = store_weight(self._draft, f"{new.output[0]}__{place}", values)
        for key, value in move.attributes.items():
            kept = [item for item in new.attribute if item.name != key]
            del new.attribute[:]
            new.attribute.extend([*kept, helper.make_attribute(key, value)])
        return new


def _first(node: NodeProto) -> str:
    return node.output[0] if node.output else ""


Rule = Callable[[NodeProto, Order, "Sequence[np.ndarray | None]", int], "tuple[_Move, Order] | None"]
"""Rule for an operator: (node, order of its first input, values of its other inputs, rank of its result) ->
its move and the order of the result, None if it does not apply."""


def _axes(node: NodeProto, values: Sequence[np.ndarray | None]) -> list[int] | None:
    """Return the axes of a node: an input in newer operator sets, else an attribute."""
    if values and values[0] is not None:
        return [int(axis) for axis in values[0].reshape(-1)]
    return next((list(item.ints) for item in node.attribute if item.name == "axes"), None)


def _with_axes(node: NodeProto, values: Sequence[np.ndarray | None], axes: Iterable[int]) -> _Move:
    wanted = [int(axis) for axis in axes]
    if values:
        return _Move(node, {1: np.array(wanted, np.int64)})
    return _Move(node, {}, {"axes": wanted})


def _squeeze(
    node: NodeProto, order: Order, values: Sequence[np.ndarray | None], rank: int
) -> tuple[_Move, Order] | None:
    axes = _axes(node, values)
    if axes is None:
        return None
    gone = {axis % len(order) for axis in axes}
    left = [axis for axis in order if axis not in gone]
    places = sorted(left)
    found = tuple(places.index(axis) for axis in left)
    assert len(found) == rank
    return _with_axes(node, values, sorted(order.index(axis) for axis in gone)), found


def _unsqueeze(
    node: NodeProto, order: Order, values: Sequence[np.ndarray | None], rank: int
) -> tuple[_Move, Order] | None:
    axes = _axes(node, values)
    if axes is None:
        return None
    new = sorted(axis % rank for axis in axes)
    old = [axis for axis in range(rank) if axis not in new]
    found = [old[axis] for axis in order]
    for axis in new:
        found.insert(axis, axis)
    return _with_axes(node, values, (found.index(axis) for axis in new)), tuple(found)


def _pad(
    node: NodeProto, order: Order, values: Sequence[np.ndarray | None], rank: int
) -> tuple[_Move, Order] | None:
    if not values or values[0] is None or values[0].size != 2 * rank or len(values) > 2:
        return None
    ends = values[0].reshape(2, rank)[:, list(order)]
    return _Move(node, {1: np.ascontiguousarray(ends.reshape(-1))}), order


_RULES: Mapping[str, Rule] = {"Pad": _pad, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze}
