"""Bilinear samples: DeformConv against onnx's reference, RoiAlign against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.neuroncore.compiler.onnx_models import check, model, node, values


@quick("3-4-1-1-True", "4-6-2-2-False")
@pytest.mark.parametrize(
    ("channels", "outputs", "groups", "offset_groups", "is_stored"),
    [(3, 4, 1, 1, True), (3, 4, 1, 1, False), (4, 6, 2, 2, True), (4, 6, 2, 2, False), (132, 2, 1, 2, False)],
)
def test_deform_conv(channels: int, outputs: int, groups: int, offset_groups: int, is_stored: bool) -> None:
    weights = {"w": values(outputs, channels // groups, 2, 3, seed=1)}
    inputs = {
        "x": values(2, channels, 6, 7),
        "o": values(2, offset_groups * 12, 5, 4, seed=2) * np.float32(1.5),
        "m": values(2, offset_groups * 6, 5, 4, seed=3),
    }
    stored = {"b": values(outputs, seed=4)} | (weights if is_stored else {})
    if not is_stored:
        inputs |= weights
    nodes = [
        node(
            "DeformConv",
            "x w o b m",
            group=groups,
            offset_group=offset_groups,
            pads=[0, 1, 0, 1],
            strides=[1, 2],
        )
    ]
    check(model(nodes, inputs, stored, opset=19), inputs, uses_runtime=False)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_roi_align(mode: str, transformation: str) -> None:
    regions = np.array([[0, 0, 9, 7], [3, 2, 5.5, 4], [-4, 1, 20, 6], [7, 6, 7.2, 6.1]], np.float32)
    inputs = {
        "x": values(2, 130, 8, 10),
        "r": regions,
        "i": np.array([0, 1, 1, 0], np.int64),
    }
    attributes: dict[str, Any] = {
        "output_height": 3,
        "output_width": 4,
        "sampling_ratio": 2,
        "spatial_scale": 0.8,
        "mode": mode,
        "coordinate_transformation_mode": transformation,
    }
    check(model([node("RoiAlign", "x r i", **attributes)], inputs), inputs)
