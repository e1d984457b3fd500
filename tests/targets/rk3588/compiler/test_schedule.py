"""The order of layers: as few changes between NPU and Host as there can be."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.targets.rk3588.compiler.models import Finished, Model, checked


def changes_of_side(finished: Finished) -> int:
    """Spans of Host calls with work of the NPU in between."""
    return len({call.job for call in finished.tables.hosts})


def with_outputs(path: Path, *names: str) -> Path:
    """The model with more outputs."""
    model = onnx.load(path)
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def test_operators_of_the_host_wait_for_each_other(tmp_path: Path) -> None:
    model = Model(4, 64)
    heads = [model.add("Tan", model.add("MatMul", "x", model.weight(64, 48))) for _ in range(4)]
    path = with_outputs(model.save(tmp_path), *heads[:-1])
    finished = checked(path)
    assert finished.nodes_on_host() == {"Tan"}
    # The input; then all that the Host does and gives.
    assert changes_of_side(finished) == 2


def test_inputs_and_outputs_are_converted_together(tmp_path: Path) -> None:
    model = Model(1, 16, 9, 9)
    names = [model.conv("x", 16, 24, 3, 3) for _ in range(5)]
    finished = checked(with_outputs(model.save(tmp_path), *names[:-1]))
    assert changes_of_side(finished) == 2


@pytest.mark.parametrize(("size", "is_island"), [(8, True), (256, False)])
def test_what_stands_between_operators_of_the_host(tmp_path: Path, size: int, is_island: bool) -> None:
    model = Model(size, size)
    made = model.add("Tan", "x")
    model.add("Tan", model.add("MatMul", made, made))
    finished = checked(model.save(tmp_path))
    assert ("MatMul" in finished.nodes_on_host()) == is_island
    assert any("MatMul" in reason for reason in finished.host_reasons) == is_island


def test_products_are_no_islands(tmp_path: Path) -> None:
    model = Model(4, 64)
    model.add("Tan", model.add("MatMul", model.add("Tan", "x"), model.weight(64, 8)))
    assert checked(model.save(tmp_path)).nodes_on_host() == {"Tan"}
