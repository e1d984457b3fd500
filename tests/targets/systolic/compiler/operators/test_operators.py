"""Every lowered operator against ONNX Runtime, on a chip small enough that everything is cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from npuviz.onnx.reader import read_model
from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.compiler.bodies import with_bodies
from npuviz.targets.systolic.compiler.compile import compile_true
from tests.sweeps import quick
from tests.targets.systolic.slow_simulator import SlowSimulator
from tests.targets.systolic.true_cases import (
    Compiled,
    assert_everything_stored_once,
    assert_sound,
    chip,
    compile_model,
    constant,
    save_model,
    weights,
)


@dataclass(frozen=True)
class Case:
    """One node: its inputs (a shape, or an initialiser) and where it should run."""

    op: str
    inputs: Sequence[Sequence[int] | onnx.TensorProto | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1
    place: str = "Core"
    opset: int = 18
    domain: str = ""


IMAGE = (2, 12, 9, 10)
UNARY = (
    "Relu Sigmoid Tanh Erf Exp Neg Abs Floor Ceil Sign Softplus Softsign HardSwish Mish LeakyRelu Elu Selu "
    "HardSigmoid"
)

CASES: dict[str, Case] = {
    **{name.lower(): Case(name, [(3, 70)]) for name in UNARY.split()},
    "gelu": Case("Gelu", [(3, 70)], opset=20),
    "gelu tanh": Case("Gelu", [(3, 70)], {"approximate": "tanh"}, opset=20),
    "resize twice": Case(
        "Resize",
        [IMAGE, None, constant("s", [1, 1, 2, 2], np.float32)],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "resize to sizes, half pixels": Case(
        "Resize", [IMAGE, None, None, constant("s", [2, 12, 27, 20])], {"mode": "nearest"}
    ),
    "resize rounded up": Case(
        "Resize",
        [(1, 3, 6, 5), None, constant("s", [1, 1, 2, 2], np.float32)],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"},
        place="Host",
    ),
    "resize linear": Case(
        "Resize",
        [(1, 3, 6, 5), None, constant("s", [1, 1, 2, 2], np.float32)],
        {"mode": "linear"},
        place="Host",
    ),
    "resize by a fraction": Case(
        "Resize",
        [(1, 3, 6, 4), None, constant("s", [1, 1, 1.5, 1], np.float32)],
        {"mode": "nearest"},
        place="Host",
    ),
    "upsample": Case("Upsample", [IMAGE, constant("s", [1, 1, 3, 2], np.float32)], opset=9),
    "pad": Case("Pad", [IMAGE, constant("p", [0, 0, 1, 2, 0, 0, 3, 4]), constant("v", 0.5, np.float32)]),
    "pad all axes": Case(
        "Pad", [(3, 4, 5), constant("p", [1, 2, 3, 4, 5, 6]), constant("v", -1.5, np.float32)]
    ),
    "pad some axes": Case(
        "Pad",
        [(3, 4, 5), constant("p", [2, 1]), constant("v", 2.0, np.float32), constant("a", [-1])],
    ),
    "pad by the mirror": Case("Pad", [(2, 9, 10), constant("p", [0, 3, 2, 0, 1, 4])], {"mode": "reflect"}),
    "pad by the edge": Case("Pad", [IMAGE, constant("p", [0, 0, 1, 2, 0, 0, 3, 4])], {"mode": "edge"}),
    "pad without a value": Case("Pad", [(3, 4), constant("p", [1, 0, 0, 0])], place="Host"),
    "pad that cuts": Case(
        "Pad", [(3, 4), constant("p", [-1, 0, 0, 0]), constant("v", 0.0, np.float32)], place="Host"
    ),
    "unary large": Case("Relu", [(40, 1000)]),
    "add": Case("Add", [(4, 5, 60), (4, 5, 60)]),
    "add row": Case("Add", [(4, 5, 60), (60,)]),
    "add column": Case("Add", [(4, 5, 60), (5, 1)]),
    "add both broadcast": Case("Add", [(4, 1, 60), (5, 1)]),
    "mul scalar": Case("Mul", [(4, 5, 60), constant("s", 3.0, np.float32)]),
    "sub image by channel": Case("Sub", [IMAGE, weights("c", 12, 1, 1)]),
    "div": Case("Div", [weights("n", 3, 4), constant("d", np.full((3, 4), 1.7), np.float32)]),
    "sum of three": Case("Sum", [(4, 60), (60,), (4, 1)]),
    "mean": Case("Mean", [(4, 60), (4, 60)]),
    "max": Case("Max", [(4, 60), (60,), (4, 60)]),
    "min": Case("Min", [(4, 60), (4, 60)]),
    "square": Case("Pow", [(4, 60), constant("e", 2.0, np.float32)]),
    "cube": Case("Pow", [(4, 60), constant("e", 3.0, np.float32)]),
    "prelu": Case("PRelu", [IMAGE, weights("slope", 12, 1, 1)]),
    "clip": Case("Clip", [(4, 60), constant("low", -0.5, np.float32), constant("high", 0.5, np.float32)]),
    "clip old": Case("Clip", [(4, 60)], {"min": -0.25, "max": 1.0}, opset=9),
    "where": Case("Where", [constant("c", np.arange(240).reshape(4, 60) % 3 == 0, np.bool_), (4, 60), (60,)]),
    "batch norm": Case(
        "BatchNormalization",
        [IMAGE, *(constant(n, np.linspace(0.5, 2, 12), np.float32) for n in ("s", "b", "m", "v"))],
    ),
    "gemm": Case("Gemm", [(33, 45), weights("w", 45, 50), weights("b", 50)]),
    "gemm transposed": Case(
        "Gemm", [(45, 33), weights("w", 50, 45), weights("b", 33, 50)], {"transA": 1, "transB": 1}
    ),
    "gemm alpha": Case("Gemm", [(33, 45), weights("w", 45, 50)], {"alpha": 0.5}),
    "gemm beta": Case(
        "Gemm", [(33, 45), weights("w", 45, 50), weights("b", 50)], {"beta": 0.5}, place="Host"
    ),
    "matmul batched": Case("MatMul", [(2, 3, 20, 33), (2, 3, 33, 18)]),
    "matmul broadcast": Case("MatMul", [(2, 3, 20, 33), (3, 33, 18)]),
    "matmul shared": Case("MatMul", [(2, 20, 300), weights("w", 300, 70)]),
    "matmul vector": Case("MatMul", [(3, 20, 33), (33,)]),
    "matmul vectors": Case("MatMul", [(33,), (33,)]),
    "conv": Case("Conv", [IMAGE, weights("w", 20, 12, 3, 3), weights("b", 20)], {"pads": [1, 1, 1, 1]}),
    "conv rectangular": Case(
        "Conv", [IMAGE, weights("w", 20, 12, 1, 5)], {"pads": [0, 2, 0, 1], "strides": [2, 3]}
    ),
    "conv same upper": Case(
        "Conv", [IMAGE, weights("w", 5, 12, 3, 2)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}
    ),
    "conv same lower": Case("Conv", [IMAGE, weights("w", 5, 12, 4, 2)], {"auto_pad": "SAME_LOWER"}),
    "conv dilated": Case("Conv", [IMAGE, weights("w", 7, 12, 3, 3)], {"dilations": [2, 3]}),
    "conv deep": Case("Conv", [(1, 300, 6, 6), weights("w", 40, 300, 3, 3)], {"pads": [1, 1, 1, 1]}),
    "conv grouped": Case("Conv", [IMAGE, weights("w", 18, 6, 3, 3)], {"group": 2}),
    "conv depthwise": Case(
        "Conv", [IMAGE, weights("w", 12, 1, 3, 3), weights("b", 12)], {"group": 12, "strides": [2, 1]}
    ),
    "conv multiplier": Case("Conv", [IMAGE, weights("w", 24, 1, 3, 3)], {"group": 12}),
    "conv 1-D": Case("Conv", [(2, 12, 40), weights("w", 9, 12, 5)], {"pads": [2, 2]}),
    "conv 3-D": Case("Conv", [(1, 2, 5, 5, 5), weights("w", 3, 2, 2, 2, 2)], place="Host"),
    "conv of two activations": Case("Conv", [IMAGE, (5, 12, 3, 3)]),
    "max pool": Case("MaxPool", [IMAGE], {"kernel_shape": [3, 2], "pads": [1, 1, 0, 0], "strides": [2, 1]}),
    "max pool ceil": Case("MaxPool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "max pool 1-D": Case("MaxPool", [(2, 12, 40)], {"kernel_shape": [3]}),
    "average pool": Case("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average pool padded": Case(
        "AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    ),
    "average pool ceil": Case(
        "AveragePool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, opset=19
    ),
    "average pool ceil, padded": Case(
        "AveragePool",
        [IMAGE],
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1},
        opset=19,
    ),
    "global average": Case("GlobalAveragePool", [IMAGE]),
    "global average large": Case("GlobalAveragePool", [(2, 4, 20, 20)]),
    "global max": Case("GlobalMaxPool", [IMAGE]),
    "softmax": Case("Softmax", [(3, 5, 40)]),
    "softmax old": Case("Softmax", [(3, 5, 40)], {"axis": 1}, opset=11),
    "softmax of channels": Case("Softmax", [IMAGE], {"axis": 1}),
    "softmax of many blocks": Case("Softmax", [(40, 7, 3)], {"axis": 1}),
    "softmax of wide rows": Case("Softmax", [(1, 21, 700)], {"axis": 1}),
    "softmax of large blocks": Case("Softmax", [(4, 21, 700)], {"axis": -2}),
    "softmax of the first axis": Case("Softmax", [(9, 130)], {"axis": 0}),
    "softmax of a long axis": Case("Softmax", [(2, 4000, 6)], {"axis": 1}, place="Host"),
    "log softmax": Case("LogSoftmax", [(30, 40)]),
    "log softmax of channels": Case("LogSoftmax", [IMAGE], {"axis": 1}),
    "layer norm": Case("LayerNormalization", [(3, 20, 64), weights("s", 64), weights("b", 64)]),
    "layer norm two axes": Case("LayerNormalization", [(3, 20, 6), weights("s", 20, 6)], {"axis": 1}),
    "skip layer norm": Case(
        "SkipLayerNormalization",
        [(2, 20, 64), (2, 20, 64), weights("s", 64), weights("b", 64), weights("x", 64)],
        {"epsilon": 1e-5},
        domain="com.microsoft",
    ),
    "bias gelu": Case("BiasGelu", [(2, 20, 64), weights("b", 64)], domain="com.microsoft"),
    "fast gelu": Case("FastGelu", [(2, 20, 64), weights("b", 64)], domain="com.microsoft"),
    "lrn": Case("LRN", [IMAGE], {"size": 5, "alpha": 0.1, "beta": 0.6, "bias": 1.5}),
    "reduce mean": Case("ReduceMean", [(3, 5, 40), constant("a", [-1])]),
    "reduce sum middle": Case("ReduceSum", [(3, 5, 40), constant("a", [1])], {"keepdims": 0}),
    "reduce max all": Case("ReduceMax", [(3, 5, 4)], {"keepdims": 0}),
    "reduce apart": Case("ReduceMin", [(3, 5, 40), constant("a", [0, 2])], place="Host"),
    "concat": Case("Concat", [(3, 5, 40), (3, 7, 40), (3, 1, 40)], {"axis": 1}),
    "concat last": Case("Concat", [(3, 5, 40), (3, 5, 3)], {"axis": -1}),
    "split": Case("Split", [(3, 12, 40), constant("n", [5, 7])], {"axis": 1}, outputs=2),
    "transpose": Case("Transpose", [(30, 50)]),
    "transpose heads": Case("Transpose", [(2, 16, 4, 24)], {"perm": [0, 2, 1, 3]}),
    "transpose keys": Case("Transpose", [(2, 16, 4, 24)], {"perm": [0, 2, 3, 1]}),
    "transpose all": Case("Transpose", [(3, 4, 5, 6)], {"perm": [3, 1, 0, 2]}),
    "slice": Case(
        "Slice",
        [
            (8, 10, 40),
            constant("s", [1, -30]),
            constant("e", [9, 1000]),
            constant("a", [1, 2]),
            constant("t", [2, 3]),
        ],
    ),
    "slice backwards": Case(
        "Slice",
        [(8, 10), constant("s", [-1]), constant("e", [-100]), constant("a", [1]), constant("t", [-1])],
    ),
    "slice backwards and forwards": Case(
        "Slice",
        [
            (2, 9, 40),
            constant("s", [7, 3]),
            constant("e", [0, 30]),
            constant("a", [1, 2]),
            constant("t", [-2, 3]),
        ],
    ),
    "slice backwards twice": Case(
        "Slice",
        [
            (8, 9),
            constant("s", [-1, -1]),
            constant("e", [-9, -9]),
            constant("a", [0, 1]),
            constant("t", [-1, -1]),
        ],
        place="Host",
    ),
    "slice a long way backwards": Case(
        "Slice",
        [(300, 4), constant("s", [-1]), constant("e", [-999]), constant("a", [0]), constant("t", [-1])],
        place="Host",
    ),
    "tile": Case("Tile", [(3, 1, 40), constant("r", [2, 3, 1])]),
    "tile the last axis": Case("Tile", [(3, 5), constant("r", [1, 4])]),
    "expand": Case("Expand", [(5, 1, 40), constant("s", [2, 5, 3, 40])]),
    "gather one": Case("Gather", [(5, 8, 40), constant("i", 3)], {"axis": 1}),
    "gather range": Case("Gather", [(5, 8, 40), constant("i", [1, 3, 5])], {"axis": 1}),
    "gather scattered": Case("Gather", [(5, 8, 40), constant("i", [1, 5, 2, 2, 2, 4, 6])], {"axis": 1}),
    "gather by two axes": Case(
        "Gather", [(5, 8, 40), constant("i", np.array([[7, -1, 3], [1, 2, 3]]))], {"axis": 1}
    ),
    "gather one of many": Case("Gather", [(300, 4), constant("i", [1, 0] * 280)], {"axis": 0}),
    "gather points": Case("GatherND", [(5, 8, 40), constant("i", np.array([[4, 7], [-5, -8], [2, 3]]))]),
    "gather elements": Case(
        "GatherElements", [(5, 8), constant("i", np.array([[4, 0, -1], [2, 2, -5]]))], {"axis": 0}
    ),
    "depth to space": Case("DepthToSpace", [IMAGE], {"blocksize": 2}),
    "depth to space CRD": Case("DepthToSpace", [IMAGE], {"blocksize": 2, "mode": "CRD"}),
    "space to depth": Case("SpaceToDepth", [(2, 3, 8, 10)], {"blocksize": 2}),
    "reshape": Case("Reshape", [(4, 30), constant("s", [3, 40])], place="View"),
    "cumulative sum": Case("CumSum", [(4, 30), constant("a", 1)], place="Host"),
}


def write_model(case: Case, path: Path) -> Path:
    """A model with the one node; output shapes are what ONNX Runtime finds."""
    names: list[str] = []
    inputs: dict[str, Sequence[int]] = {}
    initializers: list[onnx.TensorProto] = []
    for index, item in enumerate(case.inputs):
        if isinstance(item, onnx.TensorProto):
            names.append(item.name)
            initializers.append(item)
        elif item is None:
            names.append("")
        else:
            names.append(f"x{index}")
            inputs[names[-1]] = item
    outputs = [f"y{index}" for index in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="node", domain=case.domain, **case.attributes)
    feeds = {name: np.ones(shape, np.float32) for name, shape in inputs.items()}
    save_model(path, [node], inputs, {}, initializers, case.opset)
    shapes = dict(zip(outputs, _result_shapes(path, feeds), strict=True))
    return save_model(path, [node], inputs, shapes, initializers, case.opset)


def _result_shapes(path: Path, feeds: Mapping[str, np.ndarray]) -> list[tuple[int, ...]]:
    """Shapes of the results of the model's one node, which declares none."""
    model = onnx.load(path)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in model.graph.node[0].output)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(value).shape for value in session.run(None, dict(feeds))]


@quick("*-NHWC")
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_operator(case: Case, layout: str, tmp_path: Path) -> None:
    path = write_model(case, tmp_path / "node.onnx")
    compiled = compile_model(path, chip(side=8, cores=3, spad=16, acc=8, precision=4, layout=layout))
    assert compiled.compiled.placement[0] == case.place
    assert_sound(compiled)
    assert_everything_stored_once(compiled)
    result = check(compiled.engine(), compiled.graph)
    assert result.num_failed == 0, result
    assert result.max_rel_err < 1e-5
    if case.place == "Core":
        assert SlowSimulator(compiled.compiled.tables, compiled.spec).run(3_000_000) > 0


def test_a_layer_norm_that_gives_its_mean_runs_as_its_body(tmp_path: Path) -> None:
    case = Case("LayerNormalization", [(3, 20, 64), weights("s", 64)], outputs=3)
    graph = with_bodies(read_model(write_model(case, tmp_path / "node.onnx"), optimize=False), ())
    spec = chip(precision=4)
    compiled = Compiled(graph, spec, compile_true(graph, spec))
    assert "Host" not in compiled.compiled.placement.values()
    result = check(compiled.engine(), graph)
    assert result.num_failed == 0, result


def test_values_of_a_transposition_are_not_only_a_multiset(tmp_path: Path) -> None:
    case = CASES["transpose keys"]
    compiled = compile_model(write_model(case, tmp_path / "node.onnx"), chip(precision=4))
    engine = compiled.engine()
    source = engine.tensor(compiled.graph.inputs[0])
    assert np.array_equal(engine.tensor(compiled.graph.outputs[0]), source.transpose(0, 2, 3, 1))


def test_constants_with_zero_strides_are_stored_in_full(tmp_path: Path) -> None:
    repeated = numpy_helper.from_array(np.full((12, 1, 1), 2.5, np.float32), "c")
    compiled = compile_model(
        write_model(Case("Add", [IMAGE, repeated]), tmp_path / "n.onnx"), chip(precision=4)
    )
    engine = compiled.engine()
    source = engine.tensor(compiled.graph.inputs[0])
    assert np.allclose(engine.tensor(compiled.graph.outputs[0]), source + 2.5)
