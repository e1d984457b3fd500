"""Removes views around operators that work equally well in the shape before the first view.

Exporters remove axes of size 1 for an activation or a normalisation, and insert them again behind it. That is
free if a view keeps the memory, but a machine with its own layout of axes moves all data twice. A region is
rewritten only if fewer views remain.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft
from npuviz.onnx.passes.element_operators import ALONE, PAIRS, WITH_NUMBERS
from npuviz.onnx.passes.neighbours import Neighbours, Nodes, Shapes, settle_regions, store_weight

Shape = tuple[int, ...]
_VIEWS = frozenset(("Flatten", "Reshape", "Squeeze", "Unsqueeze"))
_PRODUCTS = ("Conv", "ConvTranspose")
USUAL_AXES = 4
"""Most axes that machines support in most operators: a region gets a shape with more only if it has them
already."""


def settle_views(draft: Draft, shapes: Shapes) -> bool:
    """Remove views around operators that do not need them, in place. Returns whether any was removed.

    shapes  element type and shape of every tensor
    """
    return settle_regions(draft, shapes, _Graph, _next_region)


def _next_region(graph: "_Graph", refused: Collection[str]) -> "tuple[str, _Region] | None":
    begin = next((node for node in graph.views() if node.output[0] not in refused), None)
    return None if begin is None else (begin.output[0], _Region(graph, begin))


class _Graph(Neighbours):
    """Neighbours of a draft's nodes, with shapes."""

    def __init__(self, draft: Draft, shapes: Shapes, nodes: Nodes) -> None:
        super().__init__(draft, nodes)
        self.shapes = shapes

    def views(self) -> Iterator[NodeProto]:
        """Yield the nodes that are views between known shapes."""
        return filter(self.is_view, (entry.node for entry in self.nodes.entries))

    def is_view(self, node: NodeProto) -> bool:
        """Return whether a node is a view of a computed tensor, with known shapes before and behind it."""
        if node.op_type not in _VIEWS or node.domain not in ("", "ai.onnx"):
            return False
        if node.input[0] in self.draft.weights or any(
            name not in self.draft.weights for name in node.input[1:]
        ):
            return False
        ends = [self.shapes.get(name, (0, ())) for name in (node.input[0], node.output[0])]
        return all(kind for kind, _ in ends) and math.prod(ends[0][1]) == math.prod(ends[1][1]) > 0

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor, which must be known."""
        return self.shapes[name][1]


@dataclass
class _Move:
    """A node that is to work in another shape.

    stored   shape of its result;  weights  position of an input -> constant to replace it
    """

    node: NodeProto
    stored: Shape
    weights: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])


class _Region:
    """The operators behind one view that can work in the shape before it.

    stored   tensor of the region -> shape in which it is then stored;  kept  tensors that others read in
    their own shape
    brought  operand from outside -> shape in which the region needs it;  ends  views that read tensors of
    the region
    """

    def __init__(self, graph: _Graph, begin: NodeProto) -> None:
        self._graph, self._begin = graph, begin
        first, second = (graph.shape(name) for name in (begin.input[0], begin.output[0]))
        self._moves: list[_Move] = []
        self._stored = {begin.output[0]: first}
        self._kept: set[str] = set()
        self._brought: dict[str, Shape] = {}
        self._ends: list[NodeProto] = []
        if len(first) <= max(USUAL_AXES, len(second)):
            self._grow()

    def _grow(self) -> None:
        graph = self._graph
        waiting = [self._begin.output[0]]
        while waiting:
            name = waiting.pop()
            if name in graph.held:
                self._kept.add(name)
            for node in graph.readers.get(name, ()):
                if not node.output or node.output[0] in self._stored:
                    continue
                if graph.is_view(node):
                    self._ends.append(node)
                    continue
                move = self._moved(node, name)
                if move is None:
                    self._kept.add(name)
                    continue
                self._moves.append(move)
                self._stored[node.output[0]] = move.stored
                waiting.append(node.output[0])
        self._drop_misfits()

    def _drop_misfits(self) -> None:
        """Empty the region if an operand, later added to the region itself, is stored in another shape than
        needed."""
        for name in [name for name in self._brought if name in self._stored]:
            if self._brought.pop(name) != self._stored[name]:
                self._moves, self._ends = [], []
                self._kept = {self._begin.output[0]}
                self._brought = {}
                return

    def _moved(self, node: NodeProto, name: str) -> _Move | None:
        """Return how a reader of a region's tensor works in the stored shape, None if it cannot."""
        graph = self._graph
        if node.domain not in ("", "ai.onnx") or len(node.output) != 1 or node.output[0] not in graph.shapes:
            return None
        weights = graph.draft.weights
        kind, stored = node.op_type, self._stored[name]
        others = [each for each in node.input[1:] if each]
        if kind in PAIRS and len(node.input) == 2:
            return self._pair(node, graph.shape(node.output[0]), stored)
        if node.input[0] != name or not all(each in weights for each in others):
            return None
        if kind in ALONE:
            return _Move(node, stored) if not others else None
        if kind in WITH_NUMBERS:
            return _Move(node, stored) if all(weights[each].size == 1 for each in others) else None
        rule = _RULES.get(kind)
        values = [weights.get(each) if each else None for each in node.input[1:]]
        return rule(node, graph.shape(name), stored, values) if rule is not None else None

    def _pair(self, node: NodeProto, whole: Shape, stored: Shape) -> _Move | None:
        if math.prod(whole) != math.prod(stored):
            return None
        move, brought = _Move(node, stored), dict[str, Shape]()
        for place, name in enumerate(node.input):
            constant = self._graph.draft.weights.get(name)
            if constant is not None:
                shape = _in_shape(constant.shape, whole, stored)
                if shape is None:
                    return None
                move.weights[place] = constant.reshape(shape)
            elif name not in self._graph.shapes or self._graph.shape(name) != whole:
                return None
            else:
                brought[name] = stored
        if any(self._stored.get(name, stored) != stored or self._brought.get(name, stored) != stored
               for name in brought):  # fmt: skip
            return None
        self._brought.update(brought)
        return move

    # --- what it costs ---------------------------------------------------------------------------------

    def is_better(self) -> bool:
        """Return whether fewer views would remain, or as many, but operators come directly behind a
        convolution that may absorb them."""
        before, after = self._views_before(), self._views_after()
        maker = self._graph.makers.get(self._begin.input[0])
        is_behind = maker is not None and maker.op_type in _PRODUCTS and len(self._moves) > 0
        is_behind &= len(self._graph.readers[self._begin.input[0]]) == 1
        return after < before or (after == before and is_behind and self._begin.output[0] not in self._kept)

    def _views_before(self) -> int:
        """Count the views that the rewrite may remove: those of this region, and of operands that only it
        reads."""
        return 1 + len(self._ends) + sum(self._goes(name) for name in self._brought)

    def _views_after(self) -> int:
        """Count the views after the rewrite."""
        ends = sum(self._graph.shape(end.output[0]) != self._stored[end.input[0]] for end in self._ends)
        brought = sum(self._source(name) is None for name in self._brought)
        return len(self._kept) + ends + brought

    def _source(self, name: str) -> str | None:
        """Return the tensor that an operand is a view of, if it has the needed shape, else None."""
        maker = self._graph.makers.get(name)
        if maker is None or not self._graph.is_view(maker):
            return None
        return maker.input[0] if self._graph.shape(maker.input[0]) == self._brought[name] else None

    def _goes(self, name: str) -> bool:
        """Return whether an operand is a view that only this region reads."""
        if self._source(name) is None or name in self._graph.held:
            return False
        moved = {move.node.output[0] for move in self._moves}
        return all(node.output and node.output[0] in moved for node in self._graph.readers[name])

    # --- writing ---------------------------------------------------------------------------------------

    def write(self) -> dict[str, tuple[int, Shape]]:
        """Rewrite the region in the model. Returns types and shapes of the new tensors."""
        graph, shapes = self._graph, self._graph.shapes
        begin = self._begin.output[0]
        stored = {**self._brought, **self._stored}
        names = {name: self._unused(f"{name}__seen") for name in stored}
        made = {names[name]: (shapes[name][0], shape) for name, shape in stored.items() if name != begin}
        names[begin] = self._begin.input[0]
        before: dict[str, list[NodeProto]] = {}
        for name, shape in self._brought.items():
            source = self._source(name)
            if source is not None:
                names[name] = source
                continue
            reader = next(move.node for move in self._moves if name in move.node.input)
            view = self._view(name, names[name], (shapes[name][1], shape))
            before.setdefault(reader.output[0], []).append(view)
        placed: dict[str, list[NodeProto]] = {}
        for move in self._moves:
            name = move.node.output[0]
            placed[name] = [*before.get(name, ()), self._rewritten(move, names)]
            if name in self._kept:
                placed[name].append(self._view(names[name], name, (move.stored, shapes[name][1])))
        for end in self._ends:
            name, read = end.output[0], end.input[0]
            placed[name] = [self._view(names[read], name, (stored[read], shapes[name][1]))]
        graph.nodes.replace(placed, _VIEWS)
        return made

    def _unused(self, name: str) -> str:
        """Return the name with "_" appended while a tensor has it."""
        while name in self._graph.shapes:
            name += "_"
        return name

    def _view(self, source: str, target: str, ends: tuple[Shape, Shape]) -> NodeProto:
        """Make a node that reshapes a tensor, or an Identity if both shapes are equal. ends  shapes of
        source and target"""
        if ends[0] == ends[1]:
            return helper.make_node("Identity", [source], [target], name=f"{target}__same")
        sizes = store_weight(self._graph.draft, f"{target}__shape", np.array(ends[1], np.int64))
        return helper.make_node("Reshape", [source, sizes], [target], name=f"{target}__view")

    def _rewritten(self, move: _Move, names: Mapping[str, str]) -> NodeProto:
        new = NodeProto()
        new.CopyFrom(move.node)
        new.output[0] = names[move.node.output[0]]
        for place, name in enumerate(move.node.input):
            new.input[place] = names.get(name, name)
        for place, values in move.weights.items():
            if not np.array_equal(values, self._graph.draft.weights[move.node.input[place]]):
                new.input[place] = store_weight(self._graph.draft, f"{new.output[0]}__{place}", values)
        return new


def _in_shape(shape: Shape, whole: Shape, wanted: Shape) -> Shape | None:
    """Return the shape in which a constant broadcasts along `wanted` as one of `shape` does along `whole`;
    None if there is none."""
    if math.prod(shape) == 1:
        return ()
    if len(shape) > len(whole):
        return None
    full = (1,) * (len(whole) - len(shape)) + shape
    found: list[int] = []
    for axes, places in _groups(whole, wanted):
        held = [full[axis] for axis in axes if whole[axis] > 1]
        if all(size == 1 for size in held):
            found += [1] * len(places)
        elif held == [whole[axis] for axis in axes if whole[axis] > 1]:
            found += [wanted[place] for place in places]
        else:
            return None
    return tuple(found)


def _groups(one: Shape, other: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Split the axes of two shapes with equal numbers of elements into the smallest groups that are equally
    large."""
    left, right = 0, 0
    while left < len(one) or right < len(other):
        axes, places = [left][: len(one) - left], [right][: len(other) - right]
        sizes = [math.prod(one[axis] for axis in axes), math.prod(other[place] for place in places)]
        left, right = left + len(axes), right + len(places)
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                axes.append(left)
                sizes[0] *= one[left]
                left += 1
            else:
                places.append(right)
                sizes[1] *= other[right]
                right += 1
        yield axes, places


Rule = Callable[[NodeProto, Shape, Shape, "Sequence[np.ndarray | None]"], "_Move | None"]
"""Rule for an operator: (node, shape of its first input, stored shape of it, values of its other inputs) ->
move, None if it does not apply."""


def _axis_in(whole: Shape, stored: Shape) -> dict[int, int]:
    """Return axis -> place in the other shape, for axes that both shapes have."""
    found: dict[int, int] = {}
    for axes, places in _groups(whole, stored):
        large = [axis for axis in axes if whole[axis] > 1], [place for place in places if stored[place] > 1]
        if len(large[0]) == len(large[1]) == 1:
            found[large[0][0]] = large[1][0]
    return found


def _pad(node: NodeProto, whole: Shape, stored: Shape, values: Sequence[np.ndarray | None]) -> _Move | None:
    if not values or values[0] is None or values[0].size != 2 * len(whole) or len(values) > 2:
        return None
    places = _axis_in(whole, stored)
    ends = np.zeros((2, len(stored)), np.int64)
    for axis, given in enumerate(values[0].reshape(2, -1).T):
        if given.any():
            if axis not in places:
                return None
            ends[:, places[axis]] = given
    made = tuple(size + int(ends[:, place].sum()) for place, size in enumerate(stored))
    return _Move(node, made, {1: ends.reshape(-1)})


def _slice(node: NodeProto, whole: Shape, stored: Shape, values: Sequence[np.ndarray | None]) -> _Move | None:
    if len(values) < 2 or values[0] is None or values[1] is None:
        return None
    axes = values[2].tolist() if len(values) > 2 and values[2] is not None else range(values[0].size)
    steps = values[3].tolist() if len(values) > 3 and values[3] is not None else [1] * values[0].size
    places, made = _axis_in(whole, stored), list(stored)
    wanted: list[int] = []
    for axis, start, end, step in zip(axes, values[0].tolist(), values[1].tolist(), steps, strict=True):
        place = places.get(axis % len(whole))
        if place is None:
            return None
        wanted.append(place)
        made[place] = len(range(*slice(start, end, step).indices(stored[place])))
    if len(values) < 3 or values[2] is None:
        return _Move(node, tuple(made)) if wanted == list(range(len(wanted))) else None
    return _Move(node, tuple(made), {3: np.array(wanted, values[2].dtype)})


_RULES: Mapping[str, Rule] = {"Pad": _pad, "Slice": _slice}
