"""npuviz behind onnx's backend interface: a few of onnx's own cases, and what the interface promises."""

import dataclasses
import unittest
from collections.abc import Callable
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import npuviz.onnx_backend as backend
from npuviz.base.errors import NpuvizError, TargetError
from npuviz.workbench.onnx_backend.cases import (
    COARSE,
    FAIL,
    HOST,
    PASS,
    RUNTIME,
    UNSUPPORTED,
    load_cases,
    operator_of,
    run_case,
)
from npuviz.workbench.onnx_backend.execution import execute
from tests.node_cases import node_case

ON_ENGINES = (
    "test_add_bcast",
    "test_argmax_keepdims_example",
    "test_concat_3d_axis_negative_2",
    "test_conv_with_strides_no_padding",
    "test_cumsum_2d_int32",
    "test_gather_negative_indices",
    "test_gemm_all_attributes",
    "test_layer_normalization_2d_axis1",
    "test_linear_attention_gated_delta",
    "test_matmul_3d",
    "test_maxpool_2d_pads",
    "test_pow_types_float32_int32",
    "test_quantizelinear",
    "test_reshape_zero_dim",
    "test_resize_upsample_scales_linear",
    "test_scatternd_add",
    "test_slice_neg_steps",
    "test_softmax_axis_1",
    "test_top_k",
    "test_transpose_all_permutations_3",
)


class Cases(dict[str, Any]):
    """Name -> case; those that nobody asks for are not made."""

    def __missing__(self, name: str) -> Any:
        return self.setdefault(name, node_case(name.removeprefix("test_")))


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    return Cases()


@pytest.mark.sweep
def test_all_cases_of_onnx_are_there(cases: dict[str, Any]) -> None:
    """The quicker tests make the very cases that they need."""
    found = {case.name: case for case in load_cases()}
    assert len(found) > 1500
    for name in ON_ENGINES:
        assert found[name].model == cases[name].model


@pytest.mark.parametrize("name", ON_ENGINES)
def test_a_case_of_onnx_passes_on_the_engines(cases: dict[str, Any], name: str) -> None:
    result = run_case(cases[name], operator_of(cases[name], {}), backend.ExecutionOptions())
    assert (result.category, result.reasons) == (PASS, ())
    assert result.cycles > 0


def test_what_the_engines_cannot_do_has_a_reason(cases: dict[str, Any]) -> None:
    result = run_case(cases["test_nonzero_example"], "NonZero", backend.ExecutionOptions())
    assert result.category == HOST
    assert result.reasons == ("NonZero: the size of the result depends on values",)
    result = run_case(cases["test_string_concat"], "StringConcat", backend.ExecutionOptions())
    assert result.category == UNSUPPORTED
    assert "is text" in result.reasons[0]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("test_softmax_large_number_expanded", HOST),  # 10000 to 10003 are two numbers in fp16
        ("test_maxunpool_export_with_output_shape", RUNTIME),
        ("test_if_seq", UNSUPPORTED),
    ],
)
def test_cases_that_fp16_or_the_host_makes_hard(cases: dict[str, Any], name: str, category: str) -> None:
    result = run_case(cases[name], operator_of(cases[name], {}), backend.ExecutionOptions("rk3588"))
    assert result.category == category, result.reasons


def test_the_runtime_excuses_its_own_values_only(
    cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, options = cases["test_nonzero_example"], backend.ExecutionOptions()
    inputs, (expected,) = case.data_sets[0]
    changed = dataclasses.replace(case, data_sets=[(inputs, [expected + 1])])
    assert run_case(changed, "NonZero", options).category == RUNTIME
    wrong = dataclasses.replace(execute(case.model, inputs, options), outputs=(expected + 2,))
    monkeypatch.setattr("npuviz.workbench.onnx_backend.cases.execute", lambda *_: wrong)
    assert run_case(changed, "NonZero", options).category == FAIL


def test_a_wrong_expectation_is_found(cases: dict[str, Any]) -> None:
    case = cases["test_add_bcast"]
    inputs, (expected,) = case.data_sets[0]
    changed = dataclasses.replace(case, data_sets=[(inputs, [expected + 1])])
    result = run_case(changed, "Add", backend.ExecutionOptions())
    assert result.category == "fail"
    assert "values differ" in result.reasons[0]


class TestRunner(unittest.TestCase):
    """onnx's own runner accepts the module as a backend."""

    ran: ClassVar[list[str]] = []

    def test_the_standard_runner(self) -> None:
        """It gives arrays, and of types that numpy lacks TensorProto."""
        import onnx.backend.test
        import onnx.backend.test.runner

        wanted = ("relu", "cast_BFLOAT16_to_FLOAT")
        made = {"node": [node_case(name) for name in wanted]}
        with mock.patch.object(onnx.backend.test.runner, "load_model_tests", lambda kind: made.get(kind, [])):
            runner = onnx.backend.test.BackendTest(backend.NpuvizBackend, __name__)
        names = {f"test_{name}_cpu" for name in wanted}
        for name in names:
            runner.include(f"{name}$")
        found: dict[str, Callable[[Any], None]] = {}
        for holder in runner.test_cases.values():
            found |= {n: f for n, f in vars(holder).items() if n in names}
        assert set(found) == names
        for run in found.values():
            run(self)


def two_layer_model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Relu", ["r"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_parameters_are_those_of_the_run() -> None:
    prepared = backend.prepare(two_layer_model())
    x = np.arange(-4, 4, dtype=np.float32).reshape(2, 4)
    for shape in ([4, 2], [1, 8]):
        (y,) = prepared.run([x, np.array(shape, np.int64)])
        np.testing.assert_array_equal(y, np.maximum(x, 0).reshape(shape))
        assert prepared.last is not None
        assert prepared.last.parameters == ("shape",)
        assert not prepared.last.host_nodes


def test_weights_are_compiled_in_where_the_machine_wants_constants(cases: dict[str, Any]) -> None:
    found = {
        target: run_case(cases["test_convtranspose"], "ConvTranspose", backend.ExecutionOptions(target))
        for target in ("rk3588", "neuroncore")
    }
    assert {name: (each.category, each.parameters) for name, each in found.items()} == {
        "rk3588": (PASS, ("W",)),
        "neuroncore": (PASS, ()),
    }


def test_a_coarse_type_excuses_rounding_and_no_wrong_expectation(cases: dict[str, Any]) -> None:
    """The NPU adds in fp16."""
    case, options = cases["test_add"], backend.ExecutionOptions("rk3588")
    assert run_case(case, "Add", options).category == COARSE
    (inputs, (expected,)) = case.data_sets[0]
    wrong = dataclasses.replace(case, data_sets=[(inputs, [expected * np.float32(1.05)])])
    assert run_case(wrong, "Add", options).category == FAIL


def _split_in_a_sequence(*, gives_it: bool) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3]),
        helper.make_tensor_value_info("k", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])]
    if gives_it:
        outputs.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [3]))
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=0),
        helper.make_node("SequenceAt", ["s", "k"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["rk3588", "systolic"])
def test_a_sequence_stays_on_the_host_and_is_no_output(target: str) -> None:
    x, options = np.arange(12, dtype=np.float32).reshape(4, 3), backend.ExecutionOptions(target)
    made = backend.execute(_split_in_a_sequence(gives_it=False), [x, np.int64(2)], options)
    np.testing.assert_array_equal(made.outputs[0], x[2])
    with pytest.raises(
        TargetError, match="output s is text, a sequence or an optional, which no machine holds"
    ):
        backend.execute(_split_in_a_sequence(gives_it=True), [x, np.int64(2)], options)


def test_inputs_by_name() -> None:
    x = np.ones((1, 4), np.float32)
    outputs = backend.run_model(two_layer_model(), {"shape": np.array([4, 1]), "x": x})
    assert outputs[0].shape == (4, 1)
    with pytest.raises(NpuvizError, match="no value for the input 'shape'"):
        backend.run_model(two_layer_model(), {"x": x})


def test_inputs_as_messages() -> None:
    """A TensorProto is what it holds, wherever an array may stand; a wrong one is refused, and is no text."""
    x, shape = np.arange(-2, 2, dtype=np.float32).reshape(1, 4), np.array([2, 2], np.int64)
    messages = {"x": onnx.numpy_helper.from_array(x), "shape": onnx.numpy_helper.from_array(shape)}
    for inputs in (messages, list(messages.values()), [x, messages["shape"]]):
        (y,) = backend.run_model(two_layer_model(), inputs)
        np.testing.assert_array_equal(y, np.maximum(x, 0).reshape(2, 2))
    node = helper.make_node("Relu", ["x"], ["y"])
    (y,) = backend.run_node(node, [messages["x"]])
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    (y,) = backend.prepare(one_node_model(node)).run(messages["x"])
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    short = TensorProto(name="x", data_type=TensorProto.FLOAT, dims=[1, 4], raw_data=b"1234")
    with pytest.raises(NpuvizError, match="input x: "):
        backend.run_model(two_layer_model(), [short, shape])
    text = onnx.numpy_helper.from_array(np.array(["a"], object))
    with pytest.raises(TargetError, match="is text"):
        backend.run_model(two_layer_model(), [text, shape])


def one_node_model(node: onnx.NodeProto) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_single_node() -> None:
    node = helper.make_node("Mul", ["a", "b"], ["y"])
    a, b = np.array([1, 2, 3], np.float32), np.array([2, 2, 2], np.float32)
    (y,) = backend.run_node(node, [a, b])
    np.testing.assert_array_equal(y, a * b)


def test_devices() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    with pytest.raises(NpuvizError, match="no device 'CUDA'; devices: CPU, NPU"):
        backend.prepare(two_layer_model(), "CUDA")


def test_another_generation() -> None:
    node = helper.make_node("Tanh", ["a"], ["y"])
    a = np.linspace(-2, 2, 5, dtype=np.float32)
    (y,) = backend.run_node(node, [a], preset="trn1", settings={"dtype": "bf16"})
    np.testing.assert_allclose(y, np.tanh(a), atol=0.01)


def test_an_unknown_target() -> None:
    with pytest.raises(NpuvizError, match="unknown target 'nothing'"):
        backend.prepare(two_layer_model(), target="nothing")


def test_too_many_inputs_and_text() -> None:
    with pytest.raises(NpuvizError, match="at most 2 inputs"):
        backend.run_model(two_layer_model(), [np.zeros(1)] * 3)
    with pytest.raises(TargetError, match="is text"):
        backend.run_model(two_layer_model(), [np.array(["a"]), np.array([1])])
