"""Casts between all types, exhaustively where a type has few values."""

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.targets.neuroncore.compiler.on_machine import check_node, run_node

SMALL = {
    "float8_e4m3fn": onnx.TensorProto.FLOAT8E4M3FN,
    "float8_e5m2": onnx.TensorProto.FLOAT8E5M2,
    "float8_e4m3fnuz": onnx.TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2fnuz": onnx.TensorProto.FLOAT8E5M2FNUZ,
    "float4_e2m1fn": onnx.TensorProto.FLOAT4E2M1,
}


def _halfway_and_random(kind: np.dtype) -> np.ndarray:
    """Every value of a small type, the middles between neighbours, what is just beside them, and more."""
    bits = 16 if kind.name == "float4_e2m1fn" else 256
    values = np.arange(bits, dtype=np.uint8).view(kind).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    middle = (values[1:] + values[:-1]) / 2
    beside = [np.nextafter(middle, side, dtype=np.float32) for side in (-np.inf, np.inf)]
    noise = np.random.default_rng(3).standard_normal(500).astype(np.float32) * values.max() / 3
    return np.concatenate([values, middle, *beside, noise]).astype(np.float32)


@pytest.mark.parametrize("name", SMALL)
def test_fp32_rounds_to_every_small_float_as_ml_dtypes_does(name: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, name))
    x = _halfway_and_random(kind)
    limit = float(ml_dtypes.finfo(kind).max)
    ran = run_node("Cast", [x], to=SMALL[name])
    assert ran.host == []
    assert ran.hazards == []
    expected = np.clip(x, -limit, limit).astype(kind)
    np.testing.assert_array_equal(ran.outputs[0].view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("name", [name for name in SMALL if name != "float4_e2m1fn"])
def test_without_saturation_large_numbers_become_nan_or_infinite(name: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, name))
    limit = float(ml_dtypes.finfo(kind).max)
    x = np.array([limit * 2, -limit * 2, np.inf, -np.inf, np.nan, limit, 1e30], np.float32)
    ran = run_node("Cast", [x], to=SMALL[name], saturate=0)
    assert ran.host == []
    np.testing.assert_array_equal(ran.outputs[0].astype(np.float32), x.astype(kind).astype(np.float32))


@pytest.mark.parametrize("name", [*SMALL, "float8_e8m0fnu"])
def test_every_code_is_decoded(name: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(16 if name == "float4_e2m1fn" else 256, dtype=np.uint8).view(kind)
    expected = codes.astype(np.float32)
    opset = 24 if name == "float8_e8m0fnu" else 23
    check_node("Cast", [codes], expected=[expected], to=1, opset=opset, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_small_integers_wrap_and_extend_their_sign(name: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, name))
    to = onnx.TensorProto.INT4 if name == "int4" else onnx.TensorProto.UINT4
    x = np.arange(-9, 16).astype(np.float32)
    ran = run_node("Cast", [x], to=to)
    assert ran.host == []
    np.testing.assert_array_equal(
        ran.outputs[0].astype(np.int32), x.astype(np.int32).astype(kind).astype(np.int32)
    )
    codes = np.arange(16).astype(np.int8).astype(kind)
    check_node("Cast", [codes], expected=[codes.astype(np.float32)], to=1)


@pytest.mark.parametrize("source", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.bool_])
def test_integers_keep_their_low_bits(source: type) -> None:
    kind = np.dtype(source)
    if kind == np.bool_:
        x = np.array([True, False, True])
    else:
        info = np.iinfo(kind.name)
        x = np.array([info.min, info.max, 0, 1, 100, info.max - 1], kind)
    for target in (
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.bool_,
    ):
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(target))
        check_node("Cast", [x], expected=[x.astype(target)], to=to)


def test_floats_are_truncated() -> None:
    x = np.array([-2.9, -0.5, 0.5, 2.9, 1e6, -1e6, 16777215.0], np.float32)
    check_node("Cast", [x], expected=[x.astype(np.int32)], to=6)
    check_node("Cast", [x], expected=[x.astype(np.int64)], to=7)


def test_bits_of_64_bit_types_survive_copies() -> None:
    x = np.array([2**62 + 5, -(2**61), 3], np.int64)
    check_node("Identity", [x], expected=[x])
    check_node("Cast", [x], expected=[x.view(np.uint64)], to=13)
