"""Writes the sample models anew: `python sample_models/make_samples.py [FOLDER]`.

Weights come from a fixed seed and are scaled to keep activations near one, so that results stay
meaningful in every element type. Running it twice gives the same bytes.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SEED = 20
CALIBRATION_PICTURES = 8
OPSET = 20
IR_VERSION = 10


class ModelBuilder:
    """Nodes and seeded weights of one model, in the order in which they are added."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(SEED)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def weight(self, name: str, *shape: int) -> str:
        """A float32 weight of variance 1 / fan-in; the fan-in is all but the first dimension."""
        fan_in = int(np.prod(shape[1:])) if len(shape) != 2 else shape[0]
        values = self._random.standard_normal(shape) / np.sqrt(max(fan_in, 1))
        return self.constant(name, values.astype(np.float32))

    def constant(self, name: str, values: np.ndarray) -> str:
        """A stored tensor with given values."""
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node with one output of the same name."""
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def save(self, path: Path, name: str, source: Sequence[int | str], result: Sequence[int | str]) -> None:
        """Check and write the model; its input is `input`, its output the last node's."""
        last = self.nodes[-1].output[0]
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, source)],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, result)],
            self.weights,
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="npuviz"
        )
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString(deterministic=True))


def make_cnn(path: Path) -> None:
    """A residual network of two stages on 16x16 pictures, ten classes."""
    model = ModelBuilder()

    def convolve(name: str, source: str, inputs: int, outputs: int, stride: int) -> str:
        weights = [
            model.weight(f"{name}.weight", outputs, inputs, 3, 3),
            model.weight(f"{name}.bias", outputs),
        ]
        return model.add(
            "Conv", [source, *weights], name, kernel_shape=[3, 3], strides=[stride, stride], pads=[1, 1, 1, 1]
        )

    x = model.add("Relu", [convolve("conv1", "input", 3, 16, 1)], "relu1")
    shortcut = model.add("MaxPool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    x = model.add("Relu", [convolve("conv2", shortcut, 16, 16, 1)], "relu2")
    x = model.add("Add", [convolve("conv3", x, 16, 16, 1), shortcut], "residual")
    x = model.add("Relu", [x], "relu3")
    x = model.add("GlobalAveragePool", [x], "pool2")
    x = model.add("Flatten", [x], "flatten", axis=1)
    model.add(
        "Gemm",
        [x, model.weight("classifier.weight", 16, 10), model.weight("classifier.bias", 10)],
        "classifier",
    )
    model.save(path, "tiny_cnn", ["batch", 3, 16, 16], ["batch", 10])


def make_transformer(
    path: Path, tokens: int = 16, width: int = 64, heads: int = 4, hidden: int = 192
) -> None:
    """One pre-norm encoder layer: attention written as products, softmax and transposes; then GELU."""
    model = ModelBuilder()
    depth = width // heads
    split = model.constant("shape.split", np.array([0, tokens, heads, depth], np.int64))
    merge = model.constant("shape.merge", np.array([0, tokens, width], np.int64))
    scale = model.constant("attention.scale", np.array(1 / np.sqrt(depth), np.float32))

    def normalise(name: str, source: str) -> str:
        gain = model.constant(f"{name}.gain", np.ones(width, np.float32))
        bias = model.constant(f"{name}.bias", np.zeros(width, np.float32))
        return model.add("LayerNormalization", [source, gain, bias], name, axis=-1)

    def project(name: str, source: str, inputs: int, outputs: int) -> str:
        product = model.add(
            "MatMul", [source, model.weight(f"{name}.weight", inputs, outputs)], f"{name}.matmul"
        )
        return model.add("Add", [product, model.weight(f"{name}.bias", outputs)], name)

    def split_heads(name: str, source: str, order: Sequence[int]) -> str:
        parts = model.add("Reshape", [project(name, source, width, width), split], f"{name}.split")
        return model.add("Transpose", [parts], f"{name}.heads", perm=order)

    normal = normalise("norm1", "input")
    query = split_heads("query", normal, [0, 2, 1, 3])
    key = split_heads("key", normal, [0, 2, 3, 1])
    value = split_heads("value", normal, [0, 2, 1, 3])
    scores = model.add("Mul", [model.add("MatMul", [query, key], "scores"), scale], "scaled_scores")
    mixed = model.add("MatMul", [model.add("Softmax", [scores], "attention", axis=-1), value], "context")
    mixed = model.add("Transpose", [mixed], "context.transposed", perm=[0, 2, 1, 3])
    mixed = model.add("Reshape", [mixed, merge], "context.merged")
    x = model.add("Add", [project("output", mixed, width, width), "input"], "residual1")
    inner = model.add("Gelu", [project("expand", normalise("norm2", x), width, hidden)], "gelu")
    model.add("Add", [project("contract", inner, hidden, width), x], "residual2")
    model.save(path, "tiny_transformer", ["batch", tokens, width], ["batch", tokens, width])


class Pictures(CalibrationDataReader):
    """Seeded inputs of the network of `make_cnn`."""

    def __init__(self) -> None:
        generator = np.random.default_rng(SEED)
        self._left: Iterator[dict[str, np.ndarray]] = iter(
            [
                {"input": generator.standard_normal((1, 3, 16, 16)).astype(np.float32)}
                for _ in range(CALIBRATION_PICTURES)
            ]
        )

    def get_next(self) -> dict[str, np.ndarray]:
        """The next picture, an empty one behind the last."""
        return next(self._left, {})


def make_int8(source: Path, path: Path) -> None:
    """The network of `source` in int8: weights scaled by channel, activations by tensor."""
    quantize_static(
        str(source),
        str(path),
        Pictures(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    model = onnx.load(path)
    model.producer_name, model.producer_version = "npuviz", ""
    path.write_bytes(model.SerializeToString(deterministic=True))


def main(folder: Path) -> None:
    """Write all models into a folder."""
    make_cnn(folder / "tiny_cnn.onnx")
    make_int8(folder / "tiny_cnn.onnx", folder / "tiny_cnn_int8.onnx")
    make_transformer(folder / "tiny_transformer.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
