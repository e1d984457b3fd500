"""Products in the form with conversions around them are those of 8-bit integers, where both mean the same."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

FORM = ModelForm(integer_products=True)
DRAW = np.random.default_rng(7)


class Model:
    """A model of one product in the form with conversions around it."""

    def __init__(self, kind: Any = np.uint8, weight: Any = np.int8, point: int = 3) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.kind, self.weight, self.point = kind, weight, point

    def hold(self, name: str, values: np.ndarray) -> str:
        self.weights[name] = np.asarray(values)
        return name

    def add(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def codes(self, name: str, step: Any, point: Any, kind: Any) -> list[str]:
        return [
            self.hold(f"{name}_step", np.array(step, np.float32)),
            self.hold(f"{name}_point", np.array(point, kind)),
        ]

    def operands(self, shape: tuple[int, ...], steps: Any, axis: int) -> list[str]:
        """Quantise the input x, and hold weights of this shape."""
        feature = self.codes("x", 0.05, self.point, self.kind)
        self.add("QuantizeLinear", ["x", *feature], "xq")
        self.add("DequantizeLinear", ["xq", *feature], "xr")
        limits = np.iinfo(self.weight)
        codes = DRAW.integers(limits.min, limits.max + 1, shape).astype(self.weight)
        points = np.zeros(np.shape(steps)) if np.ndim(steps) else 0
        weight = self.codes("w", steps, points, self.weight)
        self.add("DequantizeLinear", [self.hold("wq", codes), *weight], "wr", axis=axis)
        return ["xr", "wr"]

    def bias(self, steps: Any, count: int) -> str:
        step = self.hold("b_step", np.asarray(np.float32(0.05) * np.float32(steps)))
        codes = self.hold("bq", DRAW.integers(-900, 900, count).astype(np.int32))
        return self.add("DequantizeLinear", [codes, step], "br", axis=0)

    def rounded(self, name: str, step: float = 0.4, point: int | None = None) -> None:
        result = self.codes("y", step, self.point if point is None else point, self.kind)
        self.add("QuantizeLinear", [name, *result], "yq")
        self.add("DequantizeLinear", ["yq", *result], "y")

    def save(self, path: Path, shape: tuple[int, ...], opset: int = 15) -> Path:
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        held = [numpy_helper.from_array(values, name) for name, values in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", [given], [made], held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        onnx.save(model, path / "m.onnx")
        return path / "m.onnx"


def kinds(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def same(path: Path) -> Graph:
    """Read the model in both forms, require the same results of both, and return the fused one."""
    plain, fused = read_model(path), read_model(path, form=FORM)
    (source,) = plain.inputs
    shape = plain.tensors[source].shape
    inputs = {"x": (DRAW.standard_normal(shape) * 4).astype(np.float32)}
    (one,) = run_reference(plain, inputs, plain.outputs).values()
    (two,) = run_reference(fused, inputs, fused.outputs).values()
    assert np.ptp(one) > 0
    # A sum close to half way between two codes may be rounded either way.
    assert np.mean(np.abs(one - two) > 1e-6) < 0.01
    return fused


@pytest.mark.parametrize(("kind", "weight"), [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)])
@pytest.mark.parametrize("by_kernel", [False, True])
def test_a_convolution_is_one_of_integers(tmp_path: Path, kind: Any, weight: Any, by_kernel: bool) -> None:
    model = Model(kind, weight)
    steps = DRAW.uniform(0.005, 0.02, 4).astype(np.float32) if by_kernel else 0.01
    inputs = [*model.operands((4, 3, 3, 3), steps, 0), model.bias(steps, 4)]
    model.rounded(model.add("Conv", inputs, "c", pads=[1, 1, 0, 0], strides=[2, 1]))
    assert kinds(same(model.save(tmp_path, (2, 3, 9, 8)))) == [
        "QuantizeLinear", "QLinearConv", "DequantizeLinear",
    ]  # fmt: skip


def test_a_convolution_by_groups_along_one_axis(tmp_path: Path) -> None:
    model = Model()
    model.rounded(model.add("Conv", model.operands((6, 1, 5), 0.01, 0), "c", group=6, dilations=[2]))
    assert "QLinearConv" in kinds(same(model.save(tmp_path, (1, 6, 40))))


def test_a_product_of_matrices_by_column(tmp_path: Path) -> None:
    model = Model(np.int8)
    steps = DRAW.uniform(0.005, 0.02, 5).astype(np.float32)
    model.rounded(model.add("MatMul", model.operands((16, 5), steps, 1), "c"))
    assert "QLinearMatMul" in kinds(same(model.save(tmp_path, (7, 16))))


def test_relu_is_saturation_where_the_least_code_is_0(tmp_path: Path) -> None:
    for point, is_fused in ((0, True), (3, False)):
        model = Model()
        made = model.add("Conv", model.operands((4, 3, 3, 3), 0.01, 0), "c")
        model.rounded(model.add("Relu", [made], "r"), point=point)
        graph = same(model.save(tmp_path, (1, 3, 9, 8)))
        assert ("QLinearConv" in kinds(graph), "Relu" in kinds(graph)) == (is_fused, not is_fused)


def test_what_others_read_or_steps_do_not_fit_stays(tmp_path: Path) -> None:
    """A bias in other steps, a sum that others read, weights by rows, codes of two types."""
    other_steps = Model()
    inputs = [*other_steps.operands((4, 3, 3, 3), 0.01, 0), other_steps.bias(0.02, 4)]
    other_steps.rounded(other_steps.add("Conv", inputs, "c"))
    read_twice = Model()
    made = read_twice.add("Conv", read_twice.operands((3, 3, 1, 1), 0.01, 0), "c")
    read_twice.rounded(made)
    read_twice.nodes[-1].output[0] = read_twice.nodes[-1].name = "first"
    read_twice.add("Add", ["first", made], "y")
    by_rows = Model()
    steps = DRAW.uniform(0.005, 0.02, 8).astype(np.float32)
    by_rows.rounded(by_rows.add("MatMul", by_rows.operands((8, 5), steps, 0), "c"))
    mixed = Model()
    mixed_inputs = mixed.operands((4, 3, 3, 3), 0.01, 0)
    mixed.kind = np.int8
    mixed.rounded(mixed.add("Conv", mixed_inputs, "c"))
    for model in (other_steps, read_twice, by_rows, mixed):
        graph = same(model.save(tmp_path, (1, 3, 9, 8)))
        assert not {"QLinearConv", "QLinearMatMul"} & set(kinds(graph))


def test_machines_that_do_not_ask_keep_the_floats(tmp_path: Path) -> None:
    model = Model()
    model.rounded(model.add("Conv", model.operands((4, 3, 3, 3), 0.01, 0), "c"))
    assert "Conv" in kinds(read_model(model.save(tmp_path, (1, 3, 9, 8))))
