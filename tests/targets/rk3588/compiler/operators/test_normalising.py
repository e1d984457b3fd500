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


def variance_by_difference(
    model: Model, source: str, axis: int, sizes: tuple[int, ...], *, is_sum: bool, keeps: bool
) -> tuple[str, str]:
    """The mean and the variance that is the mean of squares less the square of the mean, both with an axis of
    one index."""
    kept = [1 if place == axis else size for place, size in enumerate(sizes)]

    def mean(tensor: str) -> str:
        axes = model.constant(np.array([axis]))
        if not is_sum:
            return model.add("ReduceMean", tensor, axes, keepdims=int(keeps))
        share = model.constant(np.float32(1 / sizes[axis]))
        return model.add("Mul", model.add("ReduceSum", tensor, axes, keepdims=int(keeps)), share)

    squares, whole = mean(model.add("Mul", source, source)), mean(source)
    variance = model.add("Sub", squares, model.add("Mul", whole, whole))
    variance = model.add("Max", model.constant(np.float32(0)), variance)
    if keeps:
        return whole, variance
    shape = model.constant(np.array(kept))
    return model.add("Reshape", whole, shape), model.add("Reshape", variance, shape)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("is_sum", [False, True])
@pytest.mark.parametrize(("sizes", "axis"), [((1, 9, 40), 2), ((7, 24), 1), ((1, 40, 12), 1)])
def test_variances_that_are_differences_are_means_of_squares(
    tmp_path: Path, sizes: tuple[int, ...], axis: int, is_sum: bool, keeps: bool
) -> None:
    """Far from 0, where nothing of the difference is left in fp16."""
    model = Model(*sizes)
    x = model.add("Add", "x", model.constant(np.float32(24)))
    if axis == 1 and len(sizes) == 3:
        x = model.conv(x, sizes[1], sizes[1], 1)  # a sequence, whose channels are its second axis
        x = model.add("Add", x, model.constant(np.float32(24)))
    mean, variance = variance_by_difference(model, x, axis, sizes, is_sum=is_sum, keeps=keeps)
    root = model.add("Sqrt", model.add("Add", variance, model.constant(np.float32(1e-6))))
    like = [size if place == axis else 1 for place, size in enumerate(sizes)]
    factor = model.add("Mul", model.add("Reciprocal", root), model.weight(*like, scale=1.0))
    made = model.add("Mul", model.add("Sub", x, mean), factor)
    made = model.add("Add", made, model.weight(*like, scale=1.0))
    if axis == 1 and len(sizes) == 3:
        model.conv(made, sizes[1], 16, 1)
    finished = on_npu(model.save(tmp_path), {"partition": "most-npu"})
    assert finished.result.is_passed, finished.result.findings


@pytest.mark.parametrize("axis", [1, 2])
def test_other_variances_that_are_differences_stay_on_the_host(tmp_path: Path, axis: int) -> None:
    """What is read elsewhere makes no normalisation, but its digits are kept."""
    model = Model(1, 40, 40)
    x = model.add("Add", "x", model.constant(np.float32(12)))
    mean, variance = variance_by_difference(model, x, axis, (1, 40, 40), is_sum=True, keeps=True)
    model.add("Add", model.add("Sub", x, mean), model.add("Sqrt", variance))
    finished = checked(model.save(tmp_path), {"partition": "most-npu"})
    assert {"Sub", "ReduceSum", "Mul"} <= finished.nodes_on_host()
    assert any("difference of two means" in reason for reason in finished.host_reasons)


def test_means_along_another_axis_than_they_are_taken_off_make_no_normalisation(tmp_path: Path) -> None:
    """A square: rows lose the means of columns."""
    model = Model(12, 12)
    x = model.add("Add", "x", model.constant(np.float32(24)))
    axes = model.constant(np.array([1]))
    mean = model.add("ReduceMean", x, axes, keepdims=0)
    squares = model.add("ReduceMean", model.add("Mul", x, x), axes, keepdims=0)
    variance = model.add("Sub", squares, model.add("Mul", mean, mean))
    root = model.add("Sqrt", model.add("Add", variance, model.constant(np.float32(1e-6))))
    model.add("Div", model.add("Sub", x, mean), root)
    checked(model.save(tmp_path), {"partition": "most-npu"})
