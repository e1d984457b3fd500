"""Whole graphs: what runs where, in which order, with which notes; the model that comes with npuviz."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantType

from npuviz.formats.rk3588.regcmd.shadow import effective_registers
from npuviz.formats.rk3588.regcmd.stream import parse_stream
from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.task.cube import cube_bytes, cube_shape, image_bytes
from npuviz.targets.rk3588.task.work import decode_work
from tests.targets.rk3588.compiler.models import Finished, Model, checked, on_npu

SAMPLES = Path(__file__).parents[4] / "sample_models"


def residual(*shape: int) -> Model:
    """A block with a shortcut, a pool and a classifier."""
    model = Model(*shape)
    x = model.add("Relu", model.conv("x", shape[1], 32, 3, 3, pads=[1, 1, 1, 1]))
    y = model.add("Relu", model.conv(x, 32, 32, 3, 3, pads=[1, 1, 1, 1]))
    y = model.add("Add", model.conv(y, 32, 32, 3, 3, pads=[1, 1, 1, 1]), x)
    y = model.add("MaxPool", model.add("Relu", y), kernel_shape=[2, 2], strides=[2, 2])
    y = model.add("Flatten", model.add("GlobalAveragePool", y))
    model.add("Gemm", y, model.weight(32, 10), model.weight(10, scale=0.1))
    return model


@pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
@pytest.mark.parametrize("cores", ["1", "2", "3"])
def test_a_network_on_cores(tmp_path: Path, quantised: bool, cores: str) -> None:
    path = residual(1, 3, 14, 14).save(tmp_path, quantised=quantised, per_channel=quantised)
    finished = on_npu(path, {"cores": cores})
    assert {task.core for task in finished.tables.tasks} == set(range(int(cores)))
    # One core needs one start of the driver; several meet after each layer.
    assert (finished.tables.num_jobs == 1) == (cores == "1")
    nodes = {task.node for task in finished.tables.tasks} - {-1}
    assert all(finished.program.placement[node] == "Core" for node in nodes)


@pytest.mark.parametrize("cores", ["1", "3"])
def test_the_sample_in_int8(cores: str) -> None:
    finished = on_npu(SAMPLES / "tiny_cnn_int8.onnx", {"batch": "2", "cores": cores})
    assert finished.program.listing is not None
    assert len(finished.program.listing) > len(finished.tables.tasks) > 8


def test_every_layer_may_be_a_start_of_the_driver(tmp_path: Path) -> None:
    path = residual(1, 3, 8, 8).save(tmp_path)
    chained, apart = on_npu(path), on_npu(path, {"submit": "layer"})
    assert chained.tables.num_jobs == 1 < apart.tables.num_jobs
    assert apart.machine.cycle > chained.machine.cycle


def test_halves_are_announced(tmp_path: Path) -> None:
    path = residual(1, 3, 8, 8).save(tmp_path)
    assert "half-precision" in {note.code for note in on_npu(path).program.notes}
    told = on_npu(path, {"dtype": "fp16"})
    assert "half-precision" not in {note.code for note in told.program.notes}


def test_the_host_runs_what_is_left(tmp_path: Path) -> None:
    """In the middle of quantised operators: float tensors come back where the Host reads them."""
    model = Model(1, 16, 8, 8)
    x = model.conv("x", 16, 32, 3, 3)
    x = model.add("Tan", x)
    x = model.add("Transpose", x, perm=[0, 1, 3, 2])
    model.conv(x, 32, 16, 3, 3)
    finished = checked(model.save(tmp_path, quantised=True), {"cores": "2"})
    assert finished.nodes_on_host() >= {"Tan"}
    assert any("Tan" in text and "no lowering" in text for text in finished.host_reasons)
    graph = finished.program.graph
    placed = {graph.nodes[node].op_type for node, at in finished.program.placement.items() if at == "Core"}
    assert "Conv" in placed


def test_outputs_in_the_middle(tmp_path: Path) -> None:
    """A tensor that the caller wants is not fused away."""
    model = Model(1, 8, 6, 6)
    x = model.conv("x", 8, 16, 1, 1)
    model.add("Relu", x)
    path = model.save(tmp_path)
    proto = onnx.load(path)
    proto.graph.output.append(onnx.helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, (1, 16, 6, 6)))
    onnx.save(proto, path)
    finished = on_npu(path)
    assert finished.result.num_tensors == 2
    assert len(finished.work) == 2


def test_streams_are_whole(tmp_path: Path) -> None:
    """Every stream starts at a multiple of 64 bytes, ends in its tail and lies in its buffer."""
    finished = on_npu(residual(1, 3, 8, 8).save(tmp_path), {"cores": "2"})
    places = {buffer.address: buffer for buffer in finished.tables.buffers if buffer.layout == "stream"}
    for task in finished.tables.tasks:
        assert task.stream % 64 == 0
        assert places[task.stream].size_bytes >= 8 * len(task.words)
        last = int(task.words[np.flatnonzero(task.words)[-1]])
        assert (last >> 48, last >> 16 & 0xFFFFFFFF) == (0x81, task.enable_mask)


def test_buffers_do_not_overlap(tmp_path: Path) -> None:
    finished = on_npu(residual(3, 5, 9, 7).save(tmp_path, quantised=True), {"cores": "3"})
    end = 0
    for buffer in finished.tables.buffers:
        assert buffer.address >= end
        end = buffer.address + buffer.size_bytes
    assert written_outside(finished) == []


def written_outside(finished: Finished) -> list[int]:
    """Tasks that write where no feature cube and no rows lie."""
    cubes = [
        (buffer.address, buffer.address + buffer.size_bytes)
        for buffer in finished.tables.buffers
        if buffer.layout in ("feature", "rows")
    ]
    found: list[int] = []
    for task in finished.tables.tasks:
        output = task.work.output
        if output is None:
            continue
        size = cost_of(task, finished.spec).written_bytes
        low = output.address
        if not any(start <= low and low + min(size, 16) <= end for start, end in cubes):
            found.append(task.index)
    return found


@pytest.mark.parametrize(
    ("shape", "cube", "size"),
    [
        ((2, 20, 3, 4), (2, 20, 3, 4), 2 * 12 * 24 * 2),
        ((2, 20, 7), (2, 20, 1, 7), 2 * 7 * 24 * 2),
        ((5, 20), (1, 20, 5, 1), 5 * 24 * 2),
        ((20,), (1, 20, 1, 1), 24 * 2),
    ],
)
def test_cubes_of_tensors(shape: tuple[int, ...], cube: tuple[int, ...], size: int) -> None:
    assert cube_shape(shape) == cube
    assert image_bytes(shape, "float16") * cube[0] == size
    filling = (64 - 24) * cube[2] * cube[3] * 2
    assert cube_bytes(shape, "float16") == size + filling


@pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
def test_what_registers_keep_does_not_matter(tmp_path: Path, quantised: bool) -> None:
    """With two register groups that nobody clears, every task still does what was meant."""
    model = residual(2, 3, 12, 12)
    model.add("Sigmoid", model.nodes[-1].output[0])
    path = model.save(tmp_path, quantised=quantised, per_channel=quantised)
    finished = on_npu(path, {"cores": "2"})
    for core in range(2):
        tasks = [task for task in finished.tables.tasks if task.core == core]
        streams = [parse_stream(task.words) for task in tasks]
        for task, held in zip(tasks, effective_registers(streams), strict=True):
            # Without DPU_RDMA nobody looks at its registers.
            reads = task.enable_mask & 0x10
            values = {at: value for at, value in held.values.items() if reads or at >> 12 != 5}
            assert decode_work(values, task.enable_mask) == task.work, task.index


def test_an_operator_without_lowering_becomes_its_body(tmp_path: Path) -> None:
    """A LayerNormalization over planes has none; its sums and products do."""
    model = Model(1, 4, 4, 4)
    ends = [model.constant(np.ones((4, 4, 4), np.float32)), model.constant(np.zeros((4, 4, 4), np.float32))]
    model.add("Tanh", model.add("LayerNormalization", "x", *ends, axis=1))
    finished = on_npu(model.save(tmp_path))
    assert any("/" in node.name for node in finished.program.graph.nodes)


FAST_HOST = {"host_convert_bytes_per_ns": "20", "host_call_ns": "500", "host_operator_ns": "500"}


def test_most_on_the_npu_or_least_time(tmp_path: Path) -> None:
    """An Exp before a Tan is the Host's, where time counts."""
    model = Model(4, 8)
    model.add("Tan", model.add("Exp", model.add("MatMul", "x", model.weight(8, 8))))
    path = model.save(tmp_path)
    fast, most = (checked(path, {"partition": kind}) for kind in ("least-time", "most-npu"))
    assert fast.nodes_on_host() == {"Exp", "Tan"}
    assert most.nodes_on_host() == {"Tan"}
    assert most.machine.cycle > fast.machine.cycle


def test_the_partition_aims_at_a_share_of_the_host(tmp_path: Path) -> None:
    """A Softmax that the Host does faster, between convolutions: who sets the share and the price decides."""
    model = Model(1, 16, 24, 24)
    made = model.add("Softmax", model.conv("x", 16, 32, 3, 3, pads=[1, 1, 1, 1]), axis=1)
    model.conv(made, 32, 16, 3, 3, pads=[1, 1, 1, 1])
    path = model.save(tmp_path)
    found = {}
    for name, settings in {
        "spare": {},
        "all may": {"host_share": "1"},
        "no price": {"host_price": "1"},
        "least": {"partition": "least-time"},
    }.items():
        finished = checked(path, {**FAST_HOST, **settings})
        told = [note.text for note in finished.program.notes if note.code == "partition"]
        found[name] = finished.machine.cycle, finished.nodes_on_host(), told
    assert found["spare"][1] == set()
    (text,) = found["spare"][2]
    assert "--set partition=least-time" in text
    assert found["all may"] == found["no price"] == found["least"]
    assert found["least"][1:] == ({"Softmax"}, [])
    assert found["spare"][0] > found["least"][0]


def test_the_host_begins_before_the_npu_makes_cubes_of_inputs(tmp_path: Path) -> None:
    """Its first operator follows the inputs without a call or a start of the NPU in between."""
    weights = np.random.default_rng(0).standard_normal((20, 20, 3, 3)).astype(np.float32) / 12
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Hardmax", ["x"], ["chosen"]),
            onnx.helper.make_node("Conv", ["y", "weights"], ["convolved"], pads=[1, 1, 1, 1]),
            onnx.helper.make_node("Add", ["convolved", "chosen"], ["sum"]),
        ],
        "late",
        [
            onnx.helper.make_tensor_value_info("x", 1, [1, 20, 12, 12]),
            onnx.helper.make_tensor_value_info("y", 1, [1, 20, 12, 12]),
        ],
        [onnx.helper.make_tensor_value_info("sum", 1, [1, 20, 12, 12])],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    path = tmp_path / "model.onnx"
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    finished = checked(path)
    assert finished.nodes_on_host() == {"Hardmax"}
    assert {call.job for call in finished.tables.hosts[:3]} == {0}
    assert any(task.job == 0 and task.node < 0 for task in finished.tables.tasks)


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_quantised_tensors_between_operators_of_the_host_get_no_cubes(
    tmp_path: Path, kind: QuantType
) -> None:
    """The NPU's last task gives rows of what it convolved; the Host keeps what it makes of them."""
    model = Model(1, 8, 24, 24)
    convolved = model.conv("x", 8, 1, 1, 1)
    added = model.add("Add", convolved, model.constant(np.array([0.5], np.float32)))
    model.add("Sigmoid", added)
    fast = {"host_operator_ns": "1", "host_call_ns": "1"}
    finished = checked(model.save(tmp_path, quantised=True, kind=kind), fast)
    assert {"Add", "Sigmoid"} <= finished.nodes_on_host()
    nodes = finished.program.graph.nodes
    assert [nodes[task.node].op_type for task in finished.tables.tasks if task.node >= 0] == [
        "QuantizeLinear", "Conv", "DequantizeLinear"
    ]  # fmt: skip
    kept = [
        (buffer.layout, buffer.dtype)
        for buffer in finished.tables.buffers
        if buffer.name == f"{added}_QuantizeLinear_Output"
    ]
    assert kept == [("row-major", "int8" if kind is QuantType.QInt8 else "uint8")]


def test_integers_that_the_host_makes_floats_of_may_be_read_by_the_npu(tmp_path: Path) -> None:
    """The Host makes them, and floats of them for itself; a convolution of the NPU takes the integers."""
    model = Model(1, 16, 12, 12)
    ends = model.constant(np.array(0.01, np.float32)), model.constant(np.array(0, np.int8))

    def rounded(source: str) -> str:
        return model.add("DequantizeLinear", model.add("QuantizeLinear", source, *ends), *ends)

    chosen = rounded(model.add("Hardmax", "x"))
    weights = model.constant(np.random.default_rng(0).integers(-9, 9, (16, 16, 3, 3)).astype(np.int8))
    kernels = model.add("DequantizeLinear", weights, *ends)
    convolved = rounded(model.add("Conv", chosen, kernels, pads=[1, 1, 1, 1]))
    model.add("Add", convolved, model.add("Hardmax", chosen))
    kept = {"keep_fp32": f"quantizelinear1,{chosen}"}
    finished = checked(model.save(tmp_path), kept)
    assert finished.nodes_on_host() == {"Hardmax", "QuantizeLinear", "DequantizeLinear"}
    assert "Conv" not in finished.nodes_on_host()
