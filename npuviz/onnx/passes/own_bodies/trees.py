"""Writes decision trees as comparisons and products.

All conditions are computed at once, 1 where one holds. A leaf is reached where the conditions on the way to
it hold or do not hold as it asks: a product with a matrix of 1 and -1 counts those that do. A second product
adds the weights of the leaves that are reached.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, numpy_helper

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

MAX_ELEMENTS = 1 << 22
"""Most elements of the matrix of conditions and leaves."""
OLDEST_OPSET = 13
AVERAGE, SUM = 0, 1
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
"""Ref: ONNX operators of the domain ai.onnx.ml, TreeEnsemble version 5: nodes_modes, aggregate_function."""
_COMPARISONS = {LEQ: "LessOrEqual", LT: "Less", GTE: "GreaterOrEqual", GT: "Greater", EQ: "Equal"}


@dataclass
class _Leaf:
    """A leaf: the conditions on the way to it, each with whether it must hold; its target and weight."""

    way: tuple[tuple[int, bool], ...]
    target: int
    weight: float


@dataclass
class _Forest:
    """All leaves, and the conditions in the order of the operator's attributes.

    sets  members of the condition of mode MEMBER with that number
    """

    features: np.ndarray
    modes: np.ndarray
    splits: np.ndarray
    tracks: np.ndarray
    sets: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])
    leaves: list[_Leaf] = field(default_factory=list[_Leaf])


def write_tree_ensemble(writer: Writer, node: NodeProto) -> None:
    """Rewrite TreeEnsemble that adds up or averages, without a function of the sums."""
    del node
    source = writer.given(0)
    shape = writer.shape(source)
    how = int(writer.attribute("aggregate_function", SUM))
    if len(shape) != 2 or how not in (AVERAGE, SUM) or writer.attribute("post_transform", 0):
        raise CannotWrite
    if writer.opset < OLDEST_OPSET or not shape[0]:
        raise CannotWrite
    forest = _forest(writer)
    kind = writer.dtype(source)
    ways = np.zeros((len(forest.features), len(forest.leaves)), kind)
    weights = np.zeros((len(forest.leaves), int(writer.attribute("n_targets", 1))), kind)
    asked = np.zeros(len(forest.leaves), kind)
    for number, leaf in enumerate(forest.leaves):
        for condition, holds in leaf.way:
            ways[condition, number] += 1 if holds else -1
        asked[number] = sum(holds for _, holds in leaf.way)
        weights[number, leaf.target] += leaf.weight
    if how == AVERAGE:
        weights /= len(writer.attribute("tree_roots", []))
    held = writer.add("MatMul", [_conditions(writer, source, forest, kind), writer.constant("ways", ways)])
    reached = writer.cast(writer.add("Equal", [held, writer.constant("asked", asked)]), kind)
    writer.add("MatMul", [reached, writer.constant("weights", weights)], writer.wanted(0))


def _forest(writer: Writer) -> _Forest:
    """Read the attributes. Raises CannotWrite for trees that are none."""
    features, modes, splits = (
        _numbers(writer, name) for name in ("nodes_featureids", "nodes_modes", "nodes_splits")
    )
    tracks = _numbers(writer, "nodes_missing_value_tracks_true")
    if not len(tracks):
        tracks = np.zeros(len(features), np.int64)
    if not len(features) == len(modes) == len(splits) == len(tracks):
        raise CannotWrite
    forest = _Forest(features, modes, splits, tracks)
    members = _sets(_numbers(writer, "membership_values"))
    for number in np.flatnonzero(modes == MEMBER):
        found = next(members, None)
        if found is None:
            raise CannotWrite
        forest.sets[int(number)] = found
    for root in writer.attribute("tree_roots", []):
        _walk(writer, forest, int(root))
    if not forest.leaves or len(forest.leaves) * len(features) > MAX_ELEMENTS:
        raise CannotWrite
    return forest


def _walk(writer: Writer, forest: _Forest, root: int) -> None:
    """Add the leaves below a root."""
    sides = [
        (_numbers(writer, f"nodes_{side}nodeids"), _numbers(writer, f"nodes_{side}leafs"), side == "true")
        for side in ("true", "false")
    ]
    targets, weights = _numbers(writer, "leaf_targetids"), _numbers(writer, "leaf_weights")
    waiting: list[tuple[int, tuple[tuple[int, bool], ...]]] = [(root, ())]
    while waiting:
        node, way = waiting.pop()
        # A tree of one leaf is a condition whose two sides are that leaf; a way that leads back is none.
        if not 0 <= node < len(forest.features) or len(way) > len(forest.features):
            raise CannotWrite
        for nodes, leaves, holds in sides:
            longer = (*way, (node, holds))
            if not leaves[node]:
                waiting.append((int(nodes[node]), longer))
                continue
            leaf = int(nodes[node])
            if not 0 <= leaf < len(targets) or len(forest.leaves) * len(forest.features) > MAX_ELEMENTS:
                raise CannotWrite
            forest.leaves.append(_Leaf(longer, int(targets[leaf]), float(weights[leaf])))


def _sets(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the sets of a list in which NaN ends each."""
    ends = np.flatnonzero(np.isnan(values)) if len(values) else []
    first = 0
    for end in ends:
        yield values[first:end]
        first = end + 1


def _numbers(writer: Writer, name: str) -> np.ndarray:
    """Return an attribute that is a tensor or a list; an absent one is empty."""
    value: Any = writer.attribute(name, [])
    return numpy_helper.to_array(value) if hasattr(value, "data_type") else np.asarray(value)


def _conditions(writer: Writer, source: str, forest: _Forest, kind: np.dtype) -> str:
    """Compute all conditions: (rows, conditions), 1 where one holds."""
    parts: list[str] = []
    order: list[int] = []
    for mode in np.unique(forest.modes):
        chosen = np.flatnonzero(forest.modes == mode)
        order += chosen.tolist()
        columns = _columns(writer, source, forest.features[chosen], f"features_{mode}")
        if mode == MEMBER:
            holds = _members(writer, source, forest, chosen, kind)
        else:
            splits = writer.constant(f"splits_{mode}", forest.splits[chosen].astype(kind).reshape(1, -1))
            holds = writer.add(_COMPARISONS.get(int(mode), "Equal"), [columns, splits])
            if mode == NEQ:
                holds = writer.add("Not", [holds])
        if forest.tracks[chosen].any():
            tracked = writer.constant(f"tracks_{mode}", forest.tracks[chosen].astype(np.bool_).reshape(1, -1))
            missing = writer.add("And", [writer.add("IsNaN", [columns]), tracked])
            holds = writer.add("Or", [holds, missing])
        parts.append(writer.cast(holds, kind))
    found = writer.add("Concat", parts, axis=1) if len(parts) > 1 else parts[0]
    if order == sorted(order):
        return found
    return _columns(writer, found, np.argsort(order), "in_order")


def _members(writer: Writer, source: str, forest: _Forest, chosen: np.ndarray, kind: np.dtype) -> str:
    """Compute whether a feature is one of a set: as many comparisons as members, added up for each set."""
    sets = [forest.sets[int(number)] for number in chosen]
    counts = [len(each) for each in sets]
    if not sum(counts):
        raise CannotWrite
    members = writer.constant("members", np.concatenate(sets).astype(kind).reshape(1, -1))
    owner = np.repeat(np.arange(len(chosen)), counts)
    columns = _columns(writer, source, forest.features[chosen][owner], "member_features")
    equal = writer.cast(writer.add("Equal", [columns, members]), kind)
    of_set = writer.constant("of_set", (owner[:, None] == np.arange(len(chosen))).astype(kind))
    found = writer.add("MatMul", [equal, of_set])
    return writer.add("Greater", [found, writer.constant("none", np.zeros((), kind))])


def _columns(writer: Writer, source: str, numbers: np.ndarray, name: str) -> str:
    return writer.add("Gather", [source, writer.constant(name, np.asarray(numbers, np.int64))], axis=1)
