"""Parts of tensors, repeated positions, and views of which atoms stay whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from npuviz.targets.rk3588.task.work import INT16
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])


@BOTH
@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([8], [16], [1], [1]),
        ([3], [17], [1], [1]),
        ([1], [20], [1], [3]),
        ([1, 2], [6, 100], [2, 3], [1, 1]),
        ([0, 1], [9, 9], [2, 3], [2, 2]),
        ([1, 5, 1], [2, 9, -1], [0, 1, 3], [1, 1, 3]),
        ([-4], [9], [-2], [2]),
    ],
)
def test_slices(
    tmp_path: Path, quantised: bool, starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> None:
    model = Model(2, 20, 9, 10)
    x = model.add("Relu", "x")
    limits = [model.constant(np.array(values)) for values in (starts, ends, axes, steps)]
    model.add("Slice", x, *limits)
    path = model.save(tmp_path, quantised=quantised)
    checked(path) if quantised else on_npu(path, {"cores": "3"})


@pytest.mark.parametrize(("shape", "axis", "at"), [((12, 40), 1, 16), ((12, 40), 0, 5), ((1, 9, 24), 2, 7)])
def test_slices_of_matrices(tmp_path: Path, shape: tuple[int, ...], axis: int, at: int) -> None:
    model = Model(*shape)
    limits = [model.constant(np.array([value])) for value in (at, 99, axis)]
    model.add("Slice", model.add("Relu", "x"), *limits)
    on_npu(model.save(tmp_path))


def test_steps_back_are_the_hosts(tmp_path: Path) -> None:
    model = Model(1, 8, 50, 5)
    model.add("Slice", "x", *(model.constant(np.array([value])) for value in (-1, -99, 2, -1)))
    assert "a step of -1" in checked(model.save(tmp_path)).host_reasons[0]


@BOTH
@pytest.mark.parametrize("sizes", [[16, 16], [5, 11, 16], [1, 31]])
def test_splits(tmp_path: Path, quantised: bool, sizes: list[int]) -> None:
    model = Model(1, 32, 6, 5)
    x = model.add("Relu", "x")
    model.add("Split", x, model.constant(np.array(sizes)), axis=1)
    split = model.nodes[-1]
    del split.output[:]
    split.output.extend(f"part{number}" for number in range(len(sizes)))
    parts = [model.add("Sigmoid", name) for name in split.output]
    model.add("Concat", *parts, axis=1)
    path = model.save(tmp_path, quantised=quantised)
    checked(path) if quantised else on_npu(path)


@BOTH
@pytest.mark.parametrize("factors", [(2, 2), (1, 3), (4, 1)])
@pytest.mark.parametrize(
    "how",
    [
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"coordinate_transformation_mode": "half_pixel"},
    ],
)
def test_repeated_positions(
    tmp_path: Path, quantised: bool, factors: tuple[int, int], how: dict[str, Any]
) -> None:
    model = Model(2, 20, 5, 6)
    x = model.add("Relu", "x")
    scales = model.constant(np.array([1, 1, *factors], np.float32))
    model.add("Resize", x, "", scales, mode="nearest", **how)
    path = model.save(tmp_path, quantised=quantised)
    checked(path) if quantised else on_npu(path, {"cores": "2"})


def test_wide_rows_that_are_repeated(tmp_path: Path) -> None:
    """More channels and positions than the write DMA can hold apart."""
    model = Model(1, 64, 2, 160)
    scales = model.constant(np.array([1, 1, 2, 2], np.float32))
    model.add("Resize", "x", "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
              nearest_mode="floor")  # fmt: skip
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize(
    ("mode", "scale", "reason"),
    [("cubic", 2.0, "mode cubic"), ("nearest", 1.5, "whole factors")],
)
def test_sizes_that_are_the_hosts(tmp_path: Path, mode: str, scale: float, reason: str) -> None:
    model = Model(1, 8, 6, 6)
    model.add("Resize", "x", "", model.constant(np.array([1, 1, scale, scale], np.float32)), mode=mode)
    assert reason in checked(model.save(tmp_path)).host_reasons[0]


@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((1, 20, 5, 6), (1, 20, 3, 10)),
        ((6, 20, 1, 1), (6, 20)),
        ((6, 20), (6, 20, 1, 1)),
        ((6, 20), (1, 6, 20)),
        ((2, 3, 20), (6, 20)),
        ((2, 20, 3, 4), (2, 20, 12, 1)),
    ],
)
def test_views_that_leave_atoms_whole(
    tmp_path: Path, shape: tuple[int, ...], result: tuple[int, ...]
) -> None:
    model = Model(*shape)
    x = model.add("Relu", "x")
    model.add("Relu", model.add("Reshape", x, model.constant(np.array(result))))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize(
    ("shape", "result"),
    [((1, 8, 64, 4), (1, 16, 64, 2)), ((4, 8, 32, 2), (8, 4, 32, 2)), ((24, 40), (40, 24))],
)
def test_views_that_cut_atoms(tmp_path: Path, shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    """Values are right, wherever they are computed."""
    model = Model(*shape)
    x = model.add("Relu", "x")
    model.add("Relu", model.add("Reshape", x, model.constant(np.array(result))))
    reasons = checked(model.save(tmp_path)).host_reasons
    assert any("do not fill atoms" in reason or "common factors" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((1, 16, 4, 4), (16, 16)),
        ((16, 16), (1, 16, 16, 1)),
        ((16, 384), (1, 16, 12, 32)),
        ((1, 82, 20, 20), (82, 400)),
        ((1, 76, 34, 1), (1, 1, 76, 34)),
        ((1, 20, 5, 5), (20, 25)),
        ((2, 3, 4, 40), (6, 160)),
    ],
)
def test_views_of_other_lanes(tmp_path: Path, shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    model = Model(*shape)
    x = model.add("Relu", "x")
    model.add("Relu", model.add("Reshape", x, model.constant(np.array(result))))
    on_npu(model.save(tmp_path), {"cores": "2"})


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((13, 40), (1, 0)),
        ((1, 3, 6, 10), (0, 2, 3, 1)),
        ((1, 6, 10, 3), (0, 3, 1, 2)),
        ((1, 16, 6, 10), (0, 1, 3, 2)),
        ((2, 20, 9, 11), (3, 2, 1, 0)),
        ((4, 7, 64), (1, 0, 2)),
        ((4, 7, 64), (2, 0, 1)),
    ],
)
def test_transposed(tmp_path: Path, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    model = Model(*shape)
    model.add("Transpose", model.add("Relu", "x"), perm=list(order))
    on_npu(model.save(tmp_path), {"cores": "3"})


def test_infinities_of_a_mask_stay_where_they_are(tmp_path: Path) -> None:
    model = Model(1, 16, 16, 8)
    mask = np.triu(np.full((16, 16), -np.inf, np.float32), 1)[None, :, :, None]
    masked = model.add("Add", model.add("Relu", "x"), model.constant(np.repeat(mask, 8, 3)))
    turned = model.add("Transpose", masked, perm=[0, 3, 1, 2])
    model.add("Softmax", turned, axis=-1)
    finished = checked(model.save(tmp_path))
    assert "Transpose" not in finished.nodes_on_host()


def test_transposed_integers(tmp_path: Path) -> None:
    """Lanes of 16 in int8: a square of 256 kernels."""
    model = Model(1, 24, 6, 10)
    x = model.add("Transpose", model.conv("x", 24, 40, 1, 1), perm=[0, 2, 3, 1])
    model.add("Relu", x)
    finished = on_npu(model.save(tmp_path, quantised=True), {"cores": "2"})
    assert any(task.work.convolution.precision == 0 for task in finished.work if task.work.convolution)


def test_rows_for_the_host(tmp_path: Path) -> None:
    """What the Host reads and writes beside cubes, where the NPU's copy is faster than its own conversion.

    Rows of 35 elements are filled up to whole atoms.
    """
    model = Model(1, 20, 5, 7)
    x = model.conv("x", 20, 24, 1, 1)
    model.conv(model.add("Tan", x), 24, 8, 1, 1)
    finished = checked(model.save(tmp_path))
    assert finished.nodes_on_host() == {"Tan"}
    rows = [buffer for buffer in finished.tables.buffers if buffer.layout == "rows"]
    assert {buffer.shape for buffer in rows} == {(24, 35)}
    assert all(buffer.size_bytes == buffer.shape[0] * 80 for buffer in rows)


@pytest.mark.parametrize("through", [TensorProto.FLOAT16, TensorProto.BOOL])
def test_casts_between_what_is_stored_alike(tmp_path: Path, through: int) -> None:
    """fp16 holds all of them; a Cast to booleans would be a comparison."""
    model = Model(1, 20, 9, 10)
    x = model.add("Relu", "x")
    if through == TensorProto.BOOL:
        x = model.add("Greater", x, model.constant(np.float32(0.5)))
    else:
        x = model.add("Cast", x, to=through)
    model.add("Mul", model.add("Cast", x, to=TensorProto.FLOAT), model.constant(np.float32(3)))
    on_npu(model.save(tmp_path))


def test_casts_to_integers_are_the_hosts(tmp_path: Path) -> None:
    model = Model(1, 20, 9, 10)
    x = model.add("Cast", model.add("Relu", "x"), to=TensorProto.INT32)
    model.add("Cast", x, to=TensorProto.FLOAT)
    assert checked(model.save(tmp_path), SLOW_HOST).nodes_on_host() == {"Cast"}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("channels", [16, 5])
def test_parts_of_tensors_that_lie_as_rows(tmp_path: Path, axis: int, channels: int) -> None:
    """Joined and cut along each of three axes; products want the last one as channels."""
    model = Model(4, 6, channels)
    one = model.add("MatMul", "x", model.weight(channels, channels))
    two = model.add("MatMul", one, model.weight(channels, channels))
    joined = model.add("Concat", one, two, one, axis=axis)
    limits = [model.constant(np.array([each])) for each in (2, 1 << 30, axis, 3 if axis == 1 else 1)]
    cut = model.add("Slice", joined, *limits)
    last = channels if axis < 2 else 3 * channels - 2
    model.add("Relu", model.add("MatMul", cut, model.weight(last, 3)))
    on_npu(model.save(tmp_path), SLOW_HOST)


@pytest.mark.parametrize("shape", [(2, 1, 128), (3, 24, 40), (2, 12, 9)])
@pytest.mark.parametrize("axis", [0, 2])
def test_an_axis_that_is_gone_makes_rows_of_a_sequence(
    tmp_path: Path, shape: tuple[int, ...], axis: int
) -> None:
    """As states of networks that also convolve are taken apart."""
    model = Model(*shape)
    x = model.conv("x", shape[1], shape[1], 1)
    model.add("Relu", model.add("Gather", x, model.constant(np.array(1)), axis=axis))
    on_npu(model.save(tmp_path), SLOW_HOST)


@BOTH
@pytest.mark.parametrize("cores", ["1", "3"])
def test_positions_are_repeated_along_one_axis_after_the_other(
    tmp_path: Path, quantised: bool, cores: str
) -> None:
    """Where tasks take longer than the work of one: 6 + 7 of them instead of 42."""
    model = Model(1, 20, 3, 5)
    x = model.conv("x", 20, 20, 1, 1)
    model.add("Resize", x, "", model.constant(np.array([1, 1, 6, 7], np.float32)), mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    path = model.save(tmp_path, quantised=quantised)
    finished = on_npu(path, {**SLOW_HOST, "cores": cores})
    nodes = finished.program.graph.nodes
    count = sum(nodes[task.node].op_type == "Resize" for task in finished.work)
    assert count == 6 + 7
    at_once = on_npu(path, {**SLOW_HOST, "cores": cores, "task_ns": "1"})
    assert sum(nodes[task.node].op_type == "Resize" for task in at_once.work) == 6 * 7


def test_channels_of_other_scales_are_joined_by_copies_and_one_product(tmp_path: Path) -> None:
    """The product brings each to the scale of the result, so that copies go in pairs."""
    model = Model(1, 12, 8, 8)
    parts = [model.conv("x", 12, channels, 1, 1) for channels in (12, 5, 20)]
    parts[1] = model.add("Sigmoid", parts[1])
    model.add("Concat", *parts, axis=1)
    finished = on_npu(model.save(tmp_path, quantised=True), SLOW_HOST)
    nodes = finished.program.graph.nodes
    joins = [task.work for task in finished.work if nodes[task.node].op_type == "Concat"]
    written = [work.output.precision_out for work in joins if work.convolution is None and work.output]
    assert written == [INT16] * 3
    assert sum(work.convolution is not None for work in joins) == 1


@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
@pytest.mark.parametrize(
    ("shape", "axis", "span", "tasks"),
    [
        ((1, 60, 3, 4, 32), 2, (1, 2), 1),
        ((8, 9, 3, 2, 48), 2, (2, 3), 1),
        ((2, 30, 5, 6, 32), 2, (1, 4), 3),
        ((3, 7, 5, 7, 16), 3, (1, 4), 3),
        ((3, 16, 2, 4, 16), 0, (1, 2), 1),
    ],
)
def test_parts_of_five_dimensions_are_a_few_tasks(
    tmp_path: Path,
    shape: tuple[int, ...],
    axis: int,
    span: tuple[int, int],
    tasks: int,
    quantised: bool,
    cores: str,
) -> None:
    model = Model(*shape)
    limits = [model.constant(np.array([each])) for each in (*span, axis)]
    model.add("Relu", model.add("Slice", model.add("Relu", "x"), *limits))
    finished = on_npu(model.save(tmp_path, quantised=quantised), {**SLOW_HOST, "cores": cores})
    nodes = finished.program.graph.nodes
    assert sum(nodes[task.node].op_type == "Slice" for task in finished.work) == tasks


def test_heads_that_are_joined_between_others_are_one_task(tmp_path: Path) -> None:
    model = Model(1, 60, 1, 4, 32)
    parts = [model.add("Relu", "x"), model.add("Neg", "x"), model.add("Relu", "x")]
    model.add("Concat", *parts, axis=2)
    finished = on_npu(model.save(tmp_path), SLOW_HOST)
    nodes = finished.program.graph.nodes
    assert sum(nodes[task.node].op_type == "Concat" for task in finished.work) == len(parts)
