"""Sharing out onnx's cases over processes, and the page about them."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from npuviz.sim.check_result import Verdict
from npuviz.workbench.onnx_backend import cases, suite
from npuviz.workbench.onnx_backend.cases import (
    CaseResult,
    is_rounding,
    is_within,
)
from npuviz.workbench.onnx_backend.execution import ExecutionOptions, as_declared
from npuviz.workbench.onnx_backend.report import not_on_engines, report, summary
from npuviz.workbench.onnx_backend.suite import read_results, run_suite

RESULTS = {
    result.name: result
    for result in (
        CaseResult("test_a", "Abs", False, "pass", (), 0.1, 5),
        CaseResult("test_a_expanded", "Abs", True, "host", ("Det: a | reason",), 0.1, 5),
        CaseResult("test_b", "Det", False, "unsupported", ("no",) * 2, 0.3, 0),
        CaseResult("test_c", "Det", False, "fail", ("values differ",), 0.3, 0),
    )
}


class Here:
    """In the place of a process of the suite: it has ended when it has begun."""

    begun = 0

    def __init__(self, command: list[str]) -> None:
        Here.begun += 1
        self.status = 0
        try:
            suite._main(command[-1])
        except MemoryError:
            self.status = -9

    def wait(self, timeout: float) -> int:
        return self.status


def test_what_ran_is_not_repeated_and_what_died_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a run that was cut off: one case is done, one began, and one kills its process."""
    names = [f"test_{letter}" for letter in "abcd"]
    ran: list[str] = []

    def run_case(case: Any, operator: str, options: ExecutionOptions) -> CaseResult:
        ran.append(case.name)
        if case.name == "test_c":
            raise MemoryError
        return CaseResult(case.name, operator, False, "pass", (), 0.5, 7)

    monkeypatch.setattr(suite, "load_cases", lambda: [SimpleNamespace(name=name) for name in names])
    machine = SimpleNamespace(warm_up=lambda _: None)
    monkeypatch.setattr(suite, "choose_onnx_target", lambda _: machine)
    monkeypatch.setattr(suite, "single_operators", lambda _: {})
    monkeypatch.setattr(suite, "operator_of", lambda case, _: case.name)
    monkeypatch.setattr(suite, "run_case", run_case)
    monkeypatch.setattr(
        suite, "subprocess", SimpleNamespace(Popen=Here, TimeoutExpired=subprocess.TimeoutExpired)
    )
    share = tmp_path / "share-0.jsonl"
    kept = CaseResult("test_a", "Abs", False, "pass", (), 1.25, 77)
    share.write_text(json.dumps({"begun": "test_a"}) + "\n" + json.dumps(asdict(kept)) + '\n{"beg')
    results = run_suite(tmp_path, ExecutionOptions(), pattern="test_[a-d]", jobs=1, resumes=True)
    assert ran == ["test_b", "test_c", "test_d"]
    assert results["test_a"] == kept
    assert [results[name].category for name in names] == ["pass", "pass", "fail", "pass"]
    assert results["test_c"].reasons == ("the process ended with status -9",)
    assert Here.begun == 2
    ran.clear()
    assert run_suite(tmp_path, ExecutionOptions(), pattern="test_[a-d]", jobs=1, resumes=True) == results
    assert ran == []


# Quicker: the one above in this process.
@pytest.mark.sweep
def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    pattern = r"^test_(abs|neg_example|relu)$"
    share = tmp_path / "share-0.jsonl"
    kept = CaseResult("test_abs", "Abs", False, "pass", (), 1.25, 77)
    share.write_text(json.dumps({"begun": "test_abs"}) + "\n" + json.dumps(asdict(kept)) + '\n{"beg')
    results = run_suite(tmp_path, ExecutionOptions(), pattern=pattern, jobs=1, resumes=True)
    assert set(results) == {"test_abs", "test_neg_example", "test_relu"}
    assert results["test_abs"].seconds == 1.25
    assert {result.category for result in results.values()} == {"pass"}


def test_a_begun_case_is_known(tmp_path: Path) -> None:
    file = tmp_path / "share-0.jsonl"
    file.write_text('{"begun": "test_x"}\nnot json\n')
    assert read_results([file, tmp_path / "none"]) == ({}, {"test_x"})


def test_the_page_counts_and_explains() -> None:
    page = report(RESULTS, machine="chip", version="1.0", command="make it")
    assert "| engines | 1 |" in page
    assert "| Abs (body) | 1 |  |  | 1 |  |  |  |  |  | Det: a / reason (1) |" in page
    assert "| Det | 2 |" in page
    assert "- `test_c`" in page
    assert summary(RESULTS).startswith("4 cases: engines 1, engines, coarser 0, host 1,")
    text = not_on_engines(RESULTS)
    assert "test_b" in text
    assert "test_a:" not in text


def test_rounding_is_no_more_than_two_units() -> None:
    expected = np.array([1000.0, 0.0], np.float32)
    near = expected + np.array([0, np.spacing(np.float32(1000))], np.float32)
    assert is_rounding(near, expected)
    assert not is_rounding(expected + np.float32(0.01), expected)
    assert not is_rounding(np.array([1, 2]), np.array([1, 3]))
    assert not is_rounding(np.array([np.inf, 0], np.float32), expected)


def test_what_a_coarser_type_may_be_off() -> None:
    expected = np.array([4.0, np.inf, -1.0], np.float32)
    assert is_within(expected + np.float32(0.003), expected, 1e-3)
    assert not is_within(expected + np.float32(0.005), expected, 1e-3)
    assert not is_within(np.array([4.0, 4.0, -1.0], np.float32), expected, 1e-3)
    assert not is_within(np.array([np.nan, np.inf, -1.0], np.float32), expected, 1e-3)
    assert not is_within(np.array([7, 8]), np.array([7, 9]), 0.5)
    assert is_within(np.array([7, 8], np.uint8), np.array([7, 9], np.uint8), 0.5)
    assert not is_within(np.array([7, 8], np.uint8), np.array([7, 10], np.uint8), 0.5)
    assert is_within(np.array(1.001, np.float32), np.float32(1), 0.01)


def test_outputs_have_the_type_that_the_model_declares_where_nothing_is_lost() -> None:
    stored = np.array([1.5, np.nan, -np.inf], ml_dtypes.bfloat16)
    made = as_declared(stored, onnx.TensorProto.FLOAT)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, [1.5, np.nan, -np.inf])
    sizes = [
        as_declared(np.array([number], ml_dtypes.bfloat16), onnx.TensorProto.FLOAT8E5M2).dtype.itemsize
        for number in (1.5, 1.0078125)
    ]
    assert sizes == [1, 2]
    assert as_declared(np.array([1], np.int32), onnx.TensorProto.FLOAT).dtype == np.int32


def test_each_output_has_its_own_tolerance() -> None:
    verdict = Verdict(0, {}, 0.0, 0.0, "", "", share=1e-3, output_shares=(1e-3, 1e-2))
    exact, off = np.ones(4, np.float32), np.full(4, 1.005, np.float32)
    assert cases._are_within([exact, off], [exact, exact], verdict)
    assert not cases._are_within([off, exact], [exact, exact], verdict)
