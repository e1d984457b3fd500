"""Contents of memories: right at the end, right on the way, changed by writes, lazy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from npuviz.onnx.reader import read_model
from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.values.engine import ALL, ValueEngine
from npuviz.targets.systolic.values.plan import VectorFunction
from tests.targets.systolic.compiler.test_compile import CHIPS, matmul, mixed_model
from tests.targets.systolic.true_cases import (
    Compiled,
    chip,
    compile_model,
    constant,
    save_model,
    tile_rows,
    weights,
)

SAMPLES = Path(__file__).parents[4] / "sample_models"


def assert_right(case: Compiled, limit: float = 1.0) -> None:
    result = check(case.engine(), case.graph)
    assert result.num_tensors > 0
    assert result.num_failed == 0, result
    assert result.max_rel_err <= limit


@pytest.mark.parametrize("spec", CHIPS.values(), ids=list(CHIPS))
def test_mixed_model_agrees_with_onnx_runtime(spec: SystolicSpec, tmp_path: Path) -> None:
    assert_right(compile_model(mixed_model(tmp_path), spec), 0.05)


@pytest.mark.parametrize("precision", [1, 2, 4])
@pytest.mark.parametrize("name", ["tiny_cnn", "tiny_transformer"])
def test_samples_agree_with_onnx_runtime(name: str, precision: int) -> None:
    case = compile_model(SAMPLES / f"{name}.onnx", chip(precision=precision), optimize=True)
    assert_right(case, {1: 0.5, 2: 0.02, 4: 1e-5}[precision])


def test_float16_is_used_on_request() -> None:
    case = compile_model(SAMPLES / "tiny_cnn.onnx", chip(element_type="float16"), optimize=True)
    assert case.plan.storages[case.graph.outputs[0]].dtype == "float16"
    assert_right(case, 2e-3)


def split_case(tmp_path: Path) -> Compiled:
    """A product whose reduction is split over several tiles."""
    case = compile_model(matmul(tmp_path, 40, 200, 24), chip(16, 2, 8, 4))
    assert (case.compiled.tables.tiles[:, tk.TILE.accumulate] == 1).any()
    return case


def test_accumulators_grow_step_by_step(tmp_path: Path) -> None:
    case = split_case(tmp_path)
    engine = case.engine()
    tiles = case.compiled.tables.tiles
    tile = int(np.flatnonzero(tiles[:, tk.TILE.accumulate])[0]) - 1
    rows = tile_rows(case, tile)
    gemms = rows[np.isin(rows[:, tk.CODE.op], (tk.OP_GEMM, tk.OP_GEMM_PRELOAD))]
    word = int(gemms[0, tk.CODE.dst])
    mine = np.flatnonzero(gemms[:, tk.CODE.dst] == word)
    x = engine.tensor(case.graph.inputs[0]).astype(np.float32)
    w = engine.tensor(case.graph.nodes[0].inputs[1]).astype(np.float32)
    _, row, column, start = tiles[tile, tk.TILE.coord : tk.TILE.coord + 4]
    shape, dtype = engine.entry_shape(tile, word)
    assert dtype == "float32"
    assert not engine.accumulator(tile, word, 0, 0).any()
    depth = 0
    for number, place in enumerate(mine):
        before = engine.accumulator(tile, word, int(place), 0)
        after = engine.accumulator(tile, word, int(place) + 1, 0)
        assert (number == 0) == (not before.any())
        depth += int(gemms[place, tk.CODE.tile_k])
        left = x[row : row + shape[0], start : start + depth]
        right = w[start : start + depth, column : column + shape[1]]
        np.testing.assert_allclose(after, left @ right, rtol=1e-4, atol=1e-5)
    # The next tile of the accumulation begins where this one ended, to the bit.
    assert np.array_equal(engine.accumulator(tile + 1, word, 0, 0), engine.accumulator(tile, word, ALL, ALL))


def test_last_accumulator_is_what_is_stored(tmp_path: Path) -> None:
    case = split_case(tmp_path)
    engine = case.engine()
    result = engine.tensor(case.graph.outputs[0])
    tiles = case.compiled.tables.tiles
    for tile in range(len(tiles)):
        rows = tile_rows(case, tile)
        for code in rows[rows[:, tk.CODE.op] == tk.OP_MOVOUT]:
            held = engine.accumulator(tile, int(code[tk.CODE.dst]), ALL, ALL).astype(result.dtype)
            storage = case.plan.storages[case.graph.outputs[0]]
            offset = (
                int(tiles[tile, tk.TILE.base + code[tk.CODE.base]] + code[tk.CODE.offset]) - storage.address
            )
            row, column = divmod(offset // storage.item_bytes, result.shape[1])
            stored = result[row : row + held.shape[0], column : column + held.shape[1]]
            assert np.array_equal(held.view(np.uint16), np.ascontiguousarray(stored).view(np.uint16))


def test_scratchpad_holds_what_was_loaded(tmp_path: Path) -> None:
    case = split_case(tmp_path)
    engine = case.engine()
    code = tile_rows(case, 0)[0]
    assert code[tk.CODE.op] == tk.OP_MOVIN
    held = engine.scratchpad(0, int(code[tk.CODE.dst]), 0, 0)
    assert (held.shape, str(held.dtype)) == engine.entry_shape(0, int(code[tk.CODE.dst]))
    storage = case.plan.storages[int(code[tk.CODE.tensor])]
    offset = int(case.compiled.tables.tiles[0, tk.TILE.base + code[tk.CODE.base]]) - storage.address
    stored = engine.tensor_stored(storage.tensor)[offset // storage.item_bytes :]
    first_row = int(code[tk.CODE.len]) // storage.item_bytes
    assert np.array_equal(held.reshape(-1)[:first_row].view(np.uint16), stored[:first_row].view(np.uint16))


def test_tensors_fill_tile_by_tile(tmp_path: Path) -> None:
    case = split_case(tmp_path)
    engine = case.engine()
    output = case.graph.outputs[0]
    tiles, layers = len(case.compiled.tables.tiles), np.zeros(1, dtype=bool)
    done = np.zeros(tiles, dtype=bool)
    final = engine.tensor(output)
    assert not engine.tensor(output, done, layers).any()
    counts = [0]
    for tile in range(tiles):
        done[tile] = True
        partial = engine.tensor(output, done, layers)
        written = partial != 0
        assert np.array_equal(partial[written], final[written])
        counts.append(int(written.sum()))
    assert counts == sorted(counts)
    assert counts[-1] == int((final != 0).sum())
    assert len(set(counts)) > 2
    assert not engine.tensor(output, np.zeros(tiles, dtype=bool), layers).any()


def two_layers(tmp_path: Path) -> Compiled:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Add", ["r", "b"], ["y"], name="add"),
    ]
    path = save_model(tmp_path / "two.onnx", nodes, {"x": [64, 128]}, {"y": [64, 128]}, [weights("b", 128)])
    case = compile_model(path, chip(precision=4))
    assert len(case.compiled.tables.tiles) > 2
    return case


def test_a_write_changes_what_follows_only(tmp_path: Path) -> None:
    case = two_layers(tmp_path)
    engine = case.engine()
    middle, output = (node.outputs[0] for node in case.graph.nodes)
    before = engine.tensor(output).copy()
    tiles = case.compiled.tables.tiles
    done = tiles[:, tk.TILE.layer] == 0
    second = np.flatnonzero(tiles[:, tk.TILE.layer] == 1)
    done[second[0]] = True
    layers = np.array([True, False])
    data = np.full(64 * 128, 7.0, dtype=np.float32).tobytes()
    changed = engine.with_write(middle, 0, data, done, layers)
    assert np.array_equal(engine.tensor(output), before)
    bias = engine.tensor(case.graph.nodes[1].inputs[1])
    after = changed.tensor(output)
    is_old = np.isclose(after, before).all(axis=1)
    is_new = np.isclose(after, 7.0 + bias).all(axis=1)
    assert is_old.any()
    assert is_new.any()
    assert (is_old ^ is_new).all()
    assert np.array_equal(changed.tensor(output, done, layers)[is_old], before[is_old])
    assert (changed.tensor(middle) == 7.0).all()


def test_a_write_to_an_input_reaches_all_later_layers(tmp_path: Path) -> None:
    case = two_layers(tmp_path)
    engine = case.engine()
    nothing = np.zeros(len(case.compiled.tables.tiles), dtype=bool)
    data = np.full(128, 3.0, dtype=np.float32).tobytes()
    changed = engine.with_write(case.graph.inputs[0], 128 * 4, data, nothing, np.zeros(2, dtype=bool))
    bias = engine.tensor(case.graph.nodes[1].inputs[1])
    np.testing.assert_allclose(changed.tensor(case.graph.outputs[0])[1], 3.0 + bias, rtol=1e-6)
    assert np.array_equal(changed.tensor(case.graph.outputs[0])[2:], engine.tensor(case.graph.outputs[0])[2:])
    twice = changed.with_write(case.graph.inputs[0], 0, data, nothing, np.zeros(2, dtype=bool))
    np.testing.assert_allclose(twice.tensor(case.graph.outputs[0])[:2], np.stack([3.0 + bias] * 2), rtol=1e-6)


def test_writes_outside_a_tensor_are_refused(tmp_path: Path) -> None:
    case = two_layers(tmp_path)
    nothing = np.zeros(len(case.compiled.tables.tiles), dtype=bool)
    for offset in (-1, 64 * 128 * 4 - 3):
        with pytest.raises(ValueError, match="bytes"):
            case.engine().with_write(case.graph.inputs[0], offset, b"1234", nothing, np.zeros(2, dtype=bool))


def test_digests_tell_inputs_and_writes_apart(tmp_path: Path) -> None:
    case = two_layers(tmp_path)
    nothing = np.zeros(len(case.compiled.tables.tiles), dtype=bool)
    layers = np.zeros(2, dtype=bool)
    engine = case.engine()
    written = engine.with_write(case.graph.inputs[0], 0, b"abcd", nothing, layers)
    same = case.engine().with_write(case.graph.inputs[0], 0, b"abcd", nothing, layers)
    assert written.digest() == same.digest()
    digests = {engine.digest(), case.engine(seed=1).digest(), written.digest()}
    assert len(digests) == 3
    assert engine.digest() == case.engine().digest()


def test_making_an_engine_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = two_layers(tmp_path)
    monkeypatch.setattr(ValueEngine, "_run_layer", lambda *_: pytest.fail("values were computed"))
    engine = case.engine()
    engine.digest()
    engine.tensor(case.graph.inputs[0])
    engine.scratchpad(0, 1, 0, 0)
    engine.with_write(
        case.graph.inputs[0],
        0,
        b"abcd",
        np.zeros(len(case.compiled.tables.tiles), dtype=bool),
        np.zeros(2, dtype=bool),
    )


def test_check_names_the_first_wrong_tensor(tmp_path: Path) -> None:
    case = two_layers(tmp_path)
    functions = (*case.plan.functions[:-1], VectorFunction("wrong", np.subtract))
    tables = replace(case.compiled.tables, values=replace(case.plan, functions=functions))
    engine = ValueEngine(tables, case.graph, case.spec, case.engine().inputs)
    result = check(engine, case.graph)
    assert (result.num_tensors, result.num_failed, result.first_divergence) == (2, 1, "y")


def test_check_leaves_random_numbers_out(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["r"], name="draw"),
        helper.make_node("Add", ["r", "x"], ["y"], name="add"),
    ]
    path = save_model(tmp_path / "random.onnx", nodes, {"x": [8, 16]}, {"y": [8, 16]})
    result = check(compile_model(path, chip(precision=4)).engine(), read_model(path))
    assert (result.num_tensors, result.num_failed) == (1, 0)
    drawn, follow = result.not_compared
    assert "drawn by RandomUniformLike" in drawn
    assert result.not_compared[drawn] == ("r",)
    assert "depending on random numbers" in follow


def test_quantised_models_are_exact(tmp_path: Path) -> None:
    u8, i8 = np.uint8, np.int8
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"], name="quantize"),
        helper.make_node(
            "QLinearConv",
            ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
            ["c"],
            pads=[1, 1, 1, 1],
            name="conv",
        ),
        helper.make_node("DequantizeLinear", ["c", "ys", "yz"], ["d"], name="dequantize"),
        helper.make_node("Flatten", ["d"], ["f"], name="flatten"),
        helper.make_node("QuantizeLinear", ["f", "ys", "yz"], ["fq"], name="again"),
        helper.make_node("MatMulInteger", ["fq", "m", "yz"], ["mi"], name="product"),
        helper.make_node("Cast", ["mi"], ["y"], to=1, name="cast"),
    ]
    generator = np.random.default_rng(0)
    # 7-bit weights: ONNX Runtime saturates uint8 x int8 sums on processors without VNNI.
    init = [
        constant("xs", 0.02, np.float32),
        constant("xz", 128, u8),
        constant("w", generator.integers(-64, 64, (6, 5, 3, 3)), i8),
        constant("ws", generator.uniform(0.001, 0.01, 6), np.float32),
        constant("wz", np.zeros(6), i8),
        constant("ys", 0.05, np.float32),
        constant("yz", 120, u8),
        constant("b", generator.integers(-500, 500, 6), np.int32),
        constant("m", generator.integers(-64, 64, (6 * 49, 9)), i8),
    ]
    path = save_model(tmp_path / "q.onnx", nodes, {"x": [1, 5, 7, 7]}, {"y": [1, 9]}, init)
    case = compile_model(path, chip(precision=4))
    placement = case.compiled.placement
    assert [placement[node.id] for node in case.graph.nodes][:3] == ["Core"] * 3
    assert placement[case.graph.nodes[5].id] == "Core"
    engine = case.engine()
    assert str(engine.tensor(case.graph.nodes[5].outputs[0]).dtype) == "int32"
    assert check(engine, case.graph).num_failed == 0


@pytest.mark.parametrize("settings", [{}, {"element_type": "float16"}])
def test_a_constant_beyond_the_type_stays_finite(tmp_path: Path, settings: dict[str, Any]) -> None:
    """(1 - mask) * -3.4e38, as transformers mask: 0 times infinity would be NaN everywhere."""
    nodes = [
        helper.make_node("Sub", ["one", "mask"], ["hidden"], "invert"),
        helper.make_node("Mul", ["hidden", "least"], ["bias"], "bias"),
        helper.make_node("Add", ["mask", "bias"], ["y"], "add"),
    ]
    least = float(np.finfo(np.float32).min)
    given = [constant("one", [1.0], np.float32), constant("least", [least], np.float32)]
    path = save_model(tmp_path / "m.onnx", nodes, {"mask": [2, 16]}, {"y": [2, 16]}, given)
    case = compile_model(path, chip(precision=2, **settings))
    mask = np.ones((2, 16), np.float32)
    mask[:, 9:] = 0
    engine = ValueEngine(case.compiled.tables, case.graph, case.spec, {"mask": mask})
    found = engine.tensor(case.graph.outputs[0])
    assert np.isfinite(found.astype(np.float64)).all()
    assert (found[:, :9] == 1).all()
    assert (found[:, 9:] < -6e4).all()


@pytest.mark.parametrize("source", ["input", "host"])
def test_finite_numbers_that_the_host_writes_stay_finite(source: str, tmp_path: Path) -> None:
    """A mask of -3.4e38 that is given, or that a Host operator makes, is the least bfloat16: with -inf, 0
    times it would be NaN. What is infinite stays so, and the check counts what was clamped."""
    lowest = float(np.finfo(np.float32).min)
    nodes = [helper.make_node("Mul", ["m", "zeros"], ["y"], "y"), helper.make_node("Neg", ["m"], ["z"], "z")]
    held = [constant("zeros", [0, 0, 0, 1], np.float32)]
    given, name = np.array([lowest, 2.0, -1.0, lowest], np.float32), "m"
    if source == "host":
        nodes.insert(0, helper.make_node("Sub", ["x", "most"], ["m"], "made"))
        held.append(constant("most", -given, np.float32))
        given, name = np.zeros(4, np.float32), "x"
    path = save_model(tmp_path / "m.onnx", nodes, {name: [4]}, {"y": [4], "z": [4]}, held)
    case = compile_model(path, chip(precision=2, keep_fp32="made" if source == "host" else ""))
    engine = ValueEngine(case.compiled.tables, case.graph, case.spec, {name: given})
    ids = {tensor.name: tensor.id for tensor in case.graph.tensors}
    assert np.isfinite(engine.tensor(ids["y"]).astype(np.float32)).all()
    result = check(engine, case.graph)
    assert result.is_passed
    assert "clamped: 2 numbers of m are beyond bfloat16" in result.tolerance
    infinite = {name: np.where(given < -9, -np.inf, given).astype(np.float32)}
    if source == "input":
        engine = ValueEngine(case.compiled.tables, case.graph, case.spec, infinite)
        assert np.isinf(engine.tensor(ids["m"]).astype(np.float32)).sum() == 2
        assert not engine.clamped
