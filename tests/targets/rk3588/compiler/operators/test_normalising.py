"""Normalisations of rows: one operator, and the forms that exporters write."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu


def written_out(model: Model, source: str, *, centres: bool, square: str, inverse: str) -> str:
    """Nodes of a normalisation; the tensor behind them."""
    if centres:
        source = model.add("Sub", source, model.add("ReduceMean", source, model.constant(np.array([-1]))))
    two = model.constant(np.float32(2))
    squares = model.add("Mul", source, source) if square == "Mul" else model.add("Pow", source, two)
    mean = model.add("ReduceMean", squares, model.constant(np.array([-1])))
    total = model.add("Add", mean, model.constant(np.float32(1e-6)))
    if inverse == "Pow":
        return model.add("Mul", source, model.add("Pow", total, model.constant(np.float32(-0.5))))
    root = model.add("Sqrt", total)
    if inverse == "Div":
        return model.add("Div", source, root)
    if inverse == "Reciprocal":
        return model.add("Mul", model.add("Reciprocal", root), source)
    return model.add("Mul", source, model.add("Div", model.constant(np.float32(1)), root))


@pytest.mark.parametrize("shape", [(1, 5, 24), (2, 130, 96), (7, 20), (1, 1, 384)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_layer_normalisation(tmp_path: Path, shape: tuple[int, ...], has_bias: bool) -> None:
    model = Model(*shape)
    given = [model.weight(shape[-1], scale=1.0) for _ in range(1 + has_bias)]
    model.add("LayerNormalization", "x", *given, axis=-1)
    finished = on_npu(model.save(tmp_path), {"cores": "2"})
    assert finished.result.max_rel_err < 1e-3


@pytest.mark.parametrize("centres", [False, True], ids=["rms", "mean"])
@pytest.mark.parametrize(
    ("square", "inverse"), [("Pow", "Div"), ("Mul", "Reciprocal"), ("Pow", "One"), ("Mul", "Pow")]
)
def test_written_out(tmp_path: Path, centres: bool, square: str, inverse: str) -> None:
    model = Model(1, 9, 40)
    made = written_out(model, "x", centres=centres, square=square, inverse=inverse)
    made = model.add("Mul", model.weight(40, scale=1.0), made)
    model.add("Relu", model.add("Add", made, model.weight(40, scale=1.0)))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("size", [3e-3, 1.0, 3e4])
def test_squares_that_fp16_has_not(tmp_path: Path, size: float) -> None:
    model = Model(1, 16, 64)
    x = model.add("Mul", "x", model.constant(np.float32(size / 4)))
    written_out(model, x, centres=False, square="Pow", inverse="Div")
    on_npu(model.save(tmp_path))


def test_what_is_read_elsewhere_stays_apart(tmp_path: Path) -> None:
    model = Model(1, 9, 40)
    mean = model.add("ReduceMean", "x", model.constant(np.array([-1])))
    made = written_out(model, "x", centres=False, square="Pow", inverse="Div")
    model.add("Add", made, mean)
    finished = checked(model.save(tmp_path))
    assert "Pow" not in finished.nodes_on_host()
