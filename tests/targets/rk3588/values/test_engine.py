"""Contents after any prefix of the log: forward, back, with edits; host calls and layouts of buffers."""

import threading

import numpy as np
import onnx
import pytest

from benchmarks.rk3588_streams import pack_weights
from npuviz.formats.rk3588.tensor_layout import pack_features
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.sim.replay.contents import Edit
from npuviz.sim.replay.engine import ReplayLimits
from npuviz.targets.rk3588.tables import Buffer, HostCall
from npuviz.targets.rk3588.values.buffers import decoded, encoded, from_graph, to_graph
from npuviz.targets.rk3588.values.engine import ValueEngine
from npuviz.targets.rk3588.values.memory import ValueFault
from tests.targets.rk3588.hand_tasks import (
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

DDR = 1
SIZE = 2 * 16 * 16


def chain(length: int = 6) -> ValueEngine:
    """1x1 convolutions to and fro between two buffers: each task reads what the one before wrote."""
    generator = np.random.default_rng(1)
    kernels = generator.integers(-2, 3, (32, 32, 1, 1)).astype(np.int8)
    cube = generator.integers(-100, 100, (32, 4, 4)).astype(np.int8)
    tasks = []
    for index in range(length):
        registers = convolution_registers(kernels.shape, (4, 4), out=0)
        source, target = (FEATURES, OUTPUT) if index % 2 == 0 else (OUTPUT, FEATURES)
        registers |= {0x1070: source, 0x4020: target, 0x4084: 3, 0x4088: 2}
        tasks.append(task_of(registers, 0x0D, index))
    return engine_of(
        tasks,
        [
            buffer("a", FEATURES, pack_features(cube, 16)),
            buffer("weights", WEIGHTS, pack_weights(kernels, 32)),
            buffer("b", OUTPUT, SIZE),
        ],
    )


def contents(engine: ValueEngine) -> tuple[bytes, bytes]:
    return engine.read(FEATURES, SIZE), engine.read(OUTPUT, SIZE)


def test_contents_depend_on_the_log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ValueEngine, "limits", ReplayLimits(keep_seconds=-1.0))
    log = log_of(*range(6))
    fresh = []
    for count in range(7):
        engine = chain()
        engine.advance_to(log[:count])
        fresh.append(contents(engine))
    assert len(set(fresh)) == 7
    moved = chain()
    for count in (6, 2, 5, 0, 1, 6, 3, 3, 4):
        moved.advance_to(log[:count])
        assert moved.position == count
        assert contents(moved) == fresh[count]
    seen: list[tuple[bytes, bytes]] = []
    moved.replay(log, (), lambda position, entry: seen.append(contents(moved)))
    assert seen == fresh[1:]


def test_another_log_and_its_prefix() -> None:
    engine = chain()
    engine.advance_to(log_of(0, 1, 2))
    engine.advance_to(log_of(0, 1, 4, 5))
    other = chain()
    other.advance_to(log_of(0, 1, 4, 5))
    assert contents(engine) == contents(other)


def test_edits_flow_into_what_runs_after_them() -> None:
    log = log_of(0, 1, 2, 3)
    plain = chain()
    plain.advance_to(log)
    engine = chain()
    edit = Edit(2, DDR, FEATURES + 5, b"\x40\x41")
    engine.advance_to(log[:1])
    engine.advance_to(log, (edit,))
    assert engine.edits == (edit,)
    assert contents(engine) != contents(plain)
    engine.advance_to(log[:2], (edit,))
    assert engine.read(FEATURES + 5, 2) == b"\x40\x41"
    engine.advance_to(log[:1], (edit,))
    before = chain()
    before.advance_to(log[:1])
    assert contents(engine) == contents(before)
    engine.advance_to(log)
    assert contents(engine) == contents(plain)


def test_edits_of_cbuf_do_not_flow() -> None:
    log = log_of(0, 1)
    plain, engine = chain(), chain()
    plain.advance_to(log)
    engine.advance_to(log, (Edit(0, 0, 0, bytes(100)),))
    assert contents(engine) == contents(plain)


def test_bytes_outside_of_buffers_exist_through_edits() -> None:
    engine = chain()
    assert engine.read_at(log_of(), (), 0x80000FF0, 64) == bytes(64)
    edits = (Edit(0, DDR, 0x80000FFE, b"abcd"), Edit(0, DDR, FEATURES - 2, b"vwxyz"))
    assert engine.read_at(log_of(), edits, 0x80000FFC, 8) == b"\0\0abcd\0\0"
    assert engine.read_at(log_of(), edits, FEATURES - 3, 6) == b"\0vwxyz"
    assert engine.read_at(log_of(), (), FEATURES - 3, 3) == bytes(3)


def test_a_task_may_read_what_was_written_by_hand() -> None:
    registers = convolution_registers((32, 32, 1, 1), (1, 1), out=0)
    weights = np.zeros((32, 32, 1, 1), np.int8)
    np.fill_diagonal(weights[:, :, 0, 0], 1)
    engine = engine_of(
        [task_of(registers, 0x0D)],
        [buffer("weights", WEIGHTS, pack_weights(weights, 32)), buffer("output", OUTPUT, 32)],
    )
    engine.advance_to(log_of(0))
    assert "nothing is mapped at 0x10000000" in engine.hazards[0].text
    data = bytes(range(32))
    engine.advance_to(log_of(0), (Edit(0, DDR, FEATURES, data),))
    assert engine.hazards == []
    assert engine.read(OUTPUT, 32) == data


def test_buffers_that_share_addresses_share_bytes() -> None:
    data = np.arange(32, dtype=np.uint8)
    engine = engine_of([], [buffer("whole", FEATURES, data), Buffer("part", FEATURES + 16, 32, data=None)])
    assert engine.read(FEATURES, 48) == data.tobytes() + bytes(16)


def test_several_threads_are_served() -> None:
    log = log_of(*range(6))
    engine, expected = chain(), []
    for count in range(7):
        expected.append(engine.read_at(log[:count], (), FEATURES, SIZE))
    wrong: list[int] = []

    def ask(seed: int) -> None:
        for count in np.random.default_rng(seed).integers(0, 7, 12).tolist():
            if engine.read_at(log[:count], (), FEATURES, SIZE) != expected[count]:
                wrong.append(count)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- layouts and types -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 20, 3, 5), (1, 9, 7), (6, 40), (11,), ()])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
def test_feature_buffers_hold_tensors(shape: tuple[int, ...], dtype: str) -> None:
    values = np.random.default_rng(2).integers(-99, 99, shape).astype(dtype)
    made = Buffer("x", 0, 1 << 16, "feature", 0, shape, dtype)
    data = encoded(made, values)
    assert len(data) % 16 == 0
    assert np.array_equal(decoded(made, data), values)
    assert decoded(made, data).shape == shape


def test_matrix_rows_are_the_height() -> None:
    made = Buffer("x", 0, 512, "feature", 0, (4, 64), "float16")
    values = np.arange(256, dtype=np.float16).reshape(4, 64)
    assert np.array_equal(encoded(made, values), pack_features(values.T[:, :, None], 8).view(np.uint8))


def test_quantised_numbers() -> None:
    made = Buffer("x", 0, 16, "feature", 0, (4,), "int8", 0.5, 3)
    reals = np.array([0.25, 0.75, -1, 1000], np.float32)
    stored = from_graph(made, reals)
    assert stored.tolist() == [3, 5, 1, 127]
    assert to_graph(made, stored, np.dtype(np.float32)).tolist() == [0, 1, -1, 62]
    unsigned = np.array([0, 128, 255, 7], np.uint8)
    assert from_graph(made, unsigned).tolist() == [-128, 0, 127, -121]
    assert np.array_equal(to_graph(made, from_graph(made, unsigned), np.dtype(np.uint8)), unsigned)


def test_shapes_that_do_not_fit_are_faults() -> None:
    small = Buffer("small", 0, 16, "feature", 0, (20,), "int8")
    with pytest.raises(ValueFault, match="16 bytes"):
        decoded(small, np.zeros(16, np.uint8))
    with pytest.raises(ValueFault, match="32 are needed"):
        encoded(small, np.zeros(20, np.int8))
    with pytest.raises(ValueFault, match="cannot hold"):
        from_graph(small, np.zeros(3, np.int8))
    with pytest.raises(ValueFault, match="shape"):
        encoded(
            Buffer("five", 0, 99, "feature", 0, (1, 1, 1, 1, 1), "int8"), np.zeros((1, 1, 1, 1, 1), np.int8)
        )


# --- host calls ------------------------------------------------------------------------------------


def softmax_graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """x -> Relu -> Softmax -> y."""
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["r"]),
        onnx.helper.make_node("Softmax", ["r"], ["y"], axis=1),
    ]
    kind = onnx.TensorProto.FLOAT
    ends = [onnx.helper.make_tensor_value_info(name, kind, [1, 5, 2, 2]) for name in "xy"]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(model, path)
    return read_model(path, {})


def test_host_calls_convert_and_compute(tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = softmax_graph(tmp_path_factory)
    x = np.random.default_rng(3).standard_normal((1, 5, 2, 2)).astype(np.float32)
    first, last = graph.inputs[0], graph.outputs[0]
    shape = (1, 5, 2, 2)
    buffers = [
        Buffer("x", FEATURES, 64, "feature", first, shape, "float16"),
        Buffer("y", OUTPUT, 64, "feature", last, shape, "float16"),
        Buffer("y (output)", OPERAND, 80, "row-major", last, shape, "float32"),
    ]
    hosts = [
        HostCall(0, -1, 0, "input", (), (0,)),
        HostCall(0, graph.nodes[-1].id, 0, "softmax", (0,), (1,)),
        HostCall(0, -1, 0, "output", (1,), (2,)),
    ]
    engine = engine_of([], buffers, graph, hosts, {"x": x})
    engine.advance_to(log_of(-1))
    held = engine.tensor(first)
    assert held is not None
    assert np.array_equal(held, x.astype(np.float16).astype(np.float32))
    engine.advance_to(log_of(-1, -2, -3))
    assert engine.hazards == []
    found = engine.tensor(last)
    assert found is not None
    # The Relu before has no buffer: the host computes it from x.
    e = np.exp(np.maximum(x, 0))
    assert np.abs(found - e / e.sum(1, keepdims=True)).max() < 2e-3
    row_major = np.frombuffer(engine.read(OPERAND, 80), np.float32).reshape(shape)
    assert np.array_equal(row_major, found)
    relu = graph.nodes[0].outputs[0]
    assert engine.tensor(relu) is None


def test_host_calls_that_cannot_run_are_faults(tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = softmax_graph(tmp_path_factory)
    buffers = [Buffer("y", OUTPUT, 64, "feature", graph.outputs[0], (1, 5, 2, 2), "float16")]
    hosts = [HostCall(0, 99, 0, "none", (), ()), HostCall(0, -1, 0, "nothing", (), (0,))]
    engine = engine_of([], buffers, graph, hosts)
    engine.advance_to(log_of(-1, -2))
    assert [hazard.entry for hazard in engine.hazards] == [-1, -2]
    assert "node 99 does not exist" in engine.hazards[0].text
    assert "nothing says what y is converted from" in engine.hazards[1].text
