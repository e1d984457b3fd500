"""Random graphs of other kinds: attention, signals, branches and loops, open dimensions, and graphs in
fp16."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.random_graphs.builder import Builder, Value
from benchmarks.random_graphs.eight_bits import FAMILIES as EIGHT_BITS
from benchmarks.random_graphs.pictures import pictures


def attention(builder: Builder) -> None:
    """Add one or two blocks of a transformer with a mask: causal, padding, given as an input, or none."""
    length, heads, width = builder.choose((4, 7, 12)), builder.choose((1, 2, 4)), builder.choose((8, 16))
    size = heads * width
    value = builder.input(builder.normal(1, length, size))
    mask = _mask(builder, length)
    for _ in range(int(builder.rng.integers(1, 3))):
        scale, bias = builder.weight(1 + 0.1 * builder.normal(size)), builder.weight(builder.normal(size))
        norm = builder.add("LayerNormalization", [value.name, scale, bias], value.shape, axis=-1)
        mixed = _heads(builder, norm, (heads, width), mask)
        value = builder.add("Add", [value.name, mixed.name], value.shape)
        inner = builder.add(
            "MatMul", [value.name, builder.matrix(size, 2 * size, fan_in=size)], (1, length, 2 * size)
        )
        bent = builder.add(builder.choose(("Gelu", "Relu", "Tanh")), [inner.name], inner.shape)
        out = builder.add("MatMul", [bent.name, builder.matrix(2 * size, size, fan_in=2 * size)], value.shape)
        value = builder.add("Add", [value.name, out.name], value.shape)


def _mask(builder: Builder, length: int) -> str:
    """Add a mask for the scores, [length, length] or [1, length]. Returns its name, "" for none."""
    lowest = np.float32(builder.choose((-1e4, -1e9, np.finfo(np.float32).min, -np.inf)))
    kind = builder.choose(("", "causal", "padding", "given"))
    if kind == "causal":
        return builder.weight(np.triu(np.full((length, length), lowest), 1).astype(np.float32))
    if kind == "padding":
        return builder.weight(np.where(np.arange(length) < length - 1, 0, lowest)[None].astype(np.float32))
    if kind == "given":
        flags = builder.input((np.arange(length) < length // 2 + 1)[None].astype(np.int64))
        unseen = builder.node("Equal", [flags.name, builder.weight(np.int64(0))])
        return builder.node("Where", [unseen, builder.weight(lowest), builder.weight(np.float32(0))])
    return ""


def _heads(builder: Builder, value: Value, heads: tuple[int, int], mask: str) -> Value:
    """Add self-attention on [1, length, size]."""
    _, length, size = value.shape
    split = builder.weight(np.array([1, length, *heads]))
    parts: list[str] = []
    for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        made = builder.node("MatMul", [value.name, builder.matrix(size, size, fan_in=size)])
        parts.append(builder.node("Transpose", [builder.node("Reshape", [made, split])], perm=order))
    scores = builder.node("MatMul", parts[:2])
    scores = builder.node("Mul", [scores, builder.weight(np.float32(1 / np.sqrt(heads[1])))])
    scores = builder.node("Add", [scores, mask]) if mask else scores
    shares = builder.node("Softmax", [scores], axis=-1)
    mixed = builder.node("Transpose", [builder.node("MatMul", [shares, parts[2]])], perm=(0, 2, 1, 3))
    joined = builder.node("Reshape", [mixed, builder.weight(np.array(value.shape))])
    return builder.add("MatMul", [joined, builder.matrix(size, size, fan_in=size)], value.shape)


def signals(builder: Builder) -> None:
    """Add 1-D convolutions, transposed ones, pools and perhaps a recurrent operator on [1, channels,
    samples]."""
    channels, length = builder.choose((1, 4, 10)), builder.choose((24, 33, 80))
    value = builder.input(builder.normal(1, channels, length))
    for _ in range(int(builder.rng.integers(2, 6))):
        value = builder.choose((_strided, _strided, _longer, _pooled, _joined))(builder, value)
        value = builder.add(builder.choose(("Relu", "Tanh", "LeakyRelu")), [value.name], value.shape)
    if builder.rng.random() < 0.5:
        _recurrent(builder, value)


def _strided(builder: Builder, value: Value) -> Value:
    _, channels, length = value.shape
    kernels, size = builder.choose((4, 9, 16)), builder.choose((1, 3, 5, 8))
    stride, step = builder.choose((1, 1, 2, 4)), builder.choose((1, 1, 2))
    reach = step * (size - 1) + 1
    left, right = reach // 2, reach - 1 - reach // 2
    found = (length + left + right - reach) // stride + 1
    weights = builder.matrix(kernels, channels, size, fan_in=channels * size)
    where = {"pads": [left, right], "strides": [stride], "dilations": [step]}
    return builder.add("Conv", [value.name, weights], (1, kernels, found), **where)


def _longer(builder: Builder, value: Value) -> Value:
    _, channels, length = value.shape
    if length > 160:
        return value
    kernels = builder.choose((4, 8))
    weights = builder.matrix(channels, kernels, 4, fan_in=2 * channels)
    shape = (1, kernels, 2 * length)
    return builder.add("ConvTranspose", [value.name, weights], shape, strides=[2], pads=[1, 1])


def _pooled(builder: Builder, value: Value) -> Value:
    _, channels, length = value.shape
    kind = builder.choose(("MaxPool", "AveragePool"))
    if length < 3:
        return value
    return builder.add(
        kind, [value.name], (1, channels, (length - 3) // 2 + 1), kernel_shape=[3], strides=[2]
    )


def _joined(builder: Builder, value: Value) -> Value:
    others = [other for other in builder.values if other.shape[2] == value.shape[2]]
    other = builder.choose(others)
    shape = (1, value.shape[1] + other.shape[1], value.shape[2])
    return builder.add("Concat", [value.name, other.name], shape, axis=1)


def _recurrent(builder: Builder, value: Value) -> None:
    _, channels, length = value.shape
    rows = builder.node("Transpose", [value.name], perm=(2, 0, 1))
    size, kind = builder.choose((4, 8)), builder.choose(("LSTM", "GRU"))
    gates = size * (4 if kind == "LSTM" else 3)
    weights = [builder.matrix(1, gates, width, fan_in=width) for width in (channels, size)]
    builder.add(kind, [rows, *weights], (length, 1, 1, size), hidden_size=size)


def control(builder: Builder) -> None:
    """Add a product, then a branch that depends on data, and a loop of a few iterations."""
    rows, columns = builder.choose((3, 5)), builder.choose((8, 12))
    value = builder.input(builder.normal(rows, columns))
    weights = builder.matrix(columns, columns, fan_in=columns)
    value = builder.add("MatMul", [value.name, weights], value.shape)
    if builder.rng.random() < 0.7:
        total = builder.node("ReduceSum", [value.name], keepdims=0)
        choice = builder.node("Greater", [total, builder.weight(np.float32(0))])
        branches = {
            f"{name}_branch": _body(name, builder.choose(("Tanh", "Relu", "Neg")), value)
            for name in ("then", "else")
        }
        value = builder.add("If", [choice], value.shape, **branches)
    if builder.rng.random() < 0.7:
        turns, go_on = builder.weight(np.int64(builder.choose((1, 3, 6)))), builder.weight(np.bool_(True))
        body = _turn_of_loop(builder.choose(("Tanh", "Sigmoid", "Softplus")), value.shape)
        value = builder.add("Loop", [turns, go_on, value.name], value.shape, body=body)
    builder.add("Relu", [value.name], value.shape)


def _body(name: str, kind: str, value: Value) -> onnx.GraphProto:
    """Make a branch with one operator on a tensor of the outer graph."""
    result = helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
    return helper.make_graph([helper.make_node(kind, [value.name], [name])], name, [], [result])


def _turn_of_loop(kind: str, shape: tuple[int, ...]) -> onnx.GraphProto:
    """Make the body of a loop: state = kind(state + state), with this shape."""
    floats, flag = TensorProto.FLOAT, TensorProto.BOOL
    nodes = [
        helper.make_node("Add", ["state", "state"], ["twice"]),
        helper.make_node(kind, ["twice"], ["next"]),
        helper.make_node("Identity", ["go_on"], ["stay"]),
    ]
    entries = [
        helper.make_tensor_value_info("turn", TensorProto.INT64, []),
        helper.make_tensor_value_info("go_on", flag, []),
        helper.make_tensor_value_info("state", floats, shape),
    ]
    results = [
        helper.make_tensor_value_info("stay", flag, []),
        helper.make_tensor_value_info("next", floats, shape),
    ]
    return helper.make_graph(nodes, "turn", entries, results)


def shapes(builder: Builder) -> None:
    """Add operators on open dimensions: reshaping and slicing by results of Shape."""
    batch, length, width = builder.choose((1, 2, 3)), builder.choose((4, 5)), builder.choose((6, 8))
    value = builder.input(builder.normal(batch, length, width), ["batch", "length", width])
    numbers = builder.node("Shape", [value.name])
    one = builder.weight(np.array([1]))
    first = builder.node("Gather", [numbers, builder.weight(np.array([0]))], axis=0)
    rows = builder.node("Gather", [numbers, one], axis=0)
    flat = builder.node("Concat", [first, builder.weight(np.array([-1]))], axis=0)
    value = builder.add("Reshape", [value.name, flat], (batch, length * width))
    weights = builder.matrix(1, 1, fan_in=1)
    value = builder.add("Mul", [value.name, weights], value.shape)
    back = builder.node("Concat", [first, rows, builder.weight(np.array([width]))], axis=0)
    value = builder.add("Reshape", [value.name, back], (batch, length, width))
    fewer = builder.node("Sub", [rows, one])
    axis = builder.weight(np.array([1]))
    value = builder.add(
        "Slice", [value.name, builder.weight(np.array([0])), fewer, axis], (batch, length - 1, width)
    )
    if builder.rng.random() < 0.5:
        last = builder.node("Squeeze", [rows, builder.weight(np.array([0]))])
        count = builder.node("Range", [builder.weight(np.int64(1)), last, builder.weight(np.int64(1))])
        column = builder.node(
            "Unsqueeze", [builder.node("Cast", [count], to=1), builder.weight(np.array([1]))]
        )
        value = builder.add("Add", [value.name, column], value.shape)
    mean = builder.node("ReduceMean", [value.name, axis], keepdims=1)
    builder.add(builder.choose(("Sub", "Mul")), [value.name, mean], value.shape)


def halves(builder: Builder) -> None:
    """Make a graph of another family in fp16."""
    builder.choose((pictures, attention, signals))(builder)
    builder.halve()


FAMILIES: dict[str, Callable[[Builder], None]] = {
    "pictures": pictures, **EIGHT_BITS, "attention": attention, "signals": signals, "control": control,
    "shapes": shapes, "halves": halves,
}  # fmt: skip
