"""Integers that a result's type does not hold are told, by operator."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor
from npuviz.sim.checks.findings import findings_of
from npuviz.sim.checks.overflow import overflows
from npuviz.sim.machine import Hazard
from npuviz.workbench.opening import OpenOptions, open_file

INT64 = np.iinfo(np.int64)


def found_in(op_type: str, dtype: str, *operands: np.ndarray | None) -> list[Hazard]:
    """Overflows of one operator with these operands; None: no memory holds it."""
    shapes = [(1,) if each is None else each.shape for each in operands]
    tensors = [Tensor(n, f"x{n}", shape, dtype, "activation", -1) for n, shape in enumerate(shapes)]
    count = len(tensors)
    tensors.append(Tensor(count, "y", shapes[0], dtype, "activation", 0))
    node = Node(0, "one", op_type, "", tuple(range(count)), (count,))
    graph = Graph("one", (node,), tuple(tensors), tuple(range(count)), (count,))
    return [*overflows(graph, lambda tensor: operands[tensor], 7)]


@pytest.mark.parametrize(
    ("op_type", "dtype", "operands", "wrong"),
    [
        ("Add", "int8", ([100, 1], [27, 1]), 0),
        ("Add", "int8", ([100, 1], [28, 1]), 1),
        ("Sub", "uint8", ([5, 9, 4], [9, 9, 9]), 2),
        ("Mul", "int32", ([1 << 16], [1 << 15]), 1),
        ("Mul", "int32", ([1 << 16], [(1 << 15) - 1]), 0),
        ("Sum", "int16", ([20000], [10000], [10000]), 1),
        ("Neg", "int8", ([-128, -127],), 1),
        ("Abs", "int32", ([-(1 << 31)],), 1),
        ("Pow", "int32", ([2, 2, 2], [30, 31, -1]), 1),
        ("MatMul", "int8", ([[64, 64]], [[1], [1]]), 1),
        ("Add", "int64", ([INT64.max, INT64.max], [0, 1]), 1),
        ("Mul", "int64", ([1 << 32], [1 << 31]), 1),
        ("Mul", "int64", ([1 << 31], [1 << 31]), 0),
        ("Max", "int8", ([127], [127]), 0),
        ("ReduceSum", "int32", ([[1 << 30, 1 << 30], [1, 1]],), 1),
        ("ReduceSum", "int32", ([[1 << 30, 1 << 30], [1, 1]], [1]), 1),
        ("ReduceSum", "int32", ([[1 << 30, 1 << 30], [1, 1]], [0]), 0),
        ("ReduceProd", "int16", ([200, 200],), 1),
        ("ReduceL1", "int8", ([-100, 28],), 1),
        ("CumSum", "int8", ([100, 27, 1], [0]), 1),
    ],
)
def test_what_does_not_fit_is_counted(
    op_type: str, dtype: str, operands: tuple[list[int], ...], wrong: int
) -> None:
    found = found_in(op_type, dtype, *(np.array(each, dtype) for each in operands))
    assert len(found) == (wrong > 0)
    for hazard in found:
        assert f"in {wrong} of " in hazard.text
        assert f"one ({op_type})" in hazard.text
        assert (hazard.kind, hazard.level, hazard.cycle, hazard.place) == ("overflow", "warning", 7, "y")
        assert hazard.mend


@pytest.mark.parametrize(
    ("dtype", "value", "is_wrong"),
    [("int8", 127.9, False), ("int8", 128.0, True), ("uint8", -0.5, False), ("uint8", -1.0, True),
     ("int32", 3e9, True), ("int64", 1e19, True), ("int64", 1e18, False), ("int32", np.nan, True)],
)  # fmt: skip
def test_casts_of_floats_that_do_not_fit(dtype: str, value: float, is_wrong: bool) -> None:
    assert bool(found_in("Cast", dtype, np.array([value], np.float32))) == is_wrong


def test_casts_between_integers_and_what_is_not_known_say_nothing() -> None:
    assert found_in("Cast", "int32", np.array([INT64.max])) == []
    assert found_in("Add", "int8", np.array([127], np.int8), None) == []
    assert found_in("Add", "float16", np.array([65504], np.float16), np.array([65504], np.float16)) == []


@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic"])
def test_machines_say_it_at_the_end(target: str, tmp_path: Path) -> None:
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.INT32, [4]) for name in "xy"]
    constant = numpy_helper.from_array(np.full(4, 1 << 30, np.int32), "c")
    nodes = [helper.make_node("Mul", ["x", "c"], ["y"])]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [constant])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    for numbers, wrong in (([1, 0, -1, -2], 0), ([1, 2, -3, 0], 2)):
        inputs = {"x": np.array(numbers, np.int32)}
        session = open_file(path, OpenOptions(target=target, inputs=inputs)).session
        assert session is not None
        session.run()
        found = findings_of(session.machine).hazards
        assert [hazard.kind for hazard in found] == ["overflow"] * (wrong > 0)
        assert all(f"in {wrong} of 4" in hazard.text for hazard in found)
