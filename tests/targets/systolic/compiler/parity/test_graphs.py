"""Parity compilation of graphs that the reference rows do not hold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.base.errors import NpuvizError, TargetError, UnsupportedOperator
from npuviz.base.progress import NoProgress
from npuviz.formats.onnxim.workloads import LanguageModel, ModelEntry, TraceRow
from npuviz.onnx.reader import read_model
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.parity.addresses import BumpAllocator
from npuviz.targets.systolic.compiler.parity.compile import (
    ModelRequest,
    ParityModel,
    arrival_tick,
    compile_parity_list,
)
from npuviz.targets.systolic.compiler.parity.language import compile_language
from npuviz.targets.systolic.compiler.parity.network import Layer, start_order
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.load import loader
from npuviz.targets.systolic.spec import SystolicSpec, make_spec
from tests.targets.systolic.parity_data import ONNXIM, count_requests
from tests.targets.systolic.slow_simulator import SlowSimulator

SPEC = make_spec(settings={"mode": "parity"})[0]
EDGE = make_spec("edge-8x8", settings={"mode": "parity", "precision": "2"})[0]


def save(
    tmp_path: Path,
    nodes: list[Any],
    inputs: dict[str, list[int]],
    weights: dict[str, list[int]],
    outputs: dict[str, list[int]],
) -> Path:
    """Write a model; shapes of outputs of custom operators must be given in `outputs`."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.full(shape, 0.01, np.float32), name) for name, shape in weights.items()],
    )
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def compile_file(path: Path, spec: SystolicSpec = SPEC) -> Compiled:
    return loader.compile_file(LoadRequest(path), replace(spec, mode="parity"), {}, NoProgress())


def opcodes(compiled: Compiled, tile: int) -> list[int]:
    row = compiled.tables.tiles[tile]
    return compiled.tables.code[
        row[tk.TILE.code] : row[tk.TILE.code] + row[tk.TILE.count], tk.CODE.op
    ].tolist()


def test_transformer_layer(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Attention", ["x", "w", "b"], ["a"], "att", domain="com.microsoft", num_heads=2),
        helper.make_node("SkipLayerNormalization", ["x", "a", "g"], ["n"], "ln", domain="com.microsoft"),
        helper.make_node("MatMul", ["n", "f"], ["m"], "fc"),
        helper.make_node("BiasGelu", ["m", "fb"], ["y"], "gelu", domain="com.microsoft"),
    ]
    weights = {"w": [64, 192], "b": [192], "g": [64], "f": [64, 128], "fb": [128]}
    path = save(
        tmp_path, nodes, {"x": [1, 10, 64]}, weights, {"y": [1, 10, 128], "a": [1, 10, 64], "n": [1, 10, 64]}
    )
    compiled = compile_file(path, EDGE)
    tables = compiled.tables
    # The projection is created last but must run first, and its tiles are made twice.
    assert tables.layer_names == ("att projection", "att", "ln", "fc", "gelu")
    projection = tables.tiles[tables.tiles[:, tk.TILE.layer] == 0]
    half = len(projection) // 2
    assert np.array_equal(projection[:half, tk.TILE.base :], projection[half:, tk.TILE.base :])
    heads = tables.tiles[tables.tiles[:, tk.TILE.layer] == 1]
    assert heads[:, tk.TILE.fused].tolist() == [1, 2]
    assert heads[:, tk.TILE.core].tolist() == [-1, -1]
    first = int(tables.layers[1, tk.LAYER.first_tile])
    assert opcodes(compiled, first) == [tk.OP_MOVIN] * 3 + [
        tk.OP_GEMM,
        tk.OP_SOFTMAX,
        tk.OP_GEMM,
        tk.OP_MOVOUT,
    ]
    # Two tiles per core: ten tokens over two tiles of five.
    norms = tables.tiles[tables.tiles[:, tk.TILE.layer] == 2]
    assert len(norms) == 2
    assert np.diff(norms[:, tk.TILE.base]).tolist() == [5 * 64 * 2]
    simulator = SlowSimulator(tables, EDGE)
    assert simulator.run() > 0
    assert simulator.counts == {
        name: count for name, count in count_requests(tables, 32).items() if name != "tiles"
    }


def test_gemm_loads_a_bias_even_without_one_and_matmul_never(tmp_path: Path) -> None:
    for op_type, loads in (("Gemm", 3), ("MatMul", 2)):
        node = helper.make_node(op_type, ["x", "w"], ["y"], "p")
        path = save(tmp_path, [node], {"x": [8, 8]}, {"w": [8, 8]}, {"y": [8, 8]})
        compiled = compile_file(path, EDGE)
        assert opcodes(compiled, 0) == [tk.OP_MOVIN] * loads + [tk.OP_GEMM_PRELOAD, tk.OP_MOVOUT]
        # Weights at 0, then the input (sixteen times too much), then the output.
        assert compiled.tables.tiles[0, tk.TILE.base : tk.TILE.base + 4].tolist() == [256, 0, 0, 256 + 2304]
        assert [(a.address, a.size_bytes) for a in compiled.memory_map.allocations] == [
            (0, 128),
            (256, 128),
            (256 + 2304, 128),
        ]


def test_allocator_leaves_a_gap_of_1_to_256_bytes() -> None:
    allocator = BumpAllocator()
    places = [allocator.allocate("t", size) for size in (1, 255, 256, 257, 1 << 32, 3)]
    assert places == [0, 256, 512, 1024, 1536, 1792]


@pytest.mark.parametrize(
    ("node", "weights", "message"),
    [
        (("Conv", {"group": 2}), {"w": [4, 2, 3, 3]}, "grouped convolution; --set mode=true"),
        (("Conv", {"auto_pad": "SAME_UPPER"}), {"w": [4, 4, 3, 3]}, "auto_pad; --set mode=true"),
        (("MatMul", {}), {}, "cannot multiply two activations; --set mode=true"),
        (("MatMul", {}), {"w": [1, 4, 8, 8]}, "multiplies by 2-D weights only"),
    ],
)
def test_what_onnxim_cannot_do(
    tmp_path: Path, node: tuple[str, dict[str, Any]], weights: dict[str, list[int]], message: str
) -> None:
    op_type, attributes = node
    inputs = {"x": [1, 4, 8, 8]} | ({} if weights else {"w": [8, 8]})
    made = helper.make_node(op_type, ["x", "w"], ["y"], "node", **attributes)
    path = save(
        tmp_path, [made], inputs, weights, {"y": [1, 4, 8, 8] if op_type == "MatMul" else [1, 4, 6, 6]}
    )
    if attributes.get("auto_pad"):
        path = save(tmp_path, [made], inputs, weights, {"y": [1, 4, 8, 8]})
    with pytest.raises(UnsupportedOperator) as caught:
        compile_file(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rectangular_image_is_not_turned(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "c")
    path = save(tmp_path, [node], {"x": [1, 4, 8, 10]}, {"w": [4, 4, 3, 3]}, {"y": [1, 4, 6, 8]})
    with pytest.raises(UnsupportedOperator, match="square NCHW inputs only"):
        compile_file(path)


def test_array_must_be_square() -> None:
    spec, _ = make_spec(settings={"core_width": "64"})
    path = ONNXIM / "models" / "matmul_256_256_256" / "matmul_256_256_256.onnx"
    with pytest.raises(TargetError, match="square arrays with a power of two as side, not 128x64"):
        compile_file(path, spec)


def test_free_operators_are_skip_tiles_and_noted(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Sigmoid", ["p"], ["y"], "sig"),
    ]
    compiled = compile_file(save(tmp_path, nodes, {"x": [1, 3, 8, 8]}, {}, {"y": [1, 3, 7, 7]}))
    assert compiled.tables.tiles[:, tk.TILE.layer].tolist() == [0, 0, 1]
    assert compiled.tables.tiles[:, tk.TILE.skip].tolist() == [1, 1, 1]
    assert [note.node for note in compiled.notes if note.code == "not-costed"] == [0, 1]
    assert compiled.placement == {0: "Free", 1: "Free"}


def test_start_order_appends_consumers_when_they_become_ready() -> None:
    def layer(name: str, inputs: tuple[int, ...], *outputs: int) -> Layer:
        return Layer(name, -1, inputs, outputs, lambda builder: None)

    # c waits for a; d and e for b; the ready list is a, b first.
    layers = [
        layer("c", (10,), 20),
        layer("a", (0,), 10),
        layer("b", (0,), 11),
        layer("e", (11,)),
        layer("d", (11,)),
    ]
    assert [layers[index].name for index in start_order(layers, [0])] == ["a", "b", "c", "e", "d"]
    assert start_order([layer("x", (5,))], [0]) == []


def test_two_models_run_one_after_the_other() -> None:
    path = ONNXIM / "models" / "matmul_256_256_256" / "matmul_256_256_256.onnx"
    graph = read_model(path, {}, optimize=False)
    late = ModelRequest(request_time_ps=5_000_000)
    models = [ParityModel("m", graph, {}, late), ParityModel("m", graph)]
    compiled = compile_parity_list(models, SPEC)
    tables = compiled.tables
    assert tables.launches.tolist() == [[0, 1, 0, 0, 0], [1, 1, 4999, 0, 0]]
    # The model without a time runs first; both read the same weights; tensors are renumbered.
    assert tables.layers[:, tk.LAYER.node].tolist() == [3, 1]
    assert tables.tiles[0, tk.TILE.base + 1] == tables.tiles[1, tk.TILE.base + 1]
    assert tables.tiles[0, tk.TILE.base] != tables.tiles[1, tk.TILE.base]
    assert len(compiled.graph.nodes) == 4
    simulator = SlowSimulator(tables, SPEC)
    assert simulator.run() > 5000 + 1800
    assert simulator.layer_ends[0] == 1809


def test_arrival_tick() -> None:
    assert [arrival_tick(time, 1000) for time in (0, 1, 1000, 1001, 5000)] == [0, 0, 0, 1, 4]


def test_target_core_must_exist() -> None:
    path = ONNXIM / "models" / "matmul_256_256_256" / "matmul_256_256_256.onnx"
    graph = read_model(path, {}, optimize=False)
    with pytest.raises(TargetError, match="target_core 4 does not exist"):
        compile_parity_list([ParityModel("m", graph, request=ModelRequest(target_core=4))], SPEC)


TINY = LanguageModel(
    num_attention_heads=4,
    num_kv_heads=2,
    vocab_size=100,
    num_hidden_layers=2,
    hidden_size=32,
    intermediate_size=64,
    max_seq_length=64,
    ffn_type="llama",
    activation_function="swish",
)


def speak(trace: list[TraceRow], spec: SystolicSpec = EDGE, **entry: Any) -> Compiled:
    return compile_language(TINY, spec, ModelEntry("tiny", **entry), trace)


def test_language_model_with_groups_gates_and_two_layers() -> None:
    compiled = speak([TraceRow(0, 5, 3, 2), TraceRow(0, 7, 2, 0)])
    tables = compiled.tables
    # Three iterations: both, both, the longer one. Two layers of ten operators, attention per request.
    assert tables.launches[:, tk.LAUNCH.num_layers].tolist() == [22, 22, 20]
    assert tables.launches[:, tk.LAUNCH.delay].tolist() == [0, 1, 1]
    assert np.isin([tk.OP_SWISH, tk.OP_MUL], tables.code[:, tk.CODE.op]).all()
    assert len(compiled.graph.nodes) == 20
    simulator = SlowSimulator(tables, EDGE)
    simulator.run()
    assert simulator.counts == {
        name: count for name, count in count_requests(tables, 32).items() if name != "tiles"
    }


def test_requests_that_come_later_start_no_sooner() -> None:
    rows = [TraceRow(0, 5, 2, 0), TraceRow(500_000, 5, 2, 0), TraceRow(500_010, 5, 2, 0)]
    launches = speak(rows, max_batch_size=1).tables.launches
    # The second waits for its time; the third has come long before the second ends.
    assert launches[:, tk.LAUNCH.earliest].tolist() == [0, 0, 499_999, 0, 0, 0]
    assert launches[:, tk.LAUNCH.delay].tolist() == [0, 1, 1, 1, 1, 1]
    assert len(speak(rows[:2]).tables.launches) == 4


@pytest.mark.parametrize(
    ("trace", "entry", "message"),
    [
        ([TraceRow(0, 60, 10, 0)], {}, "request 0 of 70 tokens .* exceeds max_seq_length 64"),
        ([TraceRow(0, 5, 1, 0)], {"target_core": 9}, "target_core 9 does not exist"),
    ],
)
def test_language_errors(trace: list[TraceRow], entry: dict[str, Any], message: str) -> None:
    with pytest.raises(NpuvizError, match=message):
        speak(trace, **entry)


def test_memory_check() -> None:
    large = LanguageModel(64, 64, 1000, 100, 1 << 14, 1 << 16, 4096, run_single_layer=True)
    spec, _ = make_spec(settings={"mode": "parity", "dram_size": "16"})
    trace = [TraceRow(0, 1, 1, 0)]
    with pytest.raises(TargetError, match="of DRAM, there are 16 GiB"):
        compile_language(large, spec, ModelEntry("large"), trace)
    allowed = compile_language(large, spec, ModelEntry("large", check_mem_size=False), trace)
    assert [note.code for note in allowed.notes] == ["parity", "memory"]
