# Which differences between the machine and the reference count, at the edges of fp16.
from pathlib import Path

import numpy as np
import onnx
import pytest

from npuviz.onnx.reader import read_model
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.check.errors import rules_of


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path = tmp_path_factory.mktemp("models") / "relu.onnx"
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float16[8] x) => (float16[8] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    return read_model(path)


def _bad(graph: Graph, found: list[float], exact: list[float]) -> list[bool]:
    rule = rules_of(graph, "float32")(graph.outputs[0])
    with np.errstate(over="ignore"):
        return rule(np.array(found, np.float16), np.array(exact, np.float32)).bad.tolist()


def test_an_allowed_error_may_decide_what_is_infinite(graph: Graph) -> None:
    assert _bad(graph, [np.inf, 65000.0, np.inf], [65400.0, 65600.0, 70000.0]) == [False] * 3


def test_infinities_far_from_the_range_are_wrong(graph: Graph) -> None:
    assert _bad(graph, [np.inf, 60000.0], [1.0, 60000.0]) == [True, False]
    assert _bad(graph, [1.0, 60000.0], [70000.0, 60000.0]) == [True, False]
    assert _bad(graph, [-np.inf, 60000.0], [65500.0, 60000.0]) == [True, False]


def test_real_infinities_are_compared_exactly(graph: Graph) -> None:
    assert _bad(graph, [65504.0, np.inf, -np.inf], [np.inf, np.inf, np.inf]) == [True, False, True]


@pytest.mark.parametrize(("dtype", "is_bad"), [("float", True), ("double", True), ("float8e4m3fn", False)])
def test_only_8_bit_floats_may_be_off_by_a_third(dtype: str, is_bad: bool, tmp_path: Path) -> None:
    path = tmp_path / "identity.onnx"
    head = '<ir_version: 10, opset_import: ["" : 20]>'
    text = f"{head} g ({dtype}[2] x) => ({dtype}[2] y) {{ y = Identity(x) }}"
    onnx.save(onnx.parser.parse_model(text), path)
    graph = read_model(path)
    kind = numpy_dtype(graph.tensors[graph.outputs[0]].dtype)
    found, exact = np.array([1.0, 2.0], kind), np.array([1.5, 3.0], kind)
    assert rules_of(graph, "float32")(graph.outputs[0])(found, exact).bad.all() == is_bad
