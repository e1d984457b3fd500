"""Tensors that only the Host computes keep their own types, and are compared in these."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.base.progress import NoProgress
from npuviz.workbench.opening import OpenOptions, open_file


@pytest.mark.parametrize(
    ("target", "settings"), [("neuroncore", {"float64": "host"}), ("systolic", {}), ("rk3588", {})]
)
def test_sums_of_doubles_are_computed_and_compared(
    target: str, settings: dict[str, str], tmp_path: Path
) -> None:
    given = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [4, 8])
    made = helper.make_tensor_value_info("z", TensorProto.DOUBLE, [4, 8])
    axis = helper.make_tensor("axis", TensorProto.INT64, [], [1])
    graph = helper.make_graph(
        [helper.make_node("CumSum", ["x", "axis"], ["z"])], "graph", [given], [made], [axis]
    )
    path = tmp_path / "doubles.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    opened = open_file(path, OpenOptions(target=target, settings=settings))
    try:
        assert opened.session is not None
        assert opened.target is not None
        opened.session.run()
        result = opened.target.check(opened.session.machine, NoProgress())
        assert (result.num_tensors, result.num_failed, result.findings) == (1, 0, ())
        assert result.max_abs_err < 1e-12
    finally:
        opened.close()
