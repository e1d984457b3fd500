"""Matrix products: reference streams, and the product whose memory images are public."""

import json

import numpy as np
import pytest

from benchmarks.rk3588_streams import pack_weights
from npuviz.formats.rk3588.tensor_layout import pack_features, unpack_features
from tests.targets.rk3588.hand_tasks import DATA, buffer, dump, engine_of, log_of, task_of_words


def test_public_product_from_its_memory_images() -> None:
    images = json.loads((DATA / "matmul_4x36x16_memory.json").read_text())
    task = task_of_words(dump("fp16_4x64x16"))
    features = np.frombuffer(bytes.fromhex(images["feature_fp16_hex"]), np.uint8)
    weights = np.frombuffer(bytes.fromhex(images["weight_fp16_hex"]), np.uint8)
    engine = engine_of(
        [task],
        [
            buffer("features", 0xFFFF8000, features),
            buffer("weights", 0xFFFF9000, weights),
            buffer("output", 0xFFFFA000, 256),
        ],
    )
    assert engine.read_at(log_of(), (), 0xFFFFA000, 256) == bytes(256)
    found = engine.read_at(log_of(0), (), 0xFFFFA000, 256)
    assert found == bytes.fromhex(images["output_fp32_hex"])
    product = unpack_features(np.frombuffer(found, np.float32), 16, 4, 1, 4)[:, :, 0].T
    assert product.tolist() == images["C"]
    assert engine.operand_at(log_of(), (), 0, "features").tobytes() == features.tobytes()
    assert engine.operand_at(log_of(), (), 0, "weights").tobytes() == weights.tobytes()
    assert engine.hazards == []


@pytest.mark.parametrize("name", ["fp16_1x1024x1024", "fp16_256x512x512", "int8_1x32x32", "int8_512x512x512"])
def test_products_of_the_reference_streams(name: str) -> None:
    kind, sizes = name.split("_")
    rows, depth, columns = map(int, sizes.split("x"))
    generator = np.random.default_rng(5)
    dtype, group, kernels, out = (
        (np.float16, 8, 16, np.float32) if kind == "fp16" else (np.int8, 16, 32, np.int32)
    )
    low, high = (-8, 9) if kind == "fp16" else (-128, 128)
    a = generator.integers(low, high, (rows, depth)).astype(dtype)
    b = generator.integers(low, high, (columns, depth)).astype(dtype)
    words = [_moved(word) for word in dump(name)]
    engine = engine_of(
        [task_of_words(words)],
        [
            buffer("features", 0x10000000, pack_features(a.T[:, :, None], group)),
            buffer("weights", 0x20000000, pack_weights(b[:, :, None, None], kernels)),
            buffer("output", 0x30000000, rows * columns * 4),
        ],
    )
    found = np.frombuffer(engine.read_at(log_of(0), (), 0x30000000, rows * columns * 4), out)
    assert engine.hazards == []
    product = unpack_features(found, columns, rows, 1, 4)[:, :, 0].T
    expected = a.astype(np.int64) @ b.astype(np.int64).T
    assert np.array_equal(product.astype(np.int64), expected)


def _moved(word: int) -> int:
    """A word of a dump with its addresses far apart: those of the dumps overlap for large operands."""
    places = {0x1070: 0x10000000, 0x1110: 0x20000000, 0x4020: 0x30000000}
    place = places.get(word & 0xFFFF)
    return word if place is None else word & 0xFFFF00000000FFFF | place << 16
