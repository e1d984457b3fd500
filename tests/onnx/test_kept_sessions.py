"""Nodes that are alike share a session of ONNX Runtime; those that are not, do not."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from npuviz.base.errors import FormatError
from npuviz.onnx import single_node
from npuviz.onnx.reader import read_model
from npuviz.onnx.single_node import run_node
from npuviz.program.graph import Graph

TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[2, 3] x, float[3] y, int64[1] i) =>
  (float[2, 3] a, float[2, 3] b, float[2, 3] c, float[3, 2] d, float[2, 3] e, float[2, 3] f,
   float[2, 3] r, float[2, 3] s, float[1, 3] t)
{ a = Add(x, y)
  b = Add(a, y)
  c = Add(x, x)
  d = Transpose <perm = [1, 0]> (x)
  e = LeakyRelu <alpha = 0.5> (x)
  f = LeakyRelu <alpha = 0.25> (x)
  r = RandomNormalLike <seed = 1.0> (x)
  s = RandomNormalLike <seed = 1.0> (x)
  t = Gather <axis = 0> (x, i) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "m.onnx")
    single_node._session_of.cache_clear()
    return read_model(tmp_path / "m.onnx", optimize=False)


def _result(graph: Graph, name: str, **given: np.ndarray) -> np.ndarray:
    ids = {tensor.name: tensor.id for tensor in graph.tensors}
    node = graph.nodes[graph.tensors[ids[name]].producer]
    (made,) = run_node(graph, node, {ids[key]: value for key, value in given.items()}).values()
    return made


def _opened() -> int:
    return single_node._session_of.cache_info().misses


X, Y = np.arange(6, dtype=np.float32).reshape(2, 3) - 3, np.array([1, 2, 3], np.float32)


def test_nodes_of_one_kind_types_and_shapes_share_a_session(graph: Graph) -> None:
    np.testing.assert_array_equal(_result(graph, "a", x=X, y=Y), X + Y)
    np.testing.assert_array_equal(_result(graph, "b", a=X + Y, y=Y), X + 2 * Y)
    assert _opened() == 1


def test_those_of_other_inputs_or_attributes_have_their_own(graph: Graph) -> None:
    _result(graph, "a", x=X, y=Y)
    np.testing.assert_array_equal(_result(graph, "c", x=X), 2 * X)
    np.testing.assert_array_equal(_result(graph, "e", x=X), np.where(X < 0, X / 2, X))
    np.testing.assert_array_equal(_result(graph, "f", x=X), np.where(X < 0, X / 4, X))
    np.testing.assert_array_equal(_result(graph, "d", x=X), X.T)
    assert _opened() == 5


def test_a_node_that_draws_begins_anew(graph: Graph) -> None:
    """A session goes on with its generator."""
    np.testing.assert_array_equal(_result(graph, "r", x=X), _result(graph, "s", x=X))
    assert _opened() == 0


def test_a_run_that_fails_names_its_node(graph: Graph) -> None:
    with pytest.raises(FormatError, match="indices element out of data bounds") as raised:
        _result(graph, "t", x=X, i=np.array([7]))
    assert "t0" not in str(raised.value)
