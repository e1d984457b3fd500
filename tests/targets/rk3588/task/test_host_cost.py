"""What Host calls take."""

from pathlib import Path

import numpy as np

from npuviz.onnx.host_work import host_work
from npuviz.onnx.reader import read_model
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables
from npuviz.targets.rk3588.task.host_cost import host_cycles
from tests.targets.rk3588.compiler.models import Model

PUBLISHED = {
    "yolov8n": (8, 3, 2, 2, 2, 2),
    "yolov8s": (6, 10, 12, 8, 7, 7, 6),
    "yolo11n": (5, 10, 13, 9, 7, 8, 5),
    "yolo26n": (3, 3, 6, 2, 2),
    "yolov5n": (12, 9),
}
"""us of InputOperator, then of OutputOperators of up to 150 KiB, one core at 1 GHz, RKNN runtime 2.3.2.

Ref: zshi20000922-a11y/RK3588-Yolo-Profile, reports/layer-profiles/raw/*_layer_perf.txt, rows of the CPU. That
of yolov5s is left out: all of its rows, those of the NPU too, took about 200 us more.
"""


def test_a_call_takes_what_published_profiles_say_of_operators_on_the_cpu(tmp_path: Path) -> None:
    rows = [row for found in PUBLISHED.values() for row in found]
    spec = RknnSpec()
    assert abs(np.mean(rows) - spec.host_call_ns / 1000) < 0.1
    assert min(rows) == spec.host_operator_ns / 1000
    place = Buffer("y", 0x2000, 150 << 10, "row-major")
    graph = read_model(_relu(tmp_path))
    call = HostCall(0, -1, place.size_bytes, "output y", (0,), ())
    (cycles,) = host_cycles(spec, Tables(1, (), (place,), 1, (call,)), graph)
    assert min(rows) * 1000 < cycles <= 1.3 * max(rows) * 1000


def _relu(folder: Path) -> Path:
    model = Model(1, 4)
    model.add("Relu", "x")
    return model.save(folder)


def test_the_way_from_the_driver_is_paid_once_where_the_npu_does_nothing_in_between(tmp_path: Path) -> None:
    model = Model(4, 64)
    model.add("Softmax", model.add("Softmax", "x"))
    graph = read_model(model.save(tmp_path))
    places = (Buffer("x", 0x1000, 1024, "row-major"), Buffer("y", 0x2000, 1024, "row-major"))
    spec = RknnSpec(npu_hz=1_000_000_000, host_call_ns=20_000, host_operator_ns=2_000)
    busy = host_work(graph, graph.nodes[0])
    own = max(busy.operations / spec.host_operations_per_ns, busy.num_bytes / spec.host_bytes_per_ns)
    calls = [HostCall(job, node, 0, "softmax", (0,), (1,)) for job, node in ((0, 0), (0, 1), (1, 1))]
    tables = Tables(1, (), places, 1, tuple(calls))
    assert np.allclose(host_cycles(spec, tables, graph), [20_000 + own, 2_000 + own, 20_000 + own], atol=1)


def test_what_only_has_another_shape_is_not_called_behind_or_before_an_operator(tmp_path: Path) -> None:
    model = Model(1, 4, 64)
    turned = model.add("Transpose", "x", perm=[1, 0, 2])  # one index moves: the elements stay in their order
    model.add("Flatten", model.add("Softmax", turned))
    graph = read_model(model.save(tmp_path), optimize=False)
    assert [node.op_type for node in graph.nodes] == ["Transpose", "Softmax", "Flatten"]
    places = (Buffer("x", 0x1000, 1024, "row-major"), Buffer("y", 0x2000, 1024, "row-major"))
    spec = RknnSpec(npu_hz=1_000_000_000, host_call_ns=20_000, host_operator_ns=2_000)
    calls = [HostCall(0, node, 0, "", (0,), (1,)) for node in range(3)]
    first, softmax, last = host_cycles(spec, Tables(1, (), places, 1, tuple(calls)), graph)
    assert (first, last) == (1, 1)
    assert softmax > 20_000
    alone = [HostCall(0, 2, 0, "", (0,), (1,))] * 2
    assert host_cycles(spec, Tables(1, (), places, 1, tuple(alone)), graph) == [20_000, 1]


def test_a_cube_is_converted_once_without_what_fills_it_up(tmp_path: Path) -> None:
    model = Model(4, 8)
    model.add("Relu", model.add("Relu", "x"))
    graph = read_model(model.save(tmp_path), optimize=False)
    cube = Buffer("x", 0x1000, 64 * 4 * 2, "feature", shape=(4, 8), dtype="float16")
    places = (cube, Buffer("y", 0x2000, 128, "row-major"))
    spec = RknnSpec(host_call_ns=20_000, host_operator_ns=2_000, host_convert_bytes_per_ns=0.01)
    calls = [HostCall(1, 0, 0, "relu", (0,), (1,)), HostCall(1, 1, 0, "relu", (0,), (1,))]
    first, second = host_cycles(spec, Tables(1, (), places, 2, tuple(calls)), graph)
    assert abs(first - (20_000 + 4 * 8 * 2 / 0.01)) < 50
    assert abs(second - 2_000) < 50
