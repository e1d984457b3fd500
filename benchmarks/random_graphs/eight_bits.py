"""Random graphs on 8-bit integers as quantisers write them: QDQ around convolutions and operators of a
transformer, QLinear operators, dynamic ranges."""

from collections.abc import Callable

import numpy as np

from benchmarks.random_graphs.builder import Builder, Value


def quantised(builder: Builder) -> None:
    """Add convolutions, residuals and pools between QuantizeLinear and DequantizeLinear."""
    channels = builder.choose((3, 8, 16))
    size = builder.choose((6, 8, 12))
    last = _rounded(builder, builder.input(builder.normal(1, channels, size, size)), 4)
    for _ in range(int(builder.rng.integers(2, 6))):
        kind = builder.choose(("conv", "conv", "residual", "pool", "activation"))
        _, channels, size, _ = last.shape
        if kind == "pool" and size >= 4:
            shape = (1, channels, size // 2, size // 2)
            made = builder.add("MaxPool", [last.name], shape, kernel_shape=[2, 2], strides=[2, 2])
        elif kind == "residual":
            left = _quantised_convolution(builder, last, channels)
            made = builder.add("Add", [_rounded(builder, left, 4).name, last.name], last.shape)
        elif kind == "activation":
            made = builder.add(builder.choose(("Sigmoid", "HardSwish", "Relu")), [last.name], last.shape)
        else:
            made = _quantised_convolution(builder, last, builder.choose((8, 16, 20)))
        last = _rounded(builder, made, 6)


def _quantised_convolution(builder: Builder, value: Value, kernels: int) -> Value:
    """Add a convolution with int8 weights and one scale per kernel."""
    _, channels, *plane = value.shape
    weights = builder.rng.integers(-127, 128, (kernels, channels, 3, 3)).astype(np.int8)
    scale = (0.5 + builder.rng.random(kernels)) / (127 * np.sqrt(9 * channels))
    zeros = builder.weight(np.zeros(kernels, np.int8))
    scales = builder.weight(scale.astype(np.float32))
    floats = builder.node("DequantizeLinear", [builder.weight(weights), scales, zeros], axis=0)
    made = builder.add("Conv", [value.name, floats], (1, kernels, *plane), pads=[1] * 4)
    return builder.add("Relu", [made.name], made.shape) if builder.rng.random() < 0.5 else made


def _rounded(builder: Builder, value: Value, reach: float) -> Value:
    """Quantise a tensor to 8 bits for the range -reach to reach, signed or unsigned, and dequantise it."""
    is_signed = builder.rng.random() < 0.7
    zero = np.int8(0) if is_signed else np.uint8(builder.choose((0, 128)))
    scale = builder.weight(np.float32(reach / 127))
    grid = builder.weight(zero)
    whole = builder.node("QuantizeLinear", [value.name, scale, grid])
    return builder.add("DequantizeLinear", [whole, scale, grid], value.shape)


def quantised_rows(builder: Builder) -> None:
    """Add a block of a transformer without heads, with every tensor between QuantizeLinear and
    DequantizeLinear."""
    length, size = builder.choose((3, 8, 12)), builder.choose((8, 16, 24))
    last = _rounded(builder, builder.input(builder.normal(1, length, size)), 4)
    for _ in range(int(builder.rng.integers(1, 4))):
        kind = builder.choose(("product", "product", "norm", "residual", "scores", "activation"))
        size = last.shape[-1]
        if kind == "norm":
            scale, bias = builder.weight(1 + 0.1 * builder.normal(size)), builder.weight(builder.normal(size))
            made = builder.add("LayerNormalization", [last.name, scale, bias], last.shape, axis=-1)
        elif kind == "residual":
            inner = _rounded(builder, _quantised_product(builder, last, size), 4)
            made = builder.add("Add", [inner.name, last.name], last.shape)
        elif kind == "scores":
            turned = builder.add("Transpose", [last.name], (1, size, length), perm=(0, 2, 1))
            turned = _rounded(builder, turned, 6)
            scores = builder.add("MatMul", [last.name, turned.name], (1, length, length))
            shares = builder.add("Softmax", [_rounded(builder, scores, 40).name], scores.shape, axis=-1)
            shares = _rounded(builder, shares, 1)
            made = builder.add("MatMul", [shares.name, last.name], last.shape)
        elif kind == "activation":
            made = builder.add(builder.choose(("Gelu", "Tanh", "Relu")), [last.name], last.shape)
        else:
            made = _quantised_product(builder, last, builder.choose((8, 16, 20)))
        last = _rounded(builder, made, 6)


def _quantised_product(builder: Builder, value: Value, columns: int) -> Value:
    """Add a product with int8 weights with one scale or one per column, and a bias."""
    size = value.shape[-1]
    weights = builder.weight(builder.rng.integers(-127, 128, (size, columns)).astype(np.int8))
    scale = ((0.5 + builder.rng.random(columns)) / (127 * np.sqrt(size))).astype(np.float32)
    if builder.rng.random() < 0.5:
        floats = builder.node("DequantizeLinear", [weights, builder.weight(scale)], axis=1)
    else:
        floats = builder.node("DequantizeLinear", [weights, builder.weight(scale[0])])
    shape = (*value.shape[:-1], columns)
    made = builder.node("MatMul", [value.name, floats])
    return builder.add("Add", [made, builder.weight(0.3 * builder.normal(columns))], shape)


def integer_operators(builder: Builder) -> None:
    """Add QLinearConv, pools and a QLinearMatMul, all on int8 or all on uint8."""
    channels, size = builder.choose((3, 8, 16)), builder.choose((6, 8))
    value = builder.input(builder.normal(1, channels, size, size))
    zero = builder.choose((np.int8(0), np.int8(-7), np.uint8(128)))
    scale, point = builder.weight(np.float32(5 / 127)), builder.weight(zero)
    last = builder.node("QuantizeLinear", [value.name, scale, point])
    for _ in range(int(builder.rng.integers(1, 4))):
        if builder.rng.random() < 0.3 and size >= 4:
            last, size = builder.node("MaxPool", [last], kernel_shape=[2, 2], strides=[2, 2]), size // 2
            continue
        kernels = builder.choose((8, 12, 16))
        weights = builder.rng.integers(-127, 128, (kernels, channels, 3, 3)).astype(np.int8)
        scales = ((0.5 + builder.rng.random(kernels)) / (127 * np.sqrt(9 * channels))).astype(np.float32)
        bias = builder.rng.integers(-2000, 2000, kernels).astype(np.int32)
        given = [last, scale, point, builder.weight(weights), builder.weight(scales)]
        given += [builder.weight(np.zeros(kernels, np.int8)), scale, point, builder.weight(bias)]
        last, channels = builder.node("QLinearConv", given, pads=[1] * 4), kernels
    if builder.rng.random() < 0.5:
        flat = channels * size * size
        last = builder.node("Reshape", [last, builder.weight(np.array([1, flat]))])
        weights = builder.weight(builder.rng.integers(-127, 128, (flat, 10)).astype(np.int8))
        share = builder.weight(np.float32(1 / (127 * np.sqrt(flat))))
        given = [last, scale, point, weights, share, builder.weight(np.int8(0)), scale, point]
        last = builder.node("QLinearMatMul", given)
        builder.add("DequantizeLinear", [last, scale, point], (1, 10))
    else:
        builder.add("DequantizeLinear", [last, scale, point], (1, channels, size, size))


def dynamic_ranges(builder: Builder) -> None:
    """Add products of integers with scales computed at run time, as dynamic quantisation writes them."""
    rows, size = builder.choose((1, 4, 9)), builder.choose((8, 16, 40))
    value = builder.input(builder.normal(rows, size))
    for _ in range(int(builder.rng.integers(1, 4))):
        columns = builder.choose((8, 16, 30))
        weights = builder.rng.integers(-127, 128, (value.shape[1], columns)).astype(np.int8)
        codes, scale, point = builder.nodes_of("DynamicQuantizeLinear", [value.name], 3)
        given = [codes, builder.weight(weights), point]
        if builder.rng.random() < 0.5:
            given.append(builder.weight(np.int8(builder.choose((0, 5)))))
        sums = builder.node("Cast", [builder.node("MatMulInteger", given)], to=1)
        share = np.float32(1 / (127 * np.sqrt(value.shape[1])))
        factor = builder.node("Mul", [scale, builder.weight(share)])
        value = builder.add("Mul", [sums, factor], (rows, columns))
        value = builder.add("Add", [value.name, builder.weight(builder.normal(columns))], value.shape)
        value = builder.add(builder.choose(("Relu", "Tanh", "Gelu")), [value.name], value.shape)


FAMILIES: dict[str, Callable[[Builder], None]] = {
    "quantised": quantised, "quantised rows": quantised_rows, "integer operators": integer_operators,
    "dynamic ranges": dynamic_ranges,
}  # fmt: skip
