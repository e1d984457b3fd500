"""Random graphs of operators on images, [batch, channels, rows, columns], in any order."""

from collections.abc import Callable

import numpy as np

from benchmarks.random_graphs.builder import Builder, Value

ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Elu", "Softplus", "Gelu", "Erf")
Step = Callable[[Builder, Value], object]


def pictures(builder: Builder) -> None:
    """Add 8 to 15 operators behind one image."""
    shape = (1, builder.choose((3, 8, 16, 24)), builder.choose((4, 6, 8)), builder.choose((4, 6, 8)))
    builder.input(builder.normal(*shape))
    grow(builder, int(builder.rng.integers(8, 16)))


def grow(builder: Builder, num_steps: int) -> None:
    """Add random operators that read recent values."""
    builder.add("Relu", [builder.values[-1].name], builder.values[-1].shape)
    for _ in range(num_steps):
        builder.choose(STEPS)(builder, builder.recent())


def convolution(builder: Builder, value: Value) -> None:
    """Add a convolution of 1 x 1 or 3 x 3, with or without bias."""
    batch, channels, rows, columns = value.shape
    kernels, size = builder.choose((5, 8, 16, 20)), builder.choose((1, 3))
    weights = builder.matrix(kernels, channels, size, size, fan_in=channels * size * size)
    bias = [builder.weight(builder.normal(kernels))] if builder.rng.random() < 0.5 else []
    shape = (batch, kernels, rows, columns)
    builder.add("Conv", [value.name, weights, *bias], shape, pads=[size // 2] * 4)


def depthwise(builder: Builder, value: Value) -> None:
    """Add a depthwise convolution: a kernel for each channel."""
    channels = value.shape[1]
    weights = builder.matrix(channels, 1, 3, 3, fan_in=9)
    builder.add("Conv", [value.name, weights], value.shape, pads=[1] * 4, group=channels)


def _activation(builder: Builder, value: Value) -> None:
    builder.add(builder.choose(ACTIVATIONS), [value.name], value.shape)


def _two(builder: Builder, value: Value) -> None:
    other = builder.alike(value).name
    builder.add(builder.choose(("Add", "Sub", "Mul", "Max")), [value.name, other], value.shape)


def _channels(builder: Builder, value: Value) -> None:
    scale = builder.weight(1 + builder.rng.random((1, value.shape[1], 1, 1)).astype(np.float32))
    builder.add(builder.choose(("Mul", "Div", "Add")), [value.name, scale], value.shape)


def _concat(builder: Builder, value: Value) -> None:
    batch, channels, *plane = value.shape
    others = [other for other in builder.values if (other.shape[0], *other.shape[2:]) == (batch, *plane)]
    other = builder.choose(others)
    shape = (batch, channels + other.shape[1], *plane)
    builder.add("Concat", [value.name, other.name], shape, axis=1)


def _slice(builder: Builder, value: Value) -> None:
    axis = builder.choose([axis for axis in range(4) if value.shape[axis] > 1] or [0])
    size, step = value.shape[axis], builder.choose((1, 1, 2, -1))
    first = min(1, size - 1)
    start, stop = (first, size) if step > 0 else (size - 1, -size - 1)
    shape = list(value.shape)
    shape[axis] = len(range(first, size, step)) if step > 0 else size
    numbers = [builder.weight(np.array([number])) for number in (start, stop, axis, step)]
    builder.add("Slice", [value.name, *numbers], shape)


def _turn(builder: Builder, value: Value) -> None:
    order = builder.choose(((0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 1, 2)))
    builder.add("Transpose", [value.name], [value.shape[axis] for axis in order], perm=order)


def _resize(builder: Builder, value: Value) -> None:
    batch, channels, rows, columns = value.shape
    if rows * columns > 200:
        return
    scales = builder.weight(np.array([1, 1, 2, 2], np.float32))
    mode = builder.choose(("nearest", "linear"))
    shape = (batch, channels, 2 * rows, 2 * columns)
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    builder.add("Resize", [value.name, "", scales], shape, mode=mode, **how)


def _pool(builder: Builder, value: Value) -> None:
    batch, channels, rows, columns = value.shape
    if min(rows, columns) < 2:
        return
    kind = builder.choose(("MaxPool", "AveragePool"))
    builder.add(
        kind, [value.name], (batch, channels, rows // 2, columns // 2), kernel_shape=[2, 2], strides=[2, 2]
    )


def _softmax(builder: Builder, value: Value) -> None:
    kind = builder.choose(("Softmax", "LogSoftmax"))
    builder.add(kind, [value.name], value.shape, axis=builder.choose((1, 2, 3)))


def _norm(builder: Builder, value: Value) -> None:
    columns = value.shape[3]
    scale, bias = builder.weight(1 + 0.1 * builder.normal(columns)), builder.weight(builder.normal(columns))
    builder.add("LayerNormalization", [value.name, scale, bias], value.shape, axis=-1)


def _instances(builder: Builder, value: Value) -> None:
    if value.shape[2] * value.shape[3] < 2:
        return
    channels = value.shape[1]
    scale, bias = builder.weight(1 + 0.1 * builder.normal(channels)), builder.weight(builder.normal(channels))
    builder.add("InstanceNormalization", [value.name, scale, bias], value.shape)


def _reduce(builder: Builder, value: Value) -> None:
    axis = builder.choose((1, 2, 3))
    kind = builder.choose(("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2"))
    found = builder.node(kind, [value.name, builder.weight(np.array([axis]))], keepdims=1)
    builder.add(builder.choose(("Sub", "Add")), [value.name, found], value.shape)


def _pad(builder: Builder, value: Value) -> None:
    batch, channels, rows, columns = value.shape
    mode = builder.choose(("constant", "edge"))
    pads = builder.weight(np.array([0, 0, 1, 0, 0, 0, 0, 1]))
    builder.add("Pad", [value.name, pads], (batch, channels, rows + 1, columns + 1), mode=mode)


def _where(builder: Builder, value: Value) -> None:
    mask = builder.node("Greater", [value.name, builder.weight(np.float32(0))])
    builder.add("Where", [mask, value.name, builder.alike(value).name], value.shape)


def _clip(builder: Builder, value: Value) -> None:
    bounds = [builder.weight(np.float32(bound)) for bound in (-1, 1.5)]
    builder.add("Clip", [value.name, *bounds], value.shape)


def _gather(builder: Builder, value: Value) -> None:
    batch, channels, *plane = value.shape
    rows = builder.rng.integers(0, channels, int(builder.rng.integers(1, 9)))
    builder.add("Gather", [value.name, builder.weight(rows)], (batch, len(rows), *plane), axis=1)


def _scatter(builder: Builder, value: Value) -> None:
    channels = value.shape[1]
    rows = builder.weight(builder.rng.integers(0, channels, (1, channels, 1, 1)))
    spread = builder.node("Expand", [rows, builder.weight(np.array(value.shape))])
    values = [value.name, spread, builder.alike(value).name]
    builder.add("ScatterElements", values, value.shape, axis=1, reduction="add")


def _product(builder: Builder, value: Value) -> None:
    width = builder.choose((4, 16))
    weights = builder.matrix(value.shape[3], width, fan_in=value.shape[3])
    builder.add("MatMul", [value.name, weights], (*value.shape[:3], width))


def _reshape(builder: Builder, value: Value) -> None:
    batch, channels, rows, columns = value.shape
    shape = builder.choose(((batch, channels * rows, columns, 1), (batch, rows, channels, columns)))
    builder.add("Reshape", [value.name, builder.weight(np.array(shape))], shape)


def _gate(builder: Builder, value: Value) -> None:
    mean = builder.node("GlobalAveragePool", [value.name])
    builder.add("Mul", [value.name, builder.node("Sigmoid", [mean])], value.shape)


def _halves(builder: Builder, value: Value) -> None:
    batch, channels, *plane = value.shape
    if channels % 2:
        return
    half = builder.weight(np.array([channels // 2]))
    ends = [builder.weight(np.array([end])) for end in (0, channels)]
    axis = builder.weight(np.array([1]))
    builder.add("Slice", [value.name, ends[0], half, axis], (batch, channels // 2, *plane))
    builder.add("Slice", [value.name, half, ends[1], axis], (batch, channels // 2, *plane))


STEPS: tuple[Step, ...] = (
    convolution, convolution, depthwise, _activation, _activation, _two, _channels, _concat, _slice, _turn,
    _resize, _pool, _softmax, _norm, _instances, _reduce, _pad, _where, _clip, _gather, _scatter, _product,
    _reshape, _gate, _halves,
)  # fmt: skip
