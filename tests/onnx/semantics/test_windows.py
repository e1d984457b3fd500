"""Window axes against what ONNX Runtime makes of an average pool, whose divisors show every position."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from npuviz.onnx.reader import read_model
from npuviz.onnx.semantics.windows import WindowAxis, padded_axes, window_axes

SIZE = 6
PADDINGS: list[dict[str, Any]] = [
    {}, {"pads": [0, 0]}, {"pads": [1, 2]}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"},
    {"auto_pad": "VALID"},
]  # fmt: skip


def pooled(axis: WindowAxis, values: np.ndarray, include_padding: bool) -> list[float]:
    sums = [
        sum(values[at] for k in range(axis.kernel) if 0 <= (at := first + k * axis.dilation) < axis.size)
        for first in range(-axis.before, axis.out * axis.stride - axis.before, axis.stride)
    ]
    counts = axis.counts(include_padding)
    return [float(total) / max(1, count) for total, count in zip(sums, counts, strict=True)]


@pytest.mark.parametrize(("ceil", "include", "padding"), list(product((0, 1), (0, 1), PADDINGS)))
def test_average_pools(tmp_path: Path, ceil: int, include: int, padding: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "kernel_shape": [3],
        "strides": [2],
        "ceil_mode": ceil,
        "count_include_pad": include,
        **padding,
    }
    node = helper.make_node("AveragePool", ["x"], ["y"], **given)
    of = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, SIZE])
    to = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [of], [to])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    values = np.arange(1, SIZE + 1, dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected: Any = session.run(None, {"x": values.reshape(1, 1, -1)})[0]
    found = read_model(tmp_path / "m.onnx").nodes[0]
    (axis,) = window_axes(found, (1, 1, SIZE), expected.shape, [3])
    np.testing.assert_allclose(pooled(axis, values, bool(include)), expected.reshape(-1), rtol=1e-6)


def test_inputs_and_spans_agree() -> None:
    axis = WindowAxis(size=9, out=6, kernel=3, stride=2, dilation=2, before=3)
    # Windows 1 to 3 cover -1 to 7.
    assert axis.inputs(1, 4) == (0, 8)
    assert axis.inputs(5, 6) == (7, 9)
    span = axis.span(0)
    assert (span.first, span.source, span.count) == (2, 1, 4)
    assert axis.reach(1) == 5


def test_missing_axes_stand_first() -> None:
    assert padded_axes([WindowAxis(4, 2)], 3) == [WindowAxis(1, 1), WindowAxis(1, 1), WindowAxis(4, 2)]
