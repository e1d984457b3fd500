"""ONNX's own cases on the machine: what its report says of them."""

from dataclasses import replace
from typing import Any

import pytest

from npuviz.workbench.onnx_backend import cases
from npuviz.workbench.onnx_backend.cases import (
    COARSE,
    FAIL,
    HOST,
    PASS,
    UNSUPPORTED,
    CaseResult,
    run_case,
)
from npuviz.workbench.onnx_backend.execution import Execution, ExecutionOptions, execute
from tests.node_cases import node_case


def result(name: str, **settings: str) -> CaseResult:
    case = node_case(name)
    return run_case(case, "", ExecutionOptions(target="systolic", settings=settings))


def category(name: str, **settings: str) -> str:
    return result(name, **settings).category


def test_bfloat16_is_judged_by_its_own_rounding() -> None:
    assert (category("add"), category("clip")) == (COARSE, HOST)


def test_what_onnx_runtime_refuses_is_no_fault_of_the_machine() -> None:
    assert category("image_decoder_decode_jpeg_rgb") == UNSUPPORTED


@pytest.mark.parametrize("name", ["causal_conv_with_state_basic", "flexattention", "linear_attention_gated"])
def test_operators_with_a_body_run_on_the_cores(name: str) -> None:
    """ONNX Runtime has none of them: the body is what the machine and the reference run."""
    assert category(name) == COARSE


@pytest.mark.parametrize("name", ["matmul_1d_1d", "dynamicquantizelinear"])
def test_numbers_and_steps_are_judged_by_bfloat16_too(name: str) -> None:
    assert category(name) == COARSE


@pytest.mark.parametrize(
    "name", ["cast_FLOAT_to_FLOAT8E5M2", "cast_no_saturate_FLOAT_to_FLOAT8E4M3FN", "celu_float16_expanded"]
)
def test_floats_of_few_bits_are_rounded_as_the_model_says(name: str) -> None:
    assert category(name, precision="4") == PASS


@pytest.mark.parametrize("name", ["tan", "ai_onnx_ml_tree_ensemble_single_tree"])
def test_what_only_the_host_touches_is_not_rounded(name: str) -> None:
    found = result(name)
    assert found.category == HOST
    assert not any("differs" in reason for reason in found.reasons)


LARGE_NUMBERS = ["softmax_large_number", "logsoftmax_large_number_expanded"]


@pytest.mark.parametrize("name", LARGE_NUMBERS)
def test_inputs_that_bfloat16_has_not_are_judged_as_the_machine_holds_them(name: str) -> None:
    """10,001 is 9,984 there."""
    found = result(name)
    assert found.category == COARSE
    assert found.reasons[-1] == "the machine's type has no such inputs: x"


@pytest.mark.parametrize("name", LARGE_NUMBERS)
def test_wrong_values_for_what_the_machine_holds_stay_wrong(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(*given: Any) -> Execution:
        run = execute(*given)
        return replace(run, outputs=tuple(values + 0.5 for values in run.outputs))

    monkeypatch.setattr(cases, "execute", shifted)
    assert category(name) == FAIL
