"""Windows over three dimensions: on the NPU over two, where that is worth it."""

from pathlib import Path

import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu


def _network(size: int) -> Model:
    model = Model(1, 2, 8, size, size)
    x = model.conv("x", 2, 8, 3, 3, 3, pads=[1] * 6, kernel_shape=[3, 3, 3])
    x = model.add("MaxPool", model.add("Relu", x), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    x = model.conv(x, 8, 8, 3, 3, 3, pads=[1] * 6, kernel_shape=[3, 3, 3])
    model.add("GlobalAveragePool", x)
    return model


@pytest.mark.parametrize(("size", "is_worth_it"), [(32, True), (4, False)])
def test_the_price_decides(tmp_path: Path, size: int, is_worth_it: bool) -> None:
    finished = checked(_network(size).save(tmp_path))
    assert ("Conv" not in finished.nodes_on_host()) is is_worth_it


def test_all_of_it_can_run_on_the_npu(tmp_path: Path) -> None:
    on_npu(_network(8).save(tmp_path), {"partition": "most-npu"})
