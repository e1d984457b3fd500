"""Counts what decision trees cost as walks and as products."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.program.graph import Node

KINDS = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


@dataclass(frozen=True, slots=True)
class TreeCost:
    """Conditions and leaves of all trees, and comparisons of the longest walk through each of them."""

    trees: int
    conditions: int
    leaves: int
    walked: int

    @property
    def text(self) -> str:
        """Why a machine without branches on data leaves them to the Host."""
        products = self.conditions * self.leaves
        times = products / max(1, self.walked)
        return (
            f"the way through its {self.trees:,} trees depends on values; as products, all of its "
            f"{self.conditions:,} conditions by {self.leaves:,} leaves are {products:,} multiplications a "
            f"row, {times:,.0f} times the at most {self.walked:,} comparisons of the walks"
        )


def tree_cost(node: Node) -> TreeCost | None:
    """Count the trees of a node; None if its attributes are no trees."""
    try:
        return _of_newest(node) if node.op_type == "TreeEnsemble" else _of_older(node)
    except (KeyError, IndexError, ValueError, RecursionError):
        return None


def _of_newest(node: Node) -> TreeCost:
    """Ref: ONNX operators, ai.onnx.ml.TreeEnsemble-5: nodes are conditions, leaves have own lists."""
    sides = [
        (_list(node, f"nodes_{side}nodeids"), _list(node, f"nodes_{side}leafs")) for side in ("true", "false")
    ]
    roots = _list(node, "tree_roots")
    below = [[ids[at] for ids, ends in sides if not ends[at]] for at in range(len(sides[0][0]))]
    return TreeCost(
        len(roots), len(below), _size(node, "leaf_weights"), sum(_depth(below, at) for at in roots)
    )


def _of_older(node: Node) -> TreeCost:
    """Ref: ONNX operators, ai.onnx.ml.TreeEnsembleRegressor-3: leaves are nodes of the mode LEAF."""
    trees, ids, modes = (_list(node, f"nodes_{name}") for name in ("treeids", "nodeids", "modes"))
    sides = [_list(node, f"nodes_{side}nodeids") for side in ("true", "false")]
    place = {key: at for at, key in enumerate(zip(trees, ids, strict=True))}
    is_leaf = [mode in ("LEAF", b"LEAF") for mode in modes]
    below = [
        [] if is_leaf[at] else [place[tree, side[at]] for side in sides] for at, tree in enumerate(trees)
    ]
    below = [[each for each in found if not is_leaf[each]] for found in below]
    inner = {each for found in below for each in found}
    roots = [at for at in range(len(trees)) if at not in inner and not is_leaf[at]]
    return TreeCost(
        len(set(trees)), is_leaf.count(False), is_leaf.count(True), sum(_depth(below, at) for at in roots)
    )


def _depth(below: Sequence[Sequence[int]], root: int) -> int:
    """Return the conditions on the longest way down. Raises ValueError for a way that leads back."""
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > len(below):
            raise ValueError("a way that leads back")
        level = list({each for at in level for each in below[at]})
    return depth


def _list(node: Node, name: str) -> list[Any]:
    return list(np.asarray(node.attributes[name]).reshape(-1).tolist())


def _size(node: Node, name: str) -> int:
    return int(np.size(node.attributes[name]))
