"""Products on PE: values against ONNX Runtime, blocks, and the published time of a large one."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from npuviz.base.progress import NoProgress
from npuviz.program.dtypes import numpy_dtype
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.operators.matmul.blocks import choose_blocks
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import Depth
from npuviz.targets.neuroncore.target import TARGET
from tests.targets.neuroncore.compiler.onnx_models import check, model, node, values

SBUF = 192 * 1024 - 8


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5,), (5,)),
        ((3, 5), (5,)),
        ((5,), (2, 5, 4)),
        ((200, 300), (300, 700)),
        ((2, 3, 20, 64), (2, 3, 64, 30)),
        ((4, 1, 20, 64), (3, 64, 30)),
        ((4, 20, 130), (130, 30)),
        ((1, 640), (640, 256)),
        ((1, 131), (131, 64)),
        ((300, 7), (7, 1)),
    ],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    inputs = {"a": values(*left), "b": values(*right, seed=1)}
    check(model([node("MatMul", "a b")], inputs), inputs)


@pytest.mark.parametrize("stored", ["a", "b"])
def test_a_stored_operand_is_laid_out_when_compiling(stored: str) -> None:
    arrays = {"a": values(70, 150), "b": values(150, 90, seed=1)}
    inputs = {name: array for name, array in arrays.items() if name != stored}
    check(model([node("MatMul", "a b")], inputs, {stored: arrays[stored]}), inputs)


def test_k_larger_than_sbuf_takes_is_summed_there() -> None:
    inputs = {"a": values(130, 6000), "b": values(6000, 530, seed=1)}
    check(model([node("MatMul", "a b")], inputs), inputs)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 2e-2), ("fp16", 2e-3)])
def test_compute_type(dtype: str, tolerance: float) -> None:
    inputs = {"a": values(40, 300), "b": values(300, 50, seed=1)}
    made = model([node("MatMul", "a b")], inputs)
    exact = check(made, inputs)
    rounded = check(made, inputs, tolerance, settings={"dtype": dtype})
    assert not np.array_equal(exact.outputs[0], rounded.outputs[0])


@pytest.mark.parametrize("preset", ["inf1", "trn1", "trn3"])
def test_other_generations(preset: str) -> None:
    inputs = {"a": values(130, 140), "w": values(60, 140, seed=1), "c": values(60)}
    nodes = [node("Gemm", "a w c", "t", transB=1), node("Relu", "t")]
    check(model(nodes, inputs), inputs, preset=preset)


@pytest.mark.parametrize("addend", [(), (1,), (50,), (1, 50), (40, 1), (40, 50)])
@pytest.mark.parametrize("is_stored", [False, True])
def test_gemm_addend(addend: tuple[int, ...], is_stored: bool) -> None:
    arrays = {"a": values(40, 30), "b": values(30, 50, seed=1)}
    third = {"c": values(*addend, seed=2)}
    inputs = arrays if is_stored else {**arrays, **third}
    made = model([node("Gemm", "a b c", alpha=0.5, beta=-2.0)], inputs, third if is_stored else {})
    check(made, inputs)


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm_transposed(turned: tuple[int, int]) -> None:
    left = (33, 140) if turned[0] else (140, 33)
    right = (200, 33) if turned[1] else (33, 200)
    inputs = {"a": values(*left), "b": values(*right, seed=1)}
    check(model([node("Gemm", "a b", transA=turned[0], transB=turned[1])], inputs), inputs)


def test_followers_run_on_the_way_out_of_psum() -> None:
    inputs = {"a": values(3, 40, 60), "r": values(3, 40, 20, seed=1)}
    stored = {"w": values(60, 20, seed=2), "c": values(20, seed=3)}
    nodes = [
        node("MatMul", "a w", "t"),
        node("Add", "t c", "u"),
        node("Add", "u r", "v"),
        node("Sigmoid", "v", "s"),
        node("Mul", "v s"),
    ]
    check(model(nodes, inputs, stored), inputs)


def test_matmul_integer() -> None:
    inputs = {
        "a": values(20, 100, dtype="uint8"),
        "b": values(100, 30, dtype="int8"),
        "za": np.array(3, np.uint8),
        "zb": np.array(-2, np.int8),
    }
    check(model([node("MatMulInteger", "a b za zb")], inputs), inputs, tolerance=0)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_integer_sums_that_fp32_cannot_hold_are_summed_in_integers(batch: tuple[int, ...]) -> None:
    """Sums of 700 products of 255 are above 2^24; all odd ones are lost in fp32."""
    inputs = {
        "a": np.full((*batch, 4, 700), 255, np.uint8),
        "b": np.full((*batch, 700, 6), 255, np.uint8) - (np.arange(700) % 2 == 0)[:, None].astype(np.uint8),
    }
    check(model([node("MatMulInteger", "a b")], inputs), inputs, tolerance=0)


def test_stored_weights_tell_how_deep_a_sum_is_exact() -> None:
    """Small weights: 3,000 products in one sum; one column of large ones: in pieces. Both are exact."""
    inputs = {"a": np.full((5, 3000), 255, np.uint8), "z": np.array(0, np.uint8)}
    weights = (np.arange(3000 * 7) % 21 - 10).astype(np.int8).reshape(3000, 7)
    small = check(model([node("MatMulInteger", "a b z")], inputs, {"b": weights}), inputs, tolerance=0)
    # No more: on processors without VNNI, ONNX Runtime adds two such products in 16 bits.
    weights[:, 3] = 64
    large = check(model([node("MatMulInteger", "a b z")], inputs, {"b": weights}), inputs, tolerance=0)
    assert 1.3 * small.cycles < large.cycles


def test_qlinear_matmul() -> None:
    inputs = {"a": values(20, 100, dtype="uint8"), "b": values(100, 30, dtype="uint8")}
    stored = {
        "sa": np.array(0.02, np.float32),
        "sb": np.array(0.03, np.float32),
        "sy": np.array(0.11, np.float32),
        "za": np.array(5, np.uint8),
        "zb": np.array(7, np.uint8),
        "zy": np.array(9, np.uint8),
    }
    made = model([node("QLinearMatMul", "a sa za b sb zb sy zy")], inputs, stored)
    check(made, inputs, tolerance=0)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(5, 6), (6, 7)]),
        ("bij,bkj->bki", [(2, 5, 6), (2, 7, 6)]),
        ("...ij,...jk->...ik", [(2, 3, 5, 6), (2, 1, 6, 4)]),
        ("i,j->ij", [(5,), (6,)]),
        ("ijk->ki", [(3, 4, 5)]),
        ("ii->i", [(6, 6)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 9, 8), (2, 2, 7, 8)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = {name: values(*shape, seed=i) for i, (name, shape) in enumerate(zip("ab", shapes, strict=False))}
    check(model([node("Einsum", " ".join(inputs), equation=equation)], inputs), inputs)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 200000), st.integers(1, 9000), st.sampled_from([2, 4]))
@example(89, 18395, 85, 4)  # 65 lanes instead of 128: twice the chunks
@example(128, 65536, 1, 4)  # so deep that 128 rows alone are too many
def test_blocks_cover_everything_once_and_fit(m: int, k: int, n: int, item: int) -> None:
    plan = choose_blocks((m, k, n), item, SBUF)
    for ranges, size in ((plan.rows, m), (plan.columns, n), ([(d.first, d.end) for d in plan.depths], k)):
        assert [end for _, end in ranges[:-1]] == [first for first, _ in ranges[1:]]
        assert (ranges[0][0], ranges[-1][1]) == (0, size)
    rows, columns = (max(end - first for first, end in r) for r in (plan.rows, plan.columns))
    kept = plan.depths if plan.is_resident else plan.depths[:1]
    stationary = sum(depth.chunks for depth in kept) * rows * item
    moving = max(depth.chunks for depth in plan.depths) * columns * item
    sums = -(-rows // 128) * columns * 4 if len(plan.depths) > 1 else 0
    assert stationary + moving + sums <= SBUF


@pytest.mark.parametrize(
    ("left", "right", "turned"),
    [((89, 18395), (18395, 85), 0), ((128, 40000), (40000, 1), 0), ((134, 20562), (4, 20562), 1)],
)
def test_long_sums_run_on_the_engines(left: tuple[int, int], right: tuple[int, int], turned: int) -> None:
    inputs = {"a": values(*left), "b": values(*right, seed=1)}
    check(model([node("Gemm", "a b", transB=turned)], inputs), inputs, preset="trn1")


def test_a_row_times_a_matrix_wider_than_sbuf() -> None:
    inputs = {"a": values(1, 3), "b": values(3, 65536, seed=1)}
    check(model([node("MatMul", "a b")], inputs), inputs)


@given(st.integers(0, 1000), st.integers(1, 3000), st.integers(1, 128))
def test_chunks_of_a_depth_hold_all_rows(first: int, count: int, lanes: int) -> None:
    depth = Depth(first, first + count, lanes, False)
    assert sum(depth.height(chunk) for chunk in range(depth.chunks)) == count


def test_a_large_product_takes_as_long_as_on_hardware(tmp_path: Path) -> None:
    """Ref: SDK, matrix_multiplication tutorial: 6.97 ms; PE alone needs 32768 * 512 cycles at 2.8 GHz."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.BFLOAT16, shape)
        for name, shape in (("a", [4096, 8192]), ("b", [8192, 8192]), ("y", [4096, 8192]))
    ]
    graph = helper.make_graph([node("MatMul", "a b")], "product", ends[:2], ends[2:])
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    zero = np.zeros((), numpy_dtype("bfloat16"))
    given_values = {"a": np.broadcast_to(zero, (4096, 8192)), "b": np.broadcast_to(zero, (8192, 8192))}
    spec, program = TARGET.load(LoadRequest(path, "trn1", inputs=given_values), NoProgress())
    machine = TARGET.build(spec, program)
    machine.advance(1 << 40, NO_STOPS, None)
    assert 32768 * 512 <= machine.cycle <= 7.7e-3 * 2.8e9
