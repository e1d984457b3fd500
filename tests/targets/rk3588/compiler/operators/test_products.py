"""Products with constant matrices, however their tensors lie, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from npuviz.targets.rk3588.task.work import INT8
from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu


@quick(first=4)
@pytest.mark.parametrize(
    ("shape", "matrix"),
    [
        ((2, 5, 6, 16), (16, 24)),
        ((16,), (16, 24)),
        ((2, 3, 7, 16), (16,)),
        ((2, 3, 4, 16), (3, 16, 8)),
        ((7, 16), (16,)),
        ((16,), (16,)),
        ((5, 9), (1, 9, 3)),
        ((2, 3, 4, 5, 17), (17, 9)),
        ((3, 4, 16), (3, 16, 8)),
        ((2, 1, 4, 16), (3, 16, 5)),
    ],
)
def test_tensors_of_any_dimensions(tmp_path: Path, shape: tuple[int, ...], matrix: tuple[int, ...]) -> None:
    """Vectors at either side, and matrices of their own for every batch."""
    model = Model(*shape)
    model.add("MatMul", model.add("Relu", "x"), model.weight(*matrix))
    on_npu(model.save(tmp_path), SLOW_HOST)


@pytest.mark.parametrize("shape", [(1, 8, 8, 16), (2, 9, 7, 17), (1, 20, 33)])
def test_what_a_convolution_made(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """The tensor lies as a picture or a sequence, because of the convolutions before and behind."""
    model = Model(*shape)
    kernel = [1] * (len(shape) - 2)
    made = model.conv("x", shape[1], shape[1], *kernel)
    made = model.add("Relu", model.add("MatMul", made, model.weight(shape[-1], 24)))
    model.conv(made, shape[1], 8, *kernel)
    on_npu(model.save(tmp_path))


def test_what_a_convolution_of_8_bits_made(tmp_path: Path) -> None:
    model = Model(1, 16, 16, 16)
    made = model.add("MatMul", model.conv("x", 16, 16, 1, 1), model.weight(16, 32))
    model.conv(made, 16, 16, 1, 1)
    finished = checked(model.save(tmp_path, quantised=True))
    assert not finished.nodes_on_host() & {"MatMul"}
    nodes = finished.program.graph.nodes
    found = [task.work.convolution for task in finished.work if nodes[task.node].op_type == "MatMul"]
    assert {each.precision for each in found if each is not None} == {INT8}


@pytest.mark.parametrize("cut", [True, False])
def test_channels_last(tmp_path: Path, cut: bool) -> None:
    """A part of the channels is convolved as a picture, as MambaOut's blocks do."""
    model = Model(1, 16, 8, 8)
    rows = model.add("Transpose", model.conv("x", 16, 16, 1, 1), perm=[0, 2, 3, 1])
    rows = model.add("MatMul", rows, model.weight(16, 24))
    if cut:
        low, high = (
            model.add("Slice", rows, *(model.constant(np.array([value])) for value in (*ends, 3)))
            for ends in ((0, 8), (8, 24))
        )
        picture = model.conv(model.add("Transpose", low, perm=[0, 3, 1, 2]), 8, 8, 3, 3, pads=[1, 1, 1, 1])
        rows = model.add("Concat", model.add("Transpose", picture, perm=[0, 2, 3, 1]), high, axis=3)
    rows = model.add("MatMul", rows, model.weight(24, 16))
    model.add("Transpose", rows, perm=[0, 3, 1, 2])
    finished = on_npu(model.save(tmp_path))
    # Nothing is copied into rows or back.
    assert not any("matmul" in buffer.name and buffer.name.endswith((" rows", " product"))
                   for buffer in finished.tables.buffers)  # fmt: skip
