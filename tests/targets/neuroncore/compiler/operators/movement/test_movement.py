"""Operators that only move elements, on the machine, against numpy."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.operators.movement.maps import FILL, numbers, runs_of
from npuviz.targets.neuroncore.isa import Opcode
from tests.targets.neuroncore.compiler.on_machine import Ran, make_model, run, run_node

DTYPES = ("float32", "float64", "int64", "uint8", "float16", "bool")


def values(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count) % 251).reshape(shape).astype(dtype)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def same(done: Ran, *expected: np.ndarray) -> None:
    assert not done.host
    assert not done.hazards
    for actual, wanted in zip(done.outputs, expected, strict=True):
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 1, 0), (1, 0, 2)])
def test_transpose_moves_any_type(dtype: str, perm: tuple[int, ...]) -> None:
    x = values((3, 4, 5), dtype)
    same(run_node("Transpose", [x], perm=perm), x.transpose(perm))


def test_transpose_of_rank_six_needs_several_descriptors() -> None:
    x = values((2, 3, 2, 3, 2, 3))
    order = (5, 3, 1, 4, 2, 0)
    same(run_node("Transpose", [x], perm=order), x.transpose(order))


def test_small_floats_move_as_bytes() -> None:
    x = values((4, 6)).astype(ml_dtypes.float8_e4m3fn)
    same(run_node("Transpose", [x]), x.T)


@pytest.mark.parametrize(
    ("op_type", "extra", "expected"),
    [
        ("Reshape", [ints(4, -1)], lambda x: x.reshape(4, -1)),
        ("Squeeze", [ints(1)], lambda x: x.reshape(6, 4)),
        ("Unsqueeze", [ints(0, -1)], lambda x: x.reshape(1, 6, 1, 4, 1)),
        ("Expand", [ints(2, 6, 3, 4)], lambda x: np.broadcast_to(x, (2, 6, 3, 4))),
        ("Tile", [ints(2, 3, 1)], lambda x: np.tile(x, (2, 3, 1))),
    ],
)
def test_shape_operators(
    op_type: str, extra: list[np.ndarray], expected: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = values((6, 1, 4))
    same(run_node(op_type, [x, *extra], constants=(1,)), np.ascontiguousarray(expected(x)))


def test_a_diagonal_of_the_run_goes_to_the_host_and_says_so() -> None:
    x = values((3, 3))
    done = run_node("Trilu", [x, np.array(1)], upper=1)
    assert done.host == ["Trilu"]
    assert any("the diagonal is known only at run time" in note.text for note in done.program.notes)
    np.testing.assert_array_equal(done.outputs[0], np.triu(x, 1))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_split(axis: int) -> None:
    parts = [values((2, 3, 4)), values((2, 3, 4)) + 50, values((2, 3, 4)) + 100]
    whole = np.concatenate(parts, axis)
    same(run_node("Concat", parts, axis=axis), whole)
    size = whole.shape[axis] // 3
    sizes = ints(size, whole.shape[axis] - size)
    done = run_node("Split", [whole, sizes], axis=axis, constants=(1,), num_outputs=2)
    same(done, *np.split(whole, [size], axis))


@pytest.mark.parametrize(
    ("starts", "ends", "steps", "key"),
    [
        ([1], [100], [2], np.s_[1::2]),
        ([-1], [-100], [-1], np.s_[::-1]),
        ([5], [0], [-2], np.s_[5:0:-2]),
        ([-3], [-1], [1], np.s_[-3:-1]),
        ([4], [4], [1], np.s_[4:4]),
    ],
)
def test_slice_clamps_as_the_standard_says(
    starts: list[int], ends: list[int], steps: list[int], key: slice
) -> None:
    x = values((7, 3))
    given = [x, ints(*starts), ints(*ends), ints(0), ints(*steps)]
    same(run_node("Slice", given, constants=(1, 2, 3, 4)), x[key])


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pad_from_the_data(mode: str) -> None:
    x = values((4, 5), "int32")
    done = run_node("Pad", [x, ints(1, 2, 3, 0)], mode=mode, constants=(1,))
    expected: Any = np.pad(x, [(1, 3), (2, 0)], mode=mode)  # pyright: ignore[reportArgumentType, reportCallIssue]
    same(done, expected)


def test_pad_with_a_value_of_the_run_and_negative_amounts() -> None:
    x = values((4, 5))
    done = run_node("Pad", [x, ints(1, -1, 0, 2), np.array(7.5, np.float32)], constants=(1,))
    same(done, np.pad(x[:, 1:], [(1, 0), (0, 2)], constant_values=7.5))


@pytest.mark.parametrize(("size", "out"), [(5, 2), (4, 7), (5, 8), (6, 3)])
def test_center_crop_pad(size: int, out: int) -> None:
    x = values((size, 3))
    done = run_node("CenterCropPad", [x, ints(out, 3)], constants=(1,))
    kept = min(size, out)
    expected = np.zeros((out, 3), np.float32)
    expected[(out - kept) // 2 : (out - kept) // 2 + kept] = x[(size - kept) // 2 : (size - kept) // 2 + kept]
    same(done, expected)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    x = values((1, 8, 2, 3))
    if mode == "DCR":
        expected = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2)
    else:
        expected = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3)
    expected = expected.reshape(1, 2, 4, 6)
    same(run_node("DepthToSpace", [x], blocksize=2, mode=mode), expected)
    if mode == "DCR":
        same(run_node("SpaceToDepth", [expected], blocksize=2), x)


@pytest.mark.parametrize("k", [-2, 0, 1])
@pytest.mark.parametrize("upper", [0, 1])
def test_trilu(k: int, upper: int) -> None:
    x = values((2, 4, 5), "int64") + 1
    expected = np.triu(x, k) if upper else np.tril(x, k)
    same(run_node("Trilu", [x, np.array(k)], upper=upper, constants=(1,)), expected)


def test_bytes_of_another_type() -> None:
    x = np.array([1.0, -2.5, 0.0], np.float32)
    same(run_node("BitCast", [x], opset=26, to=6), x.view(np.int32))


def test_a_map_falls_into_few_patterns() -> None:
    x = numbers((3, 4, 5))
    assert len(runs_of(x.transpose(2, 0, 1))) == 1
    assert len(runs_of(np.tile(x, (1, 1, 4)))) == 1
    assert len(runs_of(np.repeat(np.repeat(x, 2, 1), 3, 2))) == 1
    assert len(runs_of(np.pad(x, 1, constant_values=FILL))) == 1


def test_a_map_keeps_every_element() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        shape = tuple(int(size) for size in rng.integers(1, 5, rng.integers(1, 4)))
        indices = rng.integers(FILL, 4, shape)
        found = np.full(indices.size, FILL)
        for part in runs_of(indices):
            grid = np.indices(part.shape)
            to = part.target + sum(i * s for i, s in zip(grid, part.target_steps, strict=True))
            found[to] = part.source + sum(i * s for i, s in zip(grid, part.source_steps, strict=True))
        np.testing.assert_array_equal(found.reshape(shape), indices)


def test_a_map_without_order_is_refused() -> None:
    with pytest.raises(CannotLower, match="separate patterns"):
        runs_of(np.random.default_rng(0).permutation(40_000))


@pytest.mark.parametrize("preset", ["trn2", "trn1", "inf1"])
def test_intermediate_floats_are_held_in_the_compute_type(preset: str) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("GatherElements", ["t", "i"], ["g"], axis=1),
        helper.make_node("Concat", ["g", "t"], ["y"], axis=1),
    ]
    indices = np.array([[2, 0]] * 4, np.int64)
    model = make_model(nodes, {"x": x}, ["y"], {"i": indices})
    done = run(model, {"x": x}, preset, settings={"dtype": "bf16"})
    held = x.T.astype(ml_dtypes.bfloat16).astype(np.float32)
    same(done, np.concatenate([held[:, [2, 0]], held], 1))


def opcodes(done: Ran) -> set[str]:
    return {Opcode(int(code)).name for code in done.program.payload.tables.instructions["opcode"]}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(200, 150), (3, 130, 70), (2, 5, 40, 129)])
def test_a_large_transpose_is_done_by_pe(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    done = run_node("Transpose", [x])
    same(done, x.T)
    assert "NC_TRANSPOSE" in opcodes(done)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bool"])
def test_reversed_rows_are_turned_by_an_engine(dtype: str) -> None:
    x = values((150, 90), dtype)
    done = run_node("Slice", [x, ints(-1), ints(-1000), ints(1), ints(-2)], constants=(1, 2, 3, 4))
    same(done, x[:, ::-2])
    assert "TENSOR_COPY" in opcodes(done)


def test_random_movements_of_every_size() -> None:
    rng = np.random.default_rng(7)
    for _ in range(25):
        shape = tuple(int(size) for size in rng.choice([1, 2, 3, 17, 40, 130], rng.integers(1, 5)))
        x = rng.standard_normal(shape).astype(np.float32)
        perm = rng.permutation(len(shape))
        axis = int(rng.integers(len(shape)))
        step = int(rng.choice([-3, -1, 2]))
        cut = [ints(-1 if step < 0 else 0), ints(-10_000 if step < 0 else 10_000), ints(axis), ints(step)]
        same(run_node("Transpose", [x], perm=perm.tolist()), x.transpose(perm))
        key = tuple(slice(None, None, step) if at == axis else slice(None) for at in range(len(shape)))
        same(run_node("Slice", [x, *cut], constants=(1, 2, 3, 4)), np.ascontiguousarray(x[key]))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-40, 3])
def test_a_large_half_is_selected_by_gpsimd(k: int, upper: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 140, 90)).astype(np.float32)
    done = run_node("Trilu", [x, np.array(k)], upper=upper, constants=(1,))
    same(done, np.triu(x, k) if upper else np.tril(x, k))
    assert "AFFINE_SELECT" in opcodes(done)
