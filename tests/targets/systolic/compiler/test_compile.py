"""Programs of the true-mode compiler: sound on every chip, complete, split over the cores."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from onnx import helper

from npuviz.base.errors import DoesNotFit
from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.compiler import builder, windows
from npuviz.targets.systolic.compiler.compile import scheduled
from npuviz.targets.systolic.compiler.operators import conv_writer
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec
from tests.sweeps import quick
from tests.targets.systolic.slow_simulator import SlowSimulator
from tests.targets.systolic.true_cases import (
    Compiled,
    assert_everything_stored_once,
    assert_sound,
    bytes_moved,
    chip,
    compile_model,
    constant,
    save_model,
    tile_rows,
    weights,
)

CHIPS = {
    "two 16x16": chip(),
    "three 8x8, tiny": chip(side=8, cores=3, spad=8, acc=4),
    "four 128x128": chip(side=128, cores=4, spad=8192, acc=1024),
    "NCHW": chip(layout="NCHW"),
    "4 bytes": chip(precision=4),
}

SAMPLES = Path(__file__).parents[4] / "sample_models"


@pytest.fixture(params=CHIPS.values(), ids=list(CHIPS))
def spec(request: pytest.FixtureRequest) -> SystolicSpec:
    return request.param


def mixed_model(folder: Path) -> Path:
    """Convolutions of all kinds, pooling, normalisation, products and movement in one graph."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], strides=[2, 1], pads=[1, 0, 2, 1], name="conv1"),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "wd"], ["c2"], group=12, pads=[1, 1, 1, 1], name="depthwise"),
        helper.make_node(
            "Conv", ["c2", "wg"], ["c3"], group=3, dilations=[2, 2], pads=[2, 2, 2, 2], name="grouped"
        ),
        helper.make_node("Add", ["c3", "r1"], ["a1"], name="residual"),
        helper.make_node(
            "MaxPool", ["a1"], ["p1"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0], name="pool"
        ),
        helper.make_node("AveragePool", ["p1"], ["p2"], kernel_shape=[2, 2], name="mean"),
        helper.make_node("Concat", ["p2", "p2"], ["cc"], axis=1, name="concat"),
        helper.make_node("Flatten", ["cc"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "wf", "bf"], ["g"], transB=1, name="fc"),
        helper.make_node("Softmax", ["g"], ["y"], name="softmax"),
    ]
    init = [
        weights("w1", 12, 5, 3, 2),
        weights("b1", 12),
        weights("wd", 12, 1, 3, 3),
        weights("wg", 12, 4, 3, 3),
        weights("wf", 37, 24 * 4 * 6),
        weights("bf", 37),
    ]
    return save_model(folder / "mixed.onnx", nodes, {"x": [2, 5, 18, 14]}, {"y": [2, 37]}, init)


@pytest.fixture
def mixed(tmp_path: Path, spec: SystolicSpec) -> Compiled:
    return compile_model(mixed_model(tmp_path), spec)


def test_programs_are_sound_and_store_everything(mixed: Compiled) -> None:
    assert_sound(mixed)
    assert_everything_stored_once(mixed)
    placement = mixed.compiled.placement
    assert len(mixed.compiled.tables.layers) == sum(where != "View" for where in placement.values())


@quick(first=2)
def test_programs_run_to_their_end(mixed: Compiled) -> None:
    first = SlowSimulator(mixed.compiled.tables, mixed.spec).run(2_000_000)
    assert first > 1000


def test_nothing_runs_on_the_host(mixed: Compiled) -> None:
    assert "Host" not in mixed.compiled.placement.values()


@pytest.mark.parametrize("name", ["tiny_cnn", "tiny_transformer"])
def test_samples_are_sound(name: str, spec: SystolicSpec) -> None:
    case = compile_model(SAMPLES / f"{name}.onnx", spec, optimize=True)
    assert_sound(case)
    assert_everything_stored_once(case)
    assert "Host" not in case.compiled.placement.values()


def matmul(folder: Path, rows: int, depth: int, columns: int) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    init = [weights("w", depth, columns)]
    return save_model(folder / "mm.onnx", nodes, {"x": [rows, depth]}, {"y": [rows, columns]}, init)


def test_square_products_use_every_core(tmp_path: Path) -> None:
    for size in (256, 512, 1024):
        case = compile_model(matmul(tmp_path, size, size, size), chip(128, 4, 32768, 4096))
        tiles = case.compiled.tables.tiles
        assert set(tiles[:, tk.TILE.core].tolist()) == {0, 1, 2, 3}


def test_products_are_whole(tmp_path: Path) -> None:
    case = compile_model(matmul(tmp_path, 70, 90, 50), chip(16, 2, 16, 8))
    code = np.concatenate([tile_rows(case, tile) for tile in range(len(case.compiled.tables.tiles))])
    gemms = code[np.isin(code[:, tk.CODE.op], (tk.OP_GEMM, tk.OP_GEMM_PRELOAD))]
    work = gemms[:, tk.CODE.tile_m] * gemms[:, tk.CODE.tile_k] * gemms[:, tk.CODE.tile_n]
    assert work.sum() == 70 * 90 * 50
    assert (case.compiled.tables.tiles[:, tk.TILE.accumulate] == 1).any()


def test_a_narrow_classifier_on_many_cores_has_no_empty_tile(tmp_path: Path) -> None:
    # systolic.md F3: ONNXim divides by zero here.
    case = compile_model(matmul(tmp_path, 1, 512, 1000), chip(128, 16, 32768, 4096))
    assert_sound(case)
    assert_everything_stored_once(case)
    assert len(set(case.compiled.tables.tiles[:, tk.TILE.core].tolist())) > 1


def test_all_weights_are_read(mixed: Compiled) -> None:
    # systolic.md F4.
    tables = mixed.compiled.tables
    read: dict[int, set[int]] = {}
    for tile in range(len(tables.tiles)):
        for code in tile_rows(mixed, tile):
            if code[tk.CODE.op] == tk.OP_MOVIN:
                places = bytes_moved(mixed, tile, code).tolist()
                read.setdefault(int(code[tk.CODE.tensor]), set()).update(places)
    names = {mixed.graph.tensors[index].name: index for index in mixed.graph.constants}
    for name in ("w1", "wd", "wg", "wf", "b1", "bf"):
        storage = mixed.plan.storages[names[name]]
        wanted = range(storage.address, storage.address + storage.size_bytes)
        assert read[storage.tensor] == set(wanted), name


def test_unknown_operators_run_on_the_host_and_say_why(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("CumSum", ["x", "axis"], ["s"], name="sums"),
        helper.make_node("Relu", ["s"], ["y"], name="relu"),
    ]
    axis = helper.make_tensor("axis", 7, [], [1])
    path = save_model(tmp_path / "host.onnx", nodes, {"x": [4, 8]}, {"y": [4, 8]}, [axis])
    case = compile_model(path, chip(host_cycles=500, host_bytes_per_cycle=4))
    assert case.compiled.placement == {0: "Host", 1: "Core"}
    layer = case.compiled.tables.layers[0]
    assert layer[tk.LAYER.host_cycles] == 500 + (4 * 8 * (4 + 2) + 8) // 4  # slower than 32 additions
    notes = [note for note in case.compiled.notes if note.code == "host-operator"]
    assert [note.node for note in notes] == [0]
    assert "assumed" in notes[0].text


def test_views_cost_nothing(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["v"], name="view"),
        helper.make_node("Relu", ["v"], ["y"], name="relu"),
    ]
    shape = helper.make_tensor("shape", 7, [2], [8, 4])
    path = save_model(tmp_path / "view.onnx", nodes, {"x": [4, 8]}, {"y": [8, 4]}, [shape])
    case = compile_model(path, chip())
    assert case.compiled.placement == {0: "View", 1: "Core"}
    assert len(case.compiled.tables.layers) == 1
    view, source = (
        case.plan.storages[case.graph.nodes[0].outputs[0]],
        case.plan.storages[case.graph.inputs[0]],
    )
    assert (view.root, view.address) == (source.tensor, source.address)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axes", [[3], [2], [2, 3], [1]])
def test_sums_over_parts_of_images_lie_as_the_images_do(
    op_type: str, axes: list[int], tmp_path: Path
) -> None:
    """As separable attention has them: a sum that Expand reads, of what a convolution made."""
    has_input = op_type == "ReduceSum"
    given: dict[str, Any] = {"keepdims": 1} if has_input else {"keepdims": 1, "axes": axes}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node(op_type, ["a", "axes"] if has_input else ["a"], ["s"], **given),
        helper.make_node("Expand", ["s", "size"], ["e"]),
        helper.make_node("Mul", ["a", "e"], ["m"]),
        helper.make_node("Conv", ["m", "v"], ["y"]),
    ]
    kept = [
        weights("w", 8, 4, 1, 1),
        weights("v", 6, 8, 1, 1),
        constant("axes", axes),
        constant("size", [1, 8, 6, 5]),
    ]
    path = save_model(tmp_path / "m.onnx", nodes, {"x": (1, 4, 6, 5)}, {"y": (1, 6, 6, 5)}, kept)
    case = compile_model(path, chip(precision=4))
    assert set(case.compiled.placement.values()) == {"Core"}
    assert check(case.engine(), case.graph).num_failed == 0


def test_order_is_the_schedulers(tmp_path: Path) -> None:
    # Both branches are ready at once; the consumer of the first one that ends comes after the second.
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="a"),
        helper.make_node("Exp", ["a"], ["b"], name="b"),
        helper.make_node("Neg", ["x"], ["c"], name="c"),
        helper.make_node("Add", ["b", "c"], ["y"], name="y"),
    ]
    path = save_model(tmp_path / "order.onnx", nodes, {"x": [4, 8]}, {"y": [4, 8]})
    case = compile_model(path, chip())
    assert [node.name for node in scheduled(case.graph)] == ["a", "c", "b", "y"]
    assert case.compiled.tables.layer_names == ("a", "c", "b", "y")


def test_memory_map_is_disjoint_and_exact(mixed: Compiled) -> None:
    end = 0
    for allocation in mixed.compiled.memory_map.allocations:
        assert allocation.address >= end
        assert allocation.address % 256 == 0
        end = allocation.address + allocation.size_bytes
        assert allocation.size_bytes == mixed.plan.storages[allocation.tensor].size_bytes


def test_compiling_twice_gives_the_same_tables(tmp_path: Path) -> None:
    path = mixed_model(tmp_path)
    first, second = (compile_model(path, chip()).compiled.tables for _ in range(2))
    for name in ("code", "tiles", "layers", "entries"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


@pytest.mark.parametrize("kind", ["Conv", "MaxPool"])
def test_tiles_of_windows_are_counted_before_they_are_made(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image of millions of rows would take minutes to be cut."""
    monkeypatch.setattr(builder, "MAX_TILES", 3)
    cut = Mock(side_effect=AssertionError("cut"))
    monkeypatch.setattr(conv_writer, "cut_axis", cut)
    monkeypatch.setattr(windows, "cut_axis", cut)
    operands = ["x", "w"] if kind == "Conv" else ["x"]
    node = helper.make_node(kind, operands, ["y"], name="big", kernel_shape=[3, 3])
    init = [weights("w", 8, 8, 3, 3)] if kind == "Conv" else []
    path = save_model(tmp_path / "big.onnx", [node], {"x": [1, 8, 130, 66]}, {"y": [1, 8, 128, 64]}, init)
    with pytest.raises(
        DoesNotFit, match=r"layer 'big' is cut into \d+ tiles, those before it into 0, and 3 are allowed"
    ):
        compile_model(path, chip(side=8, cores=1, spad=8, acc=4))
