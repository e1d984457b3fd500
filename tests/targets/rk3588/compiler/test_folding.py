"""Convolutions of few channels, whose tasks work on several places of a picture at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.targets.rk3588.task.cost import cost_of
from tests.sweeps import quick, seeds
from tests.targets.rk3588.compiler.models import Finished, Model, on_npu

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
SHORT_TASKS = {"task_ns": "1"}
"""Settings with which folding pays for small pictures, too."""


def put_out(finished: Finished) -> float:
    """Elements that the DPU puts out, with those that fill groups of kernels up."""
    costs = [cost_of(task, finished.spec) for task in finished.work]
    return sum(cost.groups * cost.atoms * cost.out_elements for cost in costs)


def in_whole_groups(finished: Finished, group: int) -> int:
    """Elements of the result, with channels filled up to a group of kernels."""
    (node,) = {task.node for task in finished.work}
    graph = finished.program.graph
    images, channels, height, width = graph.tensors[graph.nodes[node].outputs[0]].shape
    assert channels <= group
    return images * height * width * group


@quick("int8-shape0*", "fp16-shape1*", "int8-shape3*", "int8-shape5*", "fp16-shape6*", "int8-shape8*")
@pytest.mark.parametrize(
    ("shape", "kernels", "kernel", "attributes"),
    [
        ((1, 16, 24, 10), 16, (3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
        ((1, 5, 40, 10), 5, (3, 3), {"group": 5}),
        ((1, 7, 41, 6), 7, (5, 3), {"group": 7, "pads": [2, 1, 2, 1], "strides": [2, 1]}),
        ((2, 8, 34, 6), 8, (3, 3), {"group": 8, "pads": [1, 1, 1, 1], "dilations": [2, 1]}),
        ((2, 3, 36, 6), 3, (2, 2), {"group": 3, "pads": [0, 0, 2, 0]}),
        ((1, 24, 12, 9), 16, (3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 20, 13, 30), 8, (1, 1), {}),
        ((1, 3, 20, 41), 7, (3, 3), {"pads": [1, 0, 1, 1], "strides": [2, 2]}),
        ((2, 20, 43, 31), 5, (3, 3), {"dilations": [2, 1], "strides": [2, 1], "pads": [2, 0, 1, 0]}),
        ((1, 12, 16, 40), 2, (4, 2), {"strides": [3, 1], "pads": [1, 1, 1, 1]}),
    ],
    ids=[f"shape{number}" for number in range(10)],
)
@BOTH
def test_groups_of_kernels_are_filled(
    tmp_path: Path,
    quantised: bool,
    shape: tuple[int, ...],
    kernels: int,
    kernel: tuple[int, int],
    attributes: dict[str, Any],
) -> None:
    """The first five have parts of the picture as surfaces, the others make two rows at once."""
    model = Model(*shape)
    model.conv("x", shape[1], kernels, *kernel, **attributes)
    finished = on_npu(model.save(tmp_path, quantised=quantised, per_channel=quantised), SHORT_TASKS)
    if kernels > 8 and not quantised:
        # An atom of fp16 holds 8 channels.
        return
    group = 64 if "group" in attributes else 32 if quantised else 16
    assert put_out(finished) <= 0.65 * in_whole_groups(finished, group)


@pytest.mark.parametrize("cores", ["1", "3"])
def test_tables_and_several_tiles(tmp_path: Path, cores: str) -> None:
    """Sums of both kinds go into a table behind them; small banks cut the rows of each kind."""
    model = Model(1, 12, 46, 16)
    x = model.conv("x", 12, 12, 3, 3, group=12, pads=[1, 1, 1, 1])
    x = model.add("HardSigmoid", x, alpha=0.2, beta=0.5)
    x = model.add("Sigmoid", model.conv(x, 12, 9, 3, 3, pads=[1, 1, 1, 1]))
    path = model.save(tmp_path, quantised=True)
    settings = {**SHORT_TASKS, "cores": cores, "cbuf_bank_bytes": "1024"}
    finished = on_npu(path, settings)
    tiles = [
        conv for task in finished.work if (conv := task.work.convolution) is not None and conv.out_height > 1
    ]
    assert [any(conv.is_depthwise is wanted for conv in tiles) for wanted in (True, False)] == [True, True]
    assert len(tiles) >= 4


def test_where_tasks_take_longer_than_what_they_save(tmp_path: Path) -> None:
    model = Model(1, 16, 12, 4)
    model.conv("x", 16, 16, 3, 3, group=16, pads=[1, 1, 1, 1])
    (task,) = on_npu(model.save(tmp_path, quantised=True)).work
    assert task.work.convolution is not None
    assert task.work.convolution.out_height == 12


@pytest.mark.parametrize(
    ("channels", "width", "quantised", "is_depthwise"),
    [(16, 96, True, False), (16, 45, False, False), (16, 40, True, True), (8, 40, False, True)],
)
def test_what_fits_only_as_it_is_stays(
    tmp_path: Path, channels: int, width: int, quantised: bool, is_depthwise: bool
) -> None:
    """Folded windows are higher, or read more channels, than the room for features holds."""
    model = Model(1, channels, 60, width)
    if is_depthwise:
        model.conv("x", channels, channels, 9, 1, group=channels)
    else:
        model.conv("x", channels, 8, 7, 1)
    path = model.save(tmp_path, quantised=quantised)
    on_npu(path, {**SHORT_TASKS, "cbuf_bank_bytes": "1024"})


@pytest.mark.parametrize("seed", seeds(3, 20, 60))
def test_random_convolutions(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    channels, kernels = (int(random.integers(1, 17)) for _ in range(2))
    is_depthwise = bool(random.integers(2))
    kernel, strides, dilations = (random.integers(1, most, 2).tolist() for most in (5, 4, 3))
    reach = [(size - 1) * far + 1 for size, far in zip(kernel, dilations, strict=True)]
    pads = [int(random.integers(0, size)) for size in (*reach, *reach)]
    height, width = (int(random.integers(size, size + 40)) for size in reach)
    model = Model(int(random.integers(1, 3)), channels, height, width)
    model.conv(
        "x", channels, channels if is_depthwise else kernels, *kernel,
        strides=strides, dilations=dilations, pads=pads, group=channels if is_depthwise else 1,
    )  # fmt: skip
    quantised = bool(random.integers(2))
    path = model.save(tmp_path, quantised=quantised, per_channel=bool(random.integers(2)))
    on_npu(path, {**SHORT_TASKS, "cores": str(random.integers(1, 4))})
