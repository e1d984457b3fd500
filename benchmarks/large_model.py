"""Measures time and memory to load, compile, run and check a model of 3,500 varied operators on each target.

`python -m benchmarks.large_model` measures; with `FILE.onnx [OPERATORS]` it writes the model: residual blocks
with squeeze and excitation, concatenated branches, attention, gates, resized pyramids and quantised layers,
one after the other, with random weights.
"""

import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.real_models import TARGETS, run_checked
from benchmarks.row import Row

OPERATORS = 3500
SECONDS = 30.0
MEGABYTES = 1536.0
CHANNELS = 24
SIDE = 14
HEADS = 4


class _Model:
    """Nodes and weights under construction."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self._generator = np.random.default_rng(16)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result. Returns the name of the result."""
        output = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def parts(self, op_type: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several results. Returns their names."""
        name = f"{op_type}_{len(self.nodes)}"
        outputs = [f"{name}.{number}" for number in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))
        return outputs

    def drawn(self, *shape: int, scale: float = 1.0) -> str:
        """Add a weight of normal random numbers, scaled so that products keep the magnitude of the other
        operand."""
        first, *rest = shape
        fan_in = math.prod(rest) if len(rest) > 1 else first
        values = self._generator.normal(0, scale / math.sqrt(max(1, fan_in)), shape)
        return self.constant(values.astype(np.float32))

    def constant(self, values: "np.ndarray | list[int] | float") -> str:
        """Add a weight with these values, or reuse an equal one; lists become int64, numbers float32."""
        kind = np.int64 if isinstance(values, list) else None
        array = np.asarray(np.float32(values) if isinstance(values, float) else values, kind)
        key = f"w{array.shape}{array.dtype}{hash(array.tobytes())}"
        name = self.weights[key].name if key in self.weights else f"weight_{len(self.weights)}"
        self.weights.setdefault(key, numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, outputs: int, inputs: int, **attributes: Any) -> str:
        """Add a convolution with bias, and padding that keeps the size at stride 1."""
        side = attributes.setdefault("kernel_shape", [1, 1])[0]
        attributes.setdefault("pads", [side // 2] * 4)
        weight = self.drawn(outputs, inputs // attributes.get("group", 1), side, side)
        return self.add("Conv", x, weight, self.drawn(outputs, scale=0.1), **attributes)


def _normalised(m: _Model, x: str, channels: int) -> str:
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    return m.add("BatchNormalization", x, *map(m.constant, (ones, zeros, zeros, ones)))


def _residual(m: _Model, x: str) -> str:
    """Add expansion, depthwise convolution, squeeze and excitation, projection."""
    wide = 2 * CHANNELS
    y = _normalised(m, m.conv(x, wide, CHANNELS), wide)
    y = m.add("HardSwish", y)
    y = m.conv(y, wide, wide, kernel_shape=[3, 3], group=wide)
    y = m.add("Clip", y, m.constant(0.0), m.constant(6.0))
    gate = m.add("Relu", m.conv(m.add("GlobalAveragePool", y), 8, wide))
    y = m.add("Mul", y, m.add("HardSigmoid", m.conv(gate, wide, 8), alpha=1 / 6, beta=0.5))
    return m.add("Add", x, m.conv(y, CHANNELS, wide))


def _branches(m: _Model, x: str) -> str:
    """Add three branches with different windows, concatenated."""
    third = CHANNELS // 3
    pooled = m.add("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    ways = [
        m.add("LeakyRelu", m.conv(x, third, CHANNELS), alpha=0.1),
        m.add("Relu", m.conv(m.conv(x, third, CHANNELS), third, third, kernel_shape=[3, 3])),
        m.add("Sigmoid", m.conv(pooled, third, CHANNELS)),
    ]
    return m.add("Add", x, m.add("Concat", *ways, axis=1))


def _layer_normalised(m: _Model, x: str) -> str:
    """Add a layer normalisation as exporters before opset 17 write it."""
    centred = m.add("Sub", x, m.add("ReduceMean", x, axes=[-1]))
    square = m.add("ReduceMean", m.add("Pow", centred, m.constant(2.0)), axes=[-1])
    root = m.add("Sqrt", m.add("Add", square, m.constant(1e-5)))
    y = m.add("Mul", m.add("Div", centred, root), m.constant(np.ones(CHANNELS, np.float32)))
    return m.add("Add", y, m.drawn(CHANNELS, scale=0.1))


def _attention(m: _Model, x: str) -> str:
    """Add self-attention over the pixels of the image at half resolution, and a feed-forward part with
    Gelu."""
    small = m.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    size = (SIDE // 2) ** 2
    row = m.add("Reshape", small, m.constant([1, CHANNELS, size]))
    row = m.add("Transpose", row, perm=[0, 2, 1])
    y = _layer_normalised(m, row)
    split: list[str] = []
    for _ in range(3):
        each = m.add("MatMul", y, m.drawn(CHANNELS, CHANNELS))
        each = m.add("Reshape", each, m.constant([1, size, HEADS, CHANNELS // HEADS]))
        split.append(m.add("Transpose", each, perm=[0, 2, 1, 3]))
    keys = m.add("Transpose", split[1], perm=[0, 1, 3, 2])
    scores = m.add("Mul", m.add("MatMul", split[0], keys), m.constant(float((CHANNELS // HEADS) ** -0.5)))
    y = m.add("MatMul", m.add("Softmax", scores, axis=-1), split[2])
    y = m.add("Reshape", m.add("Transpose", y, perm=[0, 2, 1, 3]), m.constant([1, size, CHANNELS]))
    row = m.add("Add", row, m.add("MatMul", y, m.drawn(CHANNELS, CHANNELS)))
    y = m.add("MatMul", _layer_normalised(m, row), m.drawn(CHANNELS, 2 * CHANNELS))
    curve = m.add("Add", m.add("Erf", m.add("Div", y, m.constant(float(np.sqrt(2))))), m.constant(1.0))
    y = m.add("Mul", m.add("Mul", y, curve), m.constant(0.5))
    y = m.add("Add", row, m.add("MatMul", y, m.drawn(2 * CHANNELS, CHANNELS)))
    y = m.add(
        "Reshape", m.add("Transpose", y, perm=[0, 2, 1]), m.constant([1, CHANNELS, SIDE // 2, SIDE // 2])
    )
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    return m.add("Add", x, m.add("Resize", y, "", scales, mode="nearest"))


def _gated(m: _Model, x: str) -> str:
    """Add a gate by half of the channels for the other half; then a part that is cut out and padded again."""
    left, right = m.parts("Split", 2, m.conv(x, 2 * CHANNELS, CHANNELS), axis=1)
    y = m.add("Mul", m.add("Tanh", left), m.add("Sigmoid", right))
    cut = m.add("Slice", y, m.constant([1, 1]), m.constant([SIDE - 1, SIDE - 1]), m.constant([2, 3]))
    return m.add("Add", x, m.add("Pad", cut, m.constant([0, 0, 1, 1, 0, 0, 1, 1])))


def _pyramid(m: _Model, x: str) -> str:
    """Add downsampling by stride, and upsampling by a transposed convolution and by bilinear
    interpolation."""
    low = m.add("Elu", m.conv(x, CHANNELS, CHANNELS, kernel_shape=[3, 3], strides=[2, 2]))
    up = m.add("ConvTranspose", low, m.drawn(CHANNELS, CHANNELS, 2, 2), strides=[2, 2], kernel_shape=[2, 2])
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    wide = m.add("Resize", low, "", scales, mode="linear", coordinate_transformation_mode="asymmetric")
    return m.add("Add", x, m.add("Mul", m.add("Add", up, wide), m.constant(0.25)))


def _quantised(m: _Model, x: str) -> str:
    """Add a convolution between quantised tensors."""
    zero = m.constant(np.array(128, np.uint8))
    scale = m.constant(0.05)
    y = m.add("DequantizeLinear", m.add("QuantizeLinear", x, scale, zero), scale, zero)
    y = m.add("Relu", m.conv(y, CHANNELS, CHANNELS, kernel_shape=[3, 3]))
    y = m.add("DequantizeLinear", m.add("QuantizeLinear", y, scale, zero), scale, zero)
    # Keeps the magnitude of values in a long chain within the range of the types.
    mean = m.add("ReduceMean", m.add("Abs", m.add("Add", x, y)), axes=[1, 2, 3])
    return m.add("Div", m.add("Add", x, y), m.add("Max", mean, m.constant(0.5)))


BLOCKS = (_residual, _branches, _attention, _gated, _pyramid, _quantised)


def made_model(operators: int = OPERATORS) -> onnx.ModelProto:
    """Make a model of at least this many operators, with one input (1 x 3 x 28 x 28) and ten classes."""
    m = _Model()
    x = m.conv("image", CHANNELS, 3, kernel_shape=[3, 3], strides=[2, 2])
    blocks = _endless()
    while len(m.nodes) < operators - 3:
        x = next(blocks)(m, x)
    x = m.add("Flatten", m.add("GlobalAveragePool", x))
    x = m.add("Gemm", x, m.drawn(CHANNELS, 10), m.drawn(10, scale=0.1))
    m.nodes[-1].output[0] = "classes"
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 2 * SIDE, 2 * SIDE])
    classes = helper.make_tensor_value_info("classes", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(m.nodes, "large", [image], [classes], list(m.weights.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def _endless() -> Iterator[Any]:
    while True:
        yield from BLOCKS


def run() -> list[Row]:
    """Measure processor time and peak memory of `npuviz run --check`, one target after the other."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="npuviz-") as folder:
        path = Path(folder) / "large.onnx"
        onnx.save(made_model(), path)
        for target in TARGETS:
            found = run_checked(
                ["run", str(path), "--target", target, "--check", "--json", "--record", "none"],
                path.with_name(f"{target}.json"),
            )
            is_right = found["exit"] == 0
            name = f"{OPERATORS:,} operators on {target}" + ("" if is_right else f", exit {found['exit']}")
            rows.append(Row(name, found["processor_seconds"], "s", f"{SECONDS:.0f} s", not is_right))
            rows.append(Row(f"{name}, memory", found["megabytes"], "MB", f"{MEGABYTES:.0f} MB"))
    return rows


def main() -> int:
    """Write the model, or measure and print. Returns 1 if a run failed, else 0."""
    if len(sys.argv) > 1:
        onnx.save(made_model(int(sys.argv[2]) if len(sys.argv) > 2 else OPERATORS), sys.argv[1])
        return 0
    rows = run()
    for row in rows:
        print(f"{row.name}: {row.value:.1f} {row.unit}, goal {row.figure}")
    return int(any(row.is_wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
