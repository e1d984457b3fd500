"""Convolutions on PE: values against ONNX Runtime over kernels, strides, borders, groups and ranks."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.targets.neuroncore.compiler.operators.conv.transpose import Spread
from npuviz.targets.neuroncore.compiler.operators.conv.weights import pack_groups
from npuviz.targets.neuroncore.compiler.operators.ranges import even_blocks
from tests.sweeps import quick
from tests.targets.neuroncore.compiler.onnx_models import check, model, node, values

DMA_START = 2500
"""Cycles from a trigger to the first element, about."""


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize(
    ("shape", "weights", "attributes"),
    [
        ((1, 3, 20, 20), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 3, 33, 31), (16, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
        ((2, 40, 9, 11), (24, 40, 3, 3), {"pads": [0, 2, 1, 0], "strides": [1, 2]}),
        ((1, 130, 6, 6), (140, 130, 1, 1), {}),
        ((1, 40, 12, 12), (40, 40, 1, 1), {"strides": [2, 2]}),
        ((1, 36, 14, 14), (12, 36, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
        ((1, 33, 5, 600), (8, 33, 1, 3), {"pads": [0, 1, 0, 1]}),
        ((1, 24, 9, 9), (24, 1, 3, 3), {"group": 24, "pads": [1, 1, 1, 1]}),
        ((1, 24, 9, 9), (48, 6, 3, 3), {"group": 4}),
        ((2, 5, 40), (6, 5, 4), {"pads": [2, 1], "strides": [3]}),
        ((1, 34, 5, 6, 7), (10, 34, 2, 3, 3), {"pads": [1, 1, 0, 0, 1, 2], "strides": [1, 2, 1]}),
        ((1, 4, 6, 7), (4, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((1, 40, 6, 7), (4, 40, 3, 4), {"auto_pad": "SAME_LOWER"}),
        ((1, 40, 2, 2), (4, 40, 2, 2), {"pads": [2, 2, 2, 2]}),
    ],
)
def test_conv(
    shape: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any], is_stored: bool
) -> None:
    given_weights = {"w": values(*weights, seed=1)}
    inputs = {"x": values(*shape)} | ({} if is_stored else given_weights)
    stored = {"b": values(weights[0], seed=2)} | (given_weights if is_stored else {})
    check(model([node("Conv", "x w b", **attributes)], inputs, stored), inputs)


@quick(but=["trn3"])
@pytest.mark.parametrize("preset", ["inf1", "trn1", "trn3"])
def test_a_plane_that_does_not_fit_goes_by_rows(preset: str) -> None:
    inputs = {"x": values(1, 33, 200, 130)}
    stored = {"w": values(5, 33, 3, 3, seed=1)}
    made = model([node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c")], inputs, stored)
    check(made, inputs, preset=preset)


@pytest.mark.parametrize(("channels", "kernel", "stride"), [(1, 10, 5), (40, 3, 2)])
def test_a_signal_that_does_not_fit_goes_by_parts(channels: int, kernel: int, stride: int) -> None:
    inputs = {"x": values(1, channels, 60000)}
    stored = {"w": values(8, channels, kernel, seed=1)}
    nodes = [node("Conv", "x w", strides=[stride], pads=[1, 2])]
    check(model(nodes, inputs, stored), inputs)


def test_the_next_operator_finds_the_result_on_chip() -> None:
    inputs = {"x": values(1, 40, 16, 16)}
    stored = {"w": values(40, 40, 3, 3, seed=1), "v": values(20, 40, 1, 1, seed=2)}
    first = node("Conv", "x w", "t", pads=[1, 1, 1, 1])
    made = model([first, node("Conv", "t v")], inputs, stored)
    loads = {
        count: check(model([first], inputs, stored, outputs=["t"]) if count == 1 else made, inputs)
        for count in (1, 2)
    }
    assert loads[2].cycles < 2 * loads[1].cycles


def test_residual_and_activation_on_the_way_out() -> None:
    inputs = {"x": values(1, 40, 10, 10), "r": values(1, 50, 10, 10, seed=1)}
    stored = {"w": values(50, 40, 3, 3, seed=2), "b": values(50, seed=3)}
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Add", "c r", "a"),
        node("Relu", "a"),
    ]
    check(model(nodes, inputs, stored), inputs)


def test_swish_reads_the_sums_twice() -> None:
    inputs = {"x": values(1, 40, 10, 10)}
    stored = {"w": values(50, 40, 3, 3, seed=2)}
    nodes = [node("Conv", "x w", "c"), node("Sigmoid", "c", "s"), node("Mul", "c s")]
    check(model(nodes, inputs, stored), inputs)


@pytest.mark.parametrize("by_channel", [False, True])
def test_conv_integer(by_channel: bool) -> None:
    inputs = {"x": values(1, 5, 8, 8, dtype="uint8"), "w": values(6, 5, 3, 3, dtype="uint8")}
    zero = values(6, dtype="uint8") if by_channel else np.array(4, np.uint8)
    stored = {"zx": np.array(3, np.uint8), "zw": zero}
    made = model([node("ConvInteger", "x w zx zw", pads=[1, 1, 1, 1])], inputs, stored)
    check(made, inputs, tolerance=0, uses_runtime=not by_channel)


def test_conv_integer_of_stored_weights_is_as_deep_as_they_allow() -> None:
    """576 products a sum: more than of any integers, but these weights cannot reach 2^24."""
    inputs = {"x": values(1, 64, 6, 6, dtype="uint8"), "zx": np.array(131, np.uint8)}
    stored = {"w": values(8, 64, 3, 3, dtype="int8") // 4}
    check(model([node("ConvInteger", "x w zx", pads=[1, 1, 1, 1])], inputs, stored), inputs, tolerance=0)


@pytest.mark.parametrize("groups", [1, 3])
def test_qlinear_conv(groups: int) -> None:
    inputs = {"x": values(1, 6, 8, 8, dtype="uint8")}
    stored = {
        "w": values(9, 6 // groups, 3, 3, dtype="int8"),
        "sx": np.array(0.02, np.float32),
        "zx": np.array(3, np.uint8),
        "sw": np.linspace(0.01, 0.05, 9, dtype=np.float32),
        "zw": np.zeros(9, np.int8),
        "sy": np.array(0.2, np.float32),
        "zy": np.array(120, np.uint8),
        "b": values(9, dtype="int32"),
    }
    nodes = [node("QLinearConv", "x sx zx w sw zw sy zy b", group=groups, pads=[1, 1, 1, 1])]
    check(model(nodes, inputs, stored), inputs, tolerance=0)


@pytest.mark.parametrize("channels", [3, 40])  # packed with kernel rows on partitions, and one a partition
@pytest.mark.parametrize(("kind", "zero"), [("uint8", 131), ("int8", 0), ("int8", -7)])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2]])
def test_a_stored_zero_point_costs_no_copy_in_hbm(
    channels: int, kind: str, zero: int, strides: list[int]
) -> None:
    x = values(2, channels, 9, 8, dtype=kind)
    point = np.array(zero, x.dtype)
    stored = {"w": values(5, channels, 3, 3, dtype="int8") // 8}
    nodes = [node("ConvInteger", "x w zx", pads=[1, 2, 0, 1], strides=strides)]
    known = check(model(nodes, {"x": x}, {**stored, "zx": point}), {"x": x}, 0, uses_runtime=kind == "uint8")
    given_late = {"x": x, "zx": point}
    loaded = check(model(nodes, given_late, stored), given_late, 0, uses_runtime=kind == "uint8")
    assert known.cycles < loaded.cycles - 2 * DMA_START


@pytest.mark.parametrize(
    ("shape", "weights", "attributes"),
    [
        ((1, 5, 6, 7), (5, 8, 3, 3), {}),
        ((1, 130, 5, 5), (130, 20, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 6, 7, 6), (6, 4, 3, 2), {"strides": [3, 2], "output_padding": [1, 1], "group": 2}),
        ((1, 5, 9), (5, 3, 4), {"strides": [2], "dilations": [2]}),
        ((1, 3, 3, 4, 4), (3, 4, 2, 3, 3), {"strides": [2, 1, 2]}),
        ((1, 4, 5, 5), (4, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 4, 5, 5), (4, 3, 3, 3), {"strides": [2, 2], "output_shape": [10, 11]}),
    ],
)
def test_conv_transpose(shape: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any]) -> None:
    outputs = weights[1] * int(attributes.get("group", 1))
    inputs = {"x": values(*shape), "w": values(*weights, seed=1)}
    check(
        model([node("ConvTranspose", "x w b", **attributes)], inputs, {"b": values(outputs, seed=2)}), inputs
    )


def test_lrn_over_more_channels_than_partitions() -> None:
    inputs = {"x": values(2, 150, 5, 6)}
    check(model([node("LRN", "x", size=5, alpha=0.3, beta=0.6, bias=1.5)], inputs), inputs)


axes = st.builds(
    WindowAxis,
    size=st.integers(1, 20),
    out=st.integers(1, 12),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    before=st.integers(0, 6),
)


@given(axes, st.integers(0, 11), st.integers(1, 12))
def test_spans_are_the_outputs_with_data(axis: WindowAxis, begin: int, count: int) -> None:
    end = min(axis.out, begin + count)
    for tap in range(axis.kernel):
        wanted = {
            out: at
            for out in range(begin, end)
            if 0 <= (at := out * axis.stride + tap * axis.dilation - axis.before) < axis.size
        }
        span = axis.span(tap, begin, end)
        found = {span.first + i: span.source + i * axis.stride for i in range(span.count)}
        assert found == wanted
        low, high = axis.inputs(begin, end) if begin < end else (0, axis.size)
        assert all(low <= at < high for at in wanted.values())


@given(
    st.builds(
        Spread,
        size=st.integers(1, 12),
        out=st.integers(1, 30),
        kernel=st.integers(1, 5),
        stride=st.integers(1, 4),
        dilation=st.integers(1, 3),
        before=st.integers(0, 6),
    ),
    st.integers(0, 29),
    st.integers(1, 30),
)
def test_transposed_spans_are_the_inputs_that_reach_the_outputs(axis: Spread, begin: int, count: int) -> None:
    end = min(axis.out, begin + count)
    if begin >= end:
        return
    for tap in range(axis.kernel):
        places = {i: i * axis.stride + tap * axis.dilation - axis.before for i in range(axis.size)}
        wanted = {i: place for i, place in places.items() if begin <= place < end}
        span, first = axis.span(tap, begin, end)
        found = {span.first + i: first + i * axis.stride for i in range(span.count)}
        assert found == wanted


@given(st.integers(1, 200), st.integers(1, 64))
def test_even_blocks_cover_and_differ_little(count: int, limit: int) -> None:
    ranges = even_blocks(count, limit)
    sizes = [end - first for first, end in ranges]
    assert sum(sizes) == count
    assert max(sizes) <= limit
    assert len(ranges) == -(-count // max(sizes))


def test_groups_are_packed_into_the_array() -> None:
    for groups, inputs, outputs in product((1, 2, 3, 24, 64), (1, 4, 16, 100), (1, 8, 200)):
        channels = pack_groups(groups, inputs, outputs)
        assert channels.groups * channels.packed == groups
        assert channels.packed == 1 or max(channels.inputs, channels.outputs) <= 128
