"""The check against ONNX Runtime: a quantised convolution that is right, and what is said when it is not."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.rk3588_streams import pack_weights
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult
from npuviz.sim.replay.contents import Edit
from npuviz.targets.rk3588.check import check
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall
from npuviz.targets.rk3588.values.engine import ValueEngine
from tests.targets.rk3588.hand_tasks import (
    BIAS,
    FEATURES,
    OPERAND,
    OUTPUT,
    WEIGHTS,
    buffer,
    convolution_registers,
    engine_of,
    log_of,
    task_of,
)

SHAPE = (1, 32, 6, 6)
INPUT_SCALE, WEIGHT_SCALE, OUTPUT_SCALE = 0.02, 0.01, 0.05
INPUT_ZERO, OUTPUT_ZERO = -5, -100
RELU, ADD_FROM_MEMORY, NO_MUL = 0x00, 2 << 16 | 0x100, 0x10
FUSED = 0x1D


def _initial(name: str, values: np.ndarray | np.generic) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(values), name)


def model(folder: Path, weights: np.ndarray, bias: np.ndarray) -> Graph:
    """x -> quantise -> Conv -> Relu -> quantise -> y, with weights in int8."""
    node = onnx.helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["x_q"], "quantise"),
        node("DequantizeLinear", ["x_q", "sx", "zx"], ["x_d"]),
        node("DequantizeLinear", ["w", "sw"], ["w_d"]),
        node("DequantizeLinear", ["b", "sb"], ["b_d"]),
        node("Conv", ["x_d", "w_d", "b_d"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "sy", "zy"], ["y"]),
    ]
    kind = onnx.TensorProto
    graph = onnx.helper.make_graph(
        nodes,
        "quantised",
        [onnx.helper.make_tensor_value_info("x", kind.FLOAT, SHAPE)],
        [onnx.helper.make_tensor_value_info("y", kind.INT8, SHAPE)],
        [
            _initial("sx", np.float32(INPUT_SCALE)),
            _initial("zx", np.int8(INPUT_ZERO)),
            _initial("sw", np.float32(WEIGHT_SCALE)),
            _initial("sb", np.float32(INPUT_SCALE * WEIGHT_SCALE)),
            _initial("sy", np.float32(OUTPUT_SCALE)),
            _initial("zy", np.int8(OUTPUT_ZERO)),
            _initial("w", weights),
            _initial("b", bias),
        ],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "m.onnx"
    onnx.save(made, path)
    return read_model(path, {})


def program(folder: Path, changes: Mapping[int, int] | None = None, *, fault: bool = False) -> ValueEngine:
    """The host quantises x; one task does the rest."""
    generator = np.random.default_rng(1)
    weights = generator.integers(-127, 128, (32, 32, 3, 3)).astype(np.int8)
    bias = generator.integers(-3000, 3000, 32).astype(np.int32)
    graph = model(folder, weights, bias)
    names = {tensor.name: tensor.id for tensor in graph.tensors}
    factor = INPUT_SCALE * WEIGHT_SCALE / OUTPUT_SCALE
    shift = 14 - int(np.floor(np.log2(factor)))
    # CORE pads and multiplies stored numbers: the zero point goes into the bias.
    total = bias - INPUT_ZERO * weights.astype(np.int64).sum((1, 2, 3))
    registers = convolution_registers(weights.shape, SHAPE[2:], pads=(1, 1, 1, 1), out=0) | {
        0x1184: INPUT_ZERO & 0xFFFF,
        0x4040: ADD_FROM_MEMORY | NO_MUL | RELU,
        0x4080: OUTPUT_ZERO & 0xFFFFFFFF,
        0x4084: round(factor * (1 << shift)),
        0x4088: shift,
        0x501C: 1 << 1,
        0x5020: BIAS,
    }
    registers |= dict(changes or {})
    size = 32 * 36
    buffers = [
        Buffer("x", OPERAND, 32 * 36 * 4, "row-major", names["x"], SHAPE, "float32"),
        Buffer("x_q", FEATURES, size, "feature", names["x_q"], SHAPE, "int8", INPUT_SCALE, INPUT_ZERO),
        Buffer("y", OUTPUT, size, "feature", names["y"], SHAPE, "int8", OUTPUT_SCALE, OUTPUT_ZERO),
        buffer("w", WEIGHTS, pack_weights(weights, 32)),
        buffer("b", BIAS, total.astype(np.int32)),
    ]
    quantise = next(node.id for node in graph.nodes if names["x_q"] in node.outputs)
    conv = next(node.id for node in graph.nodes if node.op_type == "Conv")
    task = replace(task_of(registers | ({0x1110: 0} if fault else {}), FUSED), node=conv)
    x = generator.standard_normal(SHAPE).astype(np.float32)
    ordered = sorted(buffers, key=lambda item: item.address)
    places = {item.name: place for place, item in enumerate(ordered)}
    hosts = [
        HostCall(0, -1, 0, "input", (), (places["x"],)),
        HostCall(0, quantise, 0, "quantise", (places["x"],), (places["x_q"],)),
    ]
    return engine_of([task], ordered, graph, hosts, {"x": x})


def checked(engine: ValueEngine) -> CheckResult:
    log = log_of(-1, -2, 0)
    return check(engine, engine.graph, log, RknnSpec())


def test_a_right_program_passes(tmp_path: Path) -> None:
    result = checked(program(tmp_path))
    assert (result.num_tensors, result.num_failed, result.first_divergence) == (2, 0, "")
    assert result.max_abs_err <= 1
    assert "within 2 steps" in result.tolerance
    assert list(result.not_compared) == ["fused into the operators that read them"]


@pytest.mark.parametrize(
    "changes",
    [{0x4084: 12000}, {0x4080: 3}, {0x1184: 0}, {0x4040: 2 << 16 | 0x100 | 0x50}, {0x4040: 0x53}],
)
def test_wrong_registers_are_found(tmp_path: Path, changes: dict[int, int]) -> None:
    result = checked(program(tmp_path, changes))
    assert (result.num_tensors, result.num_failed) == (2, 1)
    assert result.first_divergence == "y (task 0 on core 0, Conv conv)"
    assert result.max_abs_err > 2


def test_a_fault_is_named(tmp_path: Path) -> None:
    result = checked(program(tmp_path, fault=True))
    assert result.num_failed == 1
    assert result.first_divergence.startswith(
        "y (task 0 on core 0, Conv conv: task 0 is not executed: weights"
    )
    assert "1 tasks were not executed" in result.tolerance


def test_the_writer_of_the_first_wrong_tensor_is_named(tmp_path: Path) -> None:
    """Bytes written by hand between the host call and the task spoil both tensors."""
    engine = program(tmp_path)
    log = log_of(-1, -2, 0)
    engine.advance_to(log, (Edit(2, 1, FEATURES, bytes([127, 128] * 500)),))
    result = check(engine, engine.graph, log, RknnSpec())
    assert [finding.tensor for finding in result.findings] == ["x_q", "y"]
    assert result.per_operator is not None
    assert result.per_operator.classes["wrong"] == 1
    assert result.first_divergence == "x_q (host call quantise)"


def test_nothing_written_is_wrong(tmp_path: Path) -> None:
    engine = program(tmp_path)
    result = check(engine, engine.graph, log_of(), RknnSpec())
    assert result.num_failed == 2
    assert "no task wrote it" in result.first_divergence


def test_the_converted_output_is_compared_too(tmp_path: Path) -> None:
    engine = program(tmp_path)
    output = engine.graph.outputs[0]
    copy = Buffer("y (output)", OPERAND + 0x10000, 32 * 36, "row-major", output, SHAPE, "int8")
    place = len(engine.tables.buffers)
    for hosts, failed in (((HostCall(1, -1, 0, "output", (4,), (place,)),), 0), ((), 1)):
        source = next(n for n, item in enumerate(engine.tables.buffers) if item.name == "y")
        calls = tuple(replace(call, reads=(source,)) for call in hosts)
        tables = replace(
            engine.tables,
            buffers=(*engine.tables.buffers, copy),
            hosts=(*engine.tables.hosts, *calls),
            outputs={output: place},
        )
        other = ValueEngine(tables, engine.graph, RknnSpec(), engine.inputs)
        result = check(other, engine.graph, log_of(-1, -2, 0, *(-3 for _ in calls)), RknnSpec())
        assert (result.num_tensors, result.num_failed) == (2, failed)
    assert result.first_divergence == "y (no task wrote it)"


@pytest.mark.parametrize(("written", "failed"), [(np.inf, 0), (-np.inf, 1), (1.0, 1), (np.nan, 1)])
def test_an_infinite_reference_allows_only_itself(tmp_path: Path, written: float, failed: int) -> None:
    divide = onnx.helper.make_node("Div", ["x", "zero"], ["y"], "divide")
    shape = (1, 4, 2, 2)
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y")]
    initial = [_initial("zero", np.array([1, 0, 1, 1], np.float32).reshape(1, 4, 1, 1))]
    proto = onnx.helper.make_graph([divide], "infinite", infos[:1], infos[1:], initial)
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(proto, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    graph = read_model(path, {})
    names = {tensor.name: tensor.id for tensor in graph.tensors}
    buffers = [
        Buffer(name, address, 64, "row-major", names[name], shape, "float32")
        for name, address in (("x", FEATURES), ("y", OUTPUT))
    ]
    hosts = [HostCall(0, -1, 0, "input", (), (0,)), HostCall(0, 0, 0, "divide", (0,), (1,))]
    engine = engine_of([], buffers, graph, hosts, {"x": np.ones(shape, np.float32)})
    spec = RknnSpec()
    edit = Edit(2, spec.cores, OUTPUT + 4 * 4, np.float32(written).tobytes())
    engine.advance_to(log_of(-1, -2), (edit,))
    result = check(engine, graph, log_of(-1, -2), spec)
    assert (result.num_tensors, result.num_failed) == (1, failed)
    assert "float32" in result.tolerance
