"""ONNX's own cases on the machine: what its report says of them."""

import pytest

from npuviz.workbench.onnx_backend.cases import COARSE, HOST, PASS, UNSUPPORTED, load_cases, run_case
from npuviz.workbench.onnx_backend.execution import ExecutionOptions


def category(name: str, **settings: str) -> str:
    case = next(case for case in load_cases() if case.name == f"test_{name}")
    return run_case(case, "", ExecutionOptions(target="systolic", settings=settings)).category


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
