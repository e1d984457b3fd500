"""Columns by number, and operators whose results are known."""

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.onnx.passes.own_bodies.written import expanded, model_of, result_of


@pytest.mark.parametrize(("shape", "numbers"), [((3, 4), [1, 3]), ((5,), [[2, 0, 2]]), ((2, 3, 4), [3])])
def test_columns_by_number(shape: tuple[int, ...], numbers: list[int], tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    places = np.array(numbers, np.int64)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    wanted = rows[..., places.reshape(-1)]
    model = model_of("ArrayFeatureExtractor", {"x": x, "n": places}, wanted, domain="ai.onnx.ml", opset=1)
    found = result_of(expanded(model, tmp_path), {"x": x, "n": places})
    np.testing.assert_array_equal(found, wanted)


def test_what_depends_on_constants_only_is_known(tmp_path: Path) -> None:
    sizes = {"bins": np.array(8), "length": np.array(16), "rate": np.array(8192)}
    edges = {"low": np.array(0, np.float32), "high": np.array(4096, np.float32)}
    model = model_of("MelWeightMatrix", {}, np.zeros((9, 8), np.float32), stored={**sizes, **edges})
    graph = expanded(model, tmp_path)
    assert not graph.nodes
    (known,) = (graph.constants[tensor] for tensor in graph.outputs)
    (wanted,) = list(ReferenceEvaluator(model).run(None, {}))
    np.testing.assert_array_equal(known, np.asarray(wanted))


def test_random_numbers_are_not_known(tmp_path: Path) -> None:
    model = model_of("RandomNormal", {}, np.zeros((2, 2), np.float32), shape=[2, 2])
    assert [node.name for node in expanded(model, tmp_path).nodes] == ["op"]
