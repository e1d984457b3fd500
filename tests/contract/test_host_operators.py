"""Why operators run on the Host, on every machine that compiles models: as data and as lines."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.base.units import format_share
from npuviz.workbench.headless.host_operators import host_lines
from npuviz.workbench.headless.info import describe_file, info_text
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.headless.summary_text import summary_text
from npuviz.workbench.opening import OpenOptions

MACHINES = pytest.mark.parametrize("target", ["rk3588", "systolic", "neuroncore"])


def sums(folder: Path) -> Path:
    """Running sums of float64, which no machine has, and each leaves to the Host, one of them on request."""
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], "widen", to=TensorProto.DOUBLE),
        helper.make_node("CumSum", ["wide", "axis"], ["sum"], "sums"),
        helper.make_node("Cast", ["sum"], ["y"], "narrow", to=TensorProto.FLOAT),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy"]
    axis = numpy_helper.from_array(np.array(1), "axis")
    graph = helper.make_graph(nodes, "sums", ends[:1], ends[1:], [axis])
    path = folder / "sums.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@MACHINES
def test_reasons_are_data_and_text_in_run_and_info(tmp_path: Path, target: str) -> None:
    path = sums(tmp_path)
    options = OpenOptions(target=target, settings={"float64": "host"} if target == "neuroncore" else {})
    found = run_model(path, RunOptions(open=options)).summary
    entries = json.loads(json.dumps(found["on_host"]))
    (entry,) = [entry for entry in entries if entry["operator"] == "CumSum"]
    assert set(entry) == {"operator", "name", "node", "limit", "found", "change", "cycles"}
    assert entry["limit"]
    described = describe_file(path, options)
    assert described["on_host"] == [{**each, "cycles": None} for each in entries]
    assert f"on Host   CumSum: {entry['limit']}" in info_text(described)
    assert 0 < sum(each["cycles"] for each in entries) <= found["cycles"]
    share = format_share(entry["cycles"] / found["cycles"])
    assert f"on Host   CumSum ({share} of the time): {entry['limit']}" in summary_text(found)


def test_the_change_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], "grow", mode="cubic")
    shapes = {"x": [1, 8, 64, 64], "y": [1, 8, 128, 128]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    graph = helper.make_graph([node], "grow", ends[:1], ends[1:], [scales])
    path = tmp_path / "grow.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    (entry,) = describe_file(path, OpenOptions(target="rk3588"))["on_host"]
    assert entry["found"] == "cubic"
    assert "nearest, asymmetric" in entry["change"]
    assert host_lines([entry]) == [f"  on Host   Resize: {entry['limit']}; to lift it: {entry['change']}"]
    assert host_lines([entry] * 3)[0].startswith("  on Host   Resize x 3: ")
    assert host_lines([]) == []


def test_what_takes_longest_is_told_first() -> None:
    entries = [
        {"operator": kind, "limit": "a limit", "change": "", "cycles": cycles}
        for kind, cycles in (("Slice", 5), ("Slice", 5), ("LSTM", 40))
    ]
    lines = host_lines(entries, 100)
    assert [line.split()[2] for line in lines] == ["LSTM", "Slice"]
    shares = [line[line.index("(") + 1 : line.index(" of the time)")] for line in lines]
    assert shares == [format_share(0.4), format_share(0.1)]
