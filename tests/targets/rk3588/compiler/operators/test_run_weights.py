"""Products of two tensors that only a run tells, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu


@pytest.mark.parametrize(
    "shape", [(8, 8), (24, 40), (70, 33), (3, 5), (2, 7, 9), (1, 12, 24, 32), (2, 3, 17, 5)]
)
def test_a_tensor_times_its_transpose(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Scores of an attention: channels and kernels that fill no group, and all heads."""
    model = Model(*shape)
    x = model.add("Relu", "x")
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    model.add("MatMul", x, model.add("Transpose", x, perm=order))
    on_npu(model.save(tmp_path), SLOW_HOST)


@pytest.mark.parametrize(("heads", "length", "size"), [(4, 24, 16), (2, 40, 8)])
def test_an_attention(tmp_path: Path, heads: int, length: int, size: int) -> None:
    """Rows to heads, scores, a mask for all heads, Softmax, values, and back."""
    model = Model(1, length, heads * size)
    shape = model.constant(np.array([1, length, heads, size]))
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        made = model.add("MatMul", "x", model.weight(heads * size, heads * size))
        parts.append(model.add("Transpose", model.add("Reshape", made, shape), perm=order))
    scores = model.add("Mul", model.add("MatMul", parts[0], parts[1]), model.constant(np.float32(0.25)))
    mask = np.triu(np.full((1, 1, length, length), -10, np.float32), 1)
    shares = model.add("Softmax", model.add("Add", scores, model.constant(mask)), axis=-1)
    made = model.add("Transpose", model.add("MatMul", shares, parts[2]), perm=[0, 2, 1, 3])
    model.add("Reshape", made, model.constant(np.array([1, length, heads * size])))
    on_npu(model.save(tmp_path), SLOW_HOST)


@pytest.mark.parametrize(("shape", "is_first"), [((24,), False), ((24,), True), ((2, 7, 24), False)])
def test_a_vector_of_a_run(tmp_path: Path, shape: tuple[int, ...], is_first: bool) -> None:
    """A tensor times a vector, and a vector times a matrix, both known only in a run."""
    model = Model(*shape)
    if len(shape) == 1:
        other = model.add(
            "Mul", model.add("Reshape", "x", model.constant(np.array([1, 24]))), model.weight(24, 24)
        )
        model.add("MatMul", *(("x", other) if is_first else (other, "x")))
    else:
        model.add("MatMul", "x", model.add("ReduceMean", "x", model.constant(np.array([0, 1])), keepdims=0))
    on_npu(model.save(tmp_path), SLOW_HOST)


@pytest.mark.parametrize("turns", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(tmp_path: Path, turns: tuple[int, int]) -> None:
    model = Model(12, 12)
    third = model.weight(12, scale=1.0)
    other = model.add("Relu", "x")
    model.add("Gemm", "x", other, third, transA=turns[0], transB=turns[1], alpha=0.5, beta=2.0)
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("group", [1, 2, 8])
def test_a_convolution_with_kernels_of_a_run(tmp_path: Path, group: int) -> None:
    model = Model(8, 8, 3, 3)
    kernels = model.add("Mul", "x", model.weight(8, 8, 3, 3, scale=1.0))
    cut = [model.constant(np.array([value])) for value in (0, 8 // group, 1)]
    kernels = model.add("Slice", kernels, *cut)
    model.add("Conv", "x", kernels, group=group, pads=[1, 1, 1, 1])
    checked(model.save(tmp_path))


def test_what_takes_longer_is_the_hosts(tmp_path: Path) -> None:
    model = Model(2, 3)
    model.add("LogSoftmax", model.add("MatMul", "x", model.weight(3, 3)))
    finished = checked(model.save(tmp_path), {"partition": "least-time"})
    assert "LogSoftmax" in finished.nodes_on_host()
    assert any("the Host is faster" in reason for reason in finished.host_reasons)
