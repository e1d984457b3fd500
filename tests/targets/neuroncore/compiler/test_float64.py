"""Models in float64: float32 on the engines, and told; what float32 cannot hold is refused or stays on the
Host."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress
from npuviz.onnx.passes.narrow_floats import NOTE
from npuviz.sim.check_result import CheckResult
from npuviz.sim.machine import HOST_OPERATOR
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.target import TARGET
from tests.targets.neuroncore.compiler.on_machine import Ran, make_model, reference, run

X = np.random.default_rng(5).standard_normal((16, 8))
CHAIN = [
    helper.make_node("Mul", ["x", "c"], ["a"]),
    helper.make_node("MatMul", ["a", "w"], ["b"]),
    helper.make_node("Softmax", ["b"], ["s"], axis=-1),
    helper.make_node("ReduceSum", ["s"], ["r"], keepdims=1),
    helper.make_node("CumSum", ["b", "axis"], ["y"]),
]
STORED = {"c": np.array(0.1), "w": np.random.default_rng(6).standard_normal((8, 8)), "axis": np.array(0)}


def notes(ran: Ran) -> list[str]:
    return [note.text for note in ran.program.notes if note.code == NOTE]


def checked(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], folder: Path) -> CheckResult:
    """The check of a run."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    spec, program = TARGET.load(LoadRequest(path, "", None, {}, dict(inputs)), NoProgress())
    machine = TARGET.build(spec, program)
    machine.advance(1 << 40, NO_STOPS, None)
    return TARGET.check(machine, NoProgress())


def test_float64_is_computed_as_float32_and_said() -> None:
    model = make_model(CHAIN, {"x": X}, ("y", "r"), STORED)
    ran = run(model, {"x": X})
    assert ran.host == []
    assert notes(ran) == [
        "8 tensors of float64 are held and computed as float32; --set float64=host computes it on the Host"
    ]
    for got, wanted in zip(ran.outputs, reference(model, {"x": X}), strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-5)


def test_float64_stays_on_the_host_on_request() -> None:
    model = make_model(CHAIN, {"x": X}, ("y", "r"), STORED)
    ran = run(model, {"x": X}, settings={"float64": "host"})
    assert set(ran.host) >= {"Mul", "MatMul", "CumSum"}
    assert notes(ran) == []
    for got, wanted in zip(ran.outputs, reference(model, {"x": X}), strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, wanted, 1e-13)


def test_a_constant_beyond_the_range_keeps_its_operators_on_the_host() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "large"], ["t"]),
        helper.make_node("Mul", ["t", "small"], ["y"]),
        helper.make_node("Relu", ["x"], ["z"]),
    ]
    model = make_model(nodes, {"x": X}, ("y", "z"), {"large": np.array(1e300), "small": np.array(1e-300)})
    ran = run(model, {"x": X})
    assert ran.host == ["Mul", "Mul"]
    reasons = {note.reason.limit for note in ran.program.notes if note.reason is not None}
    assert reasons == {"it computes in float64, since float32 cannot hold 1e+300 of constant large"}
    np.testing.assert_allclose(ran.outputs[0], reference(model, {"x": X})[0], 1e-6)


def test_an_input_beyond_the_range_is_refused() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ("y",))
    with pytest.raises(UsageError, match=r"input x: float32, .* cannot hold 1e\+300; --set float64=host"):
        run(model, {"x": np.full_like(X, 1e300)})
    assert run(model, {"x": np.full_like(X, 1e300)}, settings={"float64": "host"}).outputs[0][0, 0] == 1e300
    infinite = run(model, {"x": np.full_like(X, np.inf)})
    assert np.isposinf(infinite.outputs[0]).all()


def test_other_inputs_of_a_program_are_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ("y",)), path)
    spec, program = TARGET.load(LoadRequest(path, "", None, {}, {}), NoProgress())
    with pytest.raises(UsageError, match=r"cannot hold 1e\+39"):
        TARGET.feed(spec, program, {"x": np.full_like(X, 1e39)})


def test_a_result_of_the_host_beyond_the_range_stops_the_run() -> None:
    """The inverse of [[a, b], [0, a]] has -b / a^2 in a corner."""
    nodes = [helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")]
    small = np.eye(4) * 1e-37
    model = make_model(nodes, {"x": small}, ("y",), known={"y": small})
    assert run(model, {"x": small}).hazards == []
    tiny = np.eye(4) * 2e-38
    tiny[0, 1] = 1e3
    (hazard,) = run(model, {"x": tiny}).hazards
    assert hazard.startswith(HOST_OPERATOR)
    assert "float32 cannot hold" in hazard
    assert "--set float64=host" in hazard


def test_the_check_allows_what_follows_from_float32(tmp_path: Path) -> None:
    found = checked(make_model(CHAIN, {"x": X}, ("y", "r"), STORED), {"x": X}, tmp_path)
    assert found.is_passed
    assert found.end_to_end is not None
    assert 1e-8 < found.end_to_end.share < 1e-5


def test_the_check_names_the_range_where_it_ends(tmp_path: Path) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Log", ["e"], ["y"])]
    found = checked(make_model(nodes, {"x": X}, ("y", "e")), {"x": np.full_like(X, 200.0)}, tmp_path)
    assert not found.is_passed
    assert "overflow of fp32's range: e reaches 7.226e+86" in str(found)
