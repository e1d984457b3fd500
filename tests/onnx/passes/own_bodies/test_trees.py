"""TreeEnsemble as products, against a walk through the trees."""

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from npuviz.onnx.passes.own_bodies.trees import AVERAGE, MEMBER, SUM
from tests.onnx.passes.own_bodies.written import expanded, model_of, result_of

COMPARED = (operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne)
FEATURES, TARGETS = 4, 3


class Trees:
    """Random trees, in the form of the operator's attributes."""

    def __init__(self, modes: Sequence[int], kind: type, seed: int, tracks: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.modes, self.kind, self.tracks = modes, kind, tracks
        self.nodes: list[dict[str, Any]] = []
        self.leaves: list[tuple[int, float]] = []
        self.roots = [self.grow(3) for _ in range(5)]

    def grow(self, depth: int) -> int:
        """Add a node and what is below it."""
        number, draw = len(self.nodes), self.rng
        node: dict[str, Any] = {
            "feature": int(draw.integers(FEATURES)),
            "mode": int(draw.choice(self.modes)),
            "split": float(draw.integers(1, 9)),
            "set": draw.integers(1, 9, draw.integers(1, 4)).tolist(),
            "tracks": int(self.tracks and draw.integers(2)),
        }
        self.nodes.append(node)
        for side in ("true", "false"):
            is_leaf = depth == 0 or draw.random() < 0.2
            node[f"{side}leaf"] = int(is_leaf)
            node[side] = len(self.leaves) if is_leaf else self.grow(depth - 1)
            if is_leaf:
                self.leaves.append((int(draw.integers(TARGETS)), float(draw.integers(-9, 9)) / 4))
        return number

    def attributes(self, how: int) -> dict[str, Any]:
        """The operator's attributes."""
        members = [
            value for node in self.nodes if node["mode"] == MEMBER for value in (*node["set"], float("nan"))
        ]
        found: dict[str, Any] = {
            "nodes_featureids": [node["feature"] for node in self.nodes],
            "nodes_modes": numpy_helper.from_array(np.array([n["mode"] for n in self.nodes], np.uint8)),
            "nodes_splits": numpy_helper.from_array(np.array([n["split"] for n in self.nodes], self.kind)),
            "nodes_truenodeids": [node["true"] for node in self.nodes],
            "nodes_falsenodeids": [node["false"] for node in self.nodes],
            "nodes_trueleafs": [node["trueleaf"] for node in self.nodes],
            "nodes_falseleafs": [node["falseleaf"] for node in self.nodes],
            "leaf_targetids": [target for target, _ in self.leaves],
            "leaf_weights": numpy_helper.from_array(np.array([w for _, w in self.leaves], self.kind)),
            "tree_roots": self.roots,
            "n_targets": TARGETS,
            "aggregate_function": how,
            "post_transform": 0,
        }
        if members:
            found["membership_values"] = numpy_helper.from_array(np.array(members, self.kind))
        if self.tracks:
            found["nodes_missing_value_tracks_true"] = [node["tracks"] for node in self.nodes]
        return found

    def walk(self, x: np.ndarray, how: int) -> np.ndarray:
        """What a walk from each root gives."""
        made = np.zeros((len(x), TARGETS), self.kind)
        for number, row in enumerate(x):
            for root in self.roots:
                node = self.nodes[root]
                while True:
                    side = "true" if self.holds(node, row[node["feature"]]) else "false"
                    if node[f"{side}leaf"]:
                        break
                    node = self.nodes[node[side]]
                target, weight = self.leaves[node[side]]
                made[number, target] += weight
        return made / len(self.roots) if how == AVERAGE else made

    def holds(self, node: dict[str, Any], value: float) -> bool:
        """Whether the condition of a node holds."""
        if node["tracks"] and np.isnan(value):
            return True
        if node["mode"] == MEMBER:
            return value in node["set"]
        return bool(COMPARED[node["mode"]](value, node["split"]))


@pytest.mark.parametrize("modes", [(0,), (0, MEMBER), (0, 1, 2, 3, 4, 5, MEMBER), (2, 3), (4, 5), (MEMBER,)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("how", [SUM, AVERAGE])
def test_equals_a_walk(modes: Sequence[int], kind: type, how: int, tmp_path: Path) -> None:
    for tracks in (False, True):
        trees = Trees(modes, kind, 7, tracks)
        x = np.random.default_rng(1).integers(0, 10, (40, FEATURES)).astype(kind)
        x[::5, 1] = np.nan
        wanted = trees.walk(x, how)
        model = model_of(
            "TreeEnsemble", {"x": x}, wanted, domain="ai.onnx.ml", opset=5, **trees.attributes(how)
        )
        graph = expanded(model, tmp_path)
        np.testing.assert_allclose(result_of(graph, {"x": x}), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"post_transform": 1},
        {"aggregate_function": 2},
        {"tree_roots": [1000]},
        {"nodes_truenodeids": [0], "nodes_trueleafs": [0]},
    ],
)
def test_other_forests_keep_the_operator(change: dict[str, Any], tmp_path: Path) -> None:
    """A function of the sums, the largest leaf, a root that is none; a way that leads in a circle."""
    trees = Trees((0,), np.float32, 7)
    attributes = trees.attributes(SUM)
    for name, value in change.items():
        rest = attributes[name][1:] if isinstance(value, list) and name.startswith("nodes") else []
        attributes[name] = [*value, *rest] if isinstance(value, list) else value
    x = np.zeros((2, FEATURES), np.float32)
    wanted = np.zeros((2, TARGETS), np.float32)
    model = model_of("TreeEnsemble", {"x": x}, wanted, domain="ai.onnx.ml", opset=5, **attributes)
    assert [node.name for node in expanded(model, tmp_path).nodes] == ["op"]
