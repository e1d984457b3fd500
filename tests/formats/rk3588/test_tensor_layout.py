"""Layouts of the RK3588: public samples, the memory images of a product, packing and back."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.rk3588_streams import feature_offset, pack_weights, weight_offset
from npuviz.base.errors import FormatError
from npuviz.formats.rk3588 import tensor_layout as layout
from npuviz.formats.rk3588.tensor_layout import WeightShape
from tests.formats.rk3588.cases import DATA, matmul_memory

SAMPLES = (DATA / "layout_samples_public.txt").read_text().splitlines()[1:]
_NUMBERS = re.compile(r"-?\d+")
SMALL = st.integers(1, 5)


def sample_parts(line: str) -> tuple[dict[str, int], list[int]]:
    """Coordinates (from 0) and sizes of a sample line, and its offsets in order."""
    head = line.split("->")[0]
    parts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", head)}
    for key in "kchw":
        if key in parts:
            parts[key] -= 1
    return parts, [int(_NUMBERS.findall(part)[0]) for part in line.split("->")[1:]]


def test_all_weight_samples():
    """Offset functions and packed arrays agree with every sample of a 1x1 kernel."""
    checked = 0
    for line in (each for each in SAMPLES if each.startswith("W")):
        parts, offsets = sample_parts(line)
        assert len(offsets) == 2
        shape = WeightShape(512, parts["C"])
        for dtype, offset in zip(("float16", "int8"), offsets, strict=True):
            group = layout.packing(dtype).kernels
            assert weight_offset(parts["k"], parts["c"], 0, 0, shape=shape, group=group) == offset
            checked += 1
    for channels in {sample_parts(line)[0]["C"] for line in SAMPLES if line.startswith("W")}:
        numbers = np.arange(512 * channels, dtype=np.int32).reshape(512, channels, 1, 1)
        for dtype, place in (("float16", 0), ("int8", 1)):
            packed = pack_weights(numbers, layout.packing(dtype).kernels)
            for line in SAMPLES:
                parts, offsets = sample_parts(line)
                if line.startswith("W") and parts["C"] == channels:
                    assert packed[offsets[place]] == numbers[parts["k"], parts["c"], 0, 0]
    assert checked == 2 * sum(line.startswith("W") for line in SAMPLES)


def test_all_feature_samples():
    checked = 0
    for line in (each for each in SAMPLES if each.startswith("F")):
        parts, offsets = sample_parts(line)
        channels, height, width = parts["C"], parts["H"], parts["W"]
        numbers = np.arange(channels * height * width).reshape(channels, height, width)
        for dtype, offset in zip(("float16", "int8", "float32"), offsets, strict=True):
            group = layout.packing(dtype).channels
            at = (parts["c"], parts["h"], parts["w"])
            assert feature_offset(*at, height=height, width=width, group=group) == offset
            assert layout.pack_features(numbers, group)[offset] == numbers[at]
            checked += 1
    assert checked == 3 * sum(line.startswith("F") for line in SAMPLES)
    assert len(SAMPLES) == 528


def test_memory_images_of_the_matrix_product():
    memory = matmul_memory()
    a = np.array(memory["A"], np.float16)
    b = np.array(memory["B"], np.float16)
    feature = layout.pack_features(a.T.reshape(36, 4, 1), 8, channels=64)
    assert layout.image_bytes(feature).hex() == memory["feature_fp16_hex"]
    padded = np.zeros((16, 64, 1, 1), np.float16)
    padded[:, :36, 0, 0] = b
    assert layout.image_bytes(pack_weights(padded, 16)).hex() == memory["weight_fp16_hex"]
    output = np.frombuffer(bytes.fromhex(memory["output_fp32_hex"]), np.float32)
    c = layout.unpack_features(output, 16, 4, 1, 4)[:, :, 0].T
    np.testing.assert_array_equal(c, np.array(memory["C"], np.float32))
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert (
        layout.image_bytes(layout.pack_features(c.T.reshape(16, 4, 1), 4)).hex() == memory["output_fp32_hex"]
    )


def test_packed_weights_unpack_to_the_image_again():
    memory = matmul_memory()
    image = np.frombuffer(bytes.fromhex(memory["weight_fp16_hex"]), np.float16)
    b = layout.unpack_weights(image, WeightShape(16, 64), 16)[:, :36, 0, 0]
    np.testing.assert_array_equal(b, np.array(memory["B"], np.float16))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), SMALL, SMALL, st.sampled_from([4, 8, 16]))
def test_features_survive_packing_and_lie_where_the_formula_says(channels, height, width, group):
    cube = np.arange(1, channels * height * width + 1, dtype=np.int32).reshape(channels, height, width)
    packed = layout.pack_features(cube, group)
    assert len(packed) == layout.feature_elements(channels, height, width, group)
    np.testing.assert_array_equal(layout.unpack_features(packed, channels, height, width, group), cube)
    for at in np.ndindex(cube.shape):
        assert packed[feature_offset(*at, height=height, width=width, group=group)] == cube[at]
    assert np.count_nonzero(packed) == cube.size


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 70), SMALL, SMALL, st.sampled_from([16, 32]), st.sampled_from([16, 32])
)
def test_weights_survive_packing_and_lie_where_the_formula_says(
    kernels, channels, height, width, group, block
):
    shape = WeightShape(kernels, channels, height, width)
    size = kernels * channels * height * width
    weights = np.arange(1, size + 1, dtype=np.int32).reshape(kernels, channels, height, width)
    packed = pack_weights(weights, group, block)
    assert len(packed) == layout.weight_elements(shape, group, block)
    np.testing.assert_array_equal(layout.unpack_weights(packed, shape, group, block), weights)
    random = np.random.default_rng(size)
    for _ in range(30):
        at = tuple(int(random.integers(limit)) for limit in weights.shape)
        assert packed[weight_offset(*at, shape=shape, group=group, block=block)] == weights[at]


def test_rxs_order_is_group_block_row_column_kernel_channel():
    weights = np.random.default_rng(1).integers(-128, 128, (64, 64, 3, 2)).astype(np.int8)
    by_hand = [
        weights[group + kernel, block + channel, row, column]
        for group in (0, 32)
        for block in (0, 32)
        for row in range(3)
        for column in range(2)
        for kernel in range(32)
        for channel in range(32)
    ]
    np.testing.assert_array_equal(pack_weights(weights, 32), by_hand)


def test_the_last_group_of_kernels_holds_only_what_is_left():
    weights = np.arange(17 * 32, dtype=np.int32).reshape(17, 32, 1, 1)
    packed = pack_weights(weights, 16)
    np.testing.assert_array_equal(packed, weights.reshape(-1))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 150), SMALL, SMALL)
def test_depthwise_weights_lie_where_the_formula_says(channels, height, width):
    weights = np.arange(1, channels * height * width + 1, dtype=np.int32).reshape(channels, height, width)
    packed = layout.pack_depthwise(weights)
    assert (
        len(packed)
        == layout.depthwise_elements(channels, height, width)
        == -(-channels // 64) * 64 * height * width
    )
    for at in np.ndindex(weights.shape):
        channel, row, column = at
        group, inside = divmod(channel, 64)
        assert packed[((group * height + row) * width + column) * 64 + inside] == weights[at]


def test_groups_by_type():
    assert {name: each.channels for name, each in layout.PACKINGS.items()} == {
        "int8": 16, "uint8": 16, "float16": 8, "bfloat16": 8, "int16": 8, "tf32": 4, "float32": 4, "int32": 4,
    }  # fmt: skip
    assert (layout.packing("tf32").kernels, layout.packing("tf32").block) == (16, 16)


@pytest.mark.parametrize(
    ("act", "part"),
    [
        (lambda: layout.packing("float64"), "float64"),
        (lambda: layout.pack_features(np.zeros((2, 2)), 8), "C, H, W"),
        (lambda: layout.pack_features(np.zeros((0, 2, 2)), 8), "channels"),
        (lambda: pack_weights(np.zeros((2, 2, 2)), 16), "K, C, R, S"),
        (lambda: layout.pack_depthwise(np.zeros((2, 2))), "C, R, S"),
        (lambda: layout.unpack_features(np.zeros(10), 4, 2, 2, 4), "at least 16"),
        (lambda: layout.unpack_features(np.zeros(10), 1 << 20, 1 << 20, 4, 4), "at most 4294967296"),
        (lambda: layout.unpack_weights(np.zeros(10), WeightShape(1, 1), 16), "at least 32"),
        (lambda: layout.unpack_weights(np.zeros(10), WeightShape(1, -1), 16), "channels"),
    ],
)
def test_what_cannot_be_packed(act, part):
    with pytest.raises(FormatError) as error:
        act()
    assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_the_room_of_large_weights_does_not_depend_on_their_groups():
    """A product of 4096 x 4096: groups and blocks only order the elements."""
    assert layout.weight_elements(WeightShape(4096, 4096, 1, 1), 16) == 4096 * 4096
    assert layout.weight_elements(WeightShape(4096, 4095, 1, 1), 32) == 4096 * 4096
    with pytest.raises(FormatError, match="at most"):
        layout.weight_elements(WeightShape(1 << 17, 1 << 17, 1, 1), 16)
