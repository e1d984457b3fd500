"""ONNX models, read and then compiled and run by one of the targets that take them."""

import tempfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper

from tests.fuzz.driving import drive, warm_up
from tests.fuzz.mutations import change_bytes, change_message
from tests.onnx.cases import convolution, random, save, value

SUFFIX = ".onnx"
SHARE = 50
_TARGETS = ("systolic", "neuroncore", "rk3588")
_SHAPES: dict[str, tuple[list[int], dict[str, np.ndarray], dict[str, Any]]] = {
    "Conv": (
        [1, 3, 8, 8],
        {"w": random(4, 3, 3, 3)},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1]},
    ),
    "ConvTranspose": ([1, 3, 4, 4], {"w": random(3, 2, 3, 3)}, {"strides": [2, 2], "output_padding": [1, 1]}),
    "MaxPool": ([1, 2, 8, 8], {}, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "AveragePool": ([1, 2, 8], {}, {"kernel_shape": [3], "pads": [1, 1], "count_include_pad": 1}),
    "Gemm": ([3, 5], {"w": random(5, 4), "b": random(4)}, {"alpha": 0.5, "transB": 0}),
    "MatMul": ([2, 3, 5], {"w": random(5, 4)}, {}),
    "Softmax": ([2, 6], {}, {"axis": -1}),
    "LayerNormalization": ([2, 6], {"s": random(6), "b": random(6)}, {"axis": -1, "epsilon": 1e-5}),
    "Transpose": ([2, 3, 4], {}, {"perm": [2, 0, 1]}),
    "Reshape": ([2, 6], {"shape": np.array([3, -1])}, {"allowzero": 0}),
    "Slice": (
        [4, 6],
        {"begin": np.array([1]), "end": np.array([5]), "axes": np.array([1]), "by": np.array([2])},
        {},
    ),
    "Pad": ([2, 3], {"pads": np.array([0, 1, 1, 0])}, {"mode": "reflect"}),
    "Resize": (
        [1, 1, 4, 4],
        {"roi": random(0), "scales": np.array([1, 1, 2, 2], np.float32)},
        {"mode": "linear"},
    ),
    "ReduceMean": ([2, 3, 4], {}, {"axes": [1], "keepdims": 0}),
    "Gather": ([5, 3], {"i": np.array([0, 4, 1])}, {"axis": 0}),
    "Tile": ([2, 3], {"repeats": np.array([2, 2])}, {}),
    "Expand": ([1, 3], {"shape": np.array([4, 3])}, {}),
    "TopK": ([2, 6], {"k": np.array([3])}, {"axis": -1}),
    "LSTM": ([3, 1, 4], {"w": random(1, 12, 4), "r": random(1, 12, 3)}, {"hidden_size": 3}),
    "CumSum": ([2, 5], {"axis": np.array(1)}, {"reverse": 1}),
    "DepthToSpace": ([1, 8, 2, 3], {}, {"blocksize": 2}),
}


def seeds() -> list[bytes]:
    """A small network, and a model for each of many operators."""
    found: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        found.append(convolution(path).read_bytes())
        for operator, (shape, weights, attributes) in _SHAPES.items():
            outputs = ["y", "i"] if operator == "TopK" else ["y"]
            nodes = [
                helper.make_node("Relu", ["x"], ["a"]),
                helper.make_node(operator, ["a", *weights], outputs, **attributes),
                helper.make_node("Sigmoid", ["y"], ["z"]),
            ]
            x = value("x", [*shape[:-1], "n"] if operator == "Softmax" else [*shape])
            found.append(save(path, nodes, [x], [value("z", None)], weights).read_bytes())
        for name in ("tiny_cnn_int8.onnx", "tiny_transformer.onnx"):
            found.append((Path(__file__).parents[3] / "sample_models" / name).read_bytes())
    return found


def mutate(data: bytes, rng: Random) -> bytes:
    """Change one to three fields of the model; seldom bytes."""
    if rng.random() < 0.05:
        return change_bytes(data, rng)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return change_bytes(data, rng)
    for _ in range(rng.randint(1, 3)):
        change_message(model.graph if rng.random() < 0.95 else model, rng)
    return model.SerializeToString()


def prepare() -> None:
    """Have the kernels."""
    warm_up(*_TARGETS)


def attempt(path: Path) -> object:
    """Open it for a target that its bytes choose."""
    return drive(path, target=_TARGETS[zlib.crc32(path.read_bytes()) % len(_TARGETS)])
