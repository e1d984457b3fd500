"""Models whose shapes a run tells, run in the process of the tests: another one takes half a second each."""

import json
import subprocess
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from npuviz.onnx import observation, observation_run


def _run(command: Sequence[str], **_: Any) -> "subprocess.CompletedProcess[str]":
    module, model, _limit, dtypes = command[2:]
    assert module == observation_run.__name__
    try:
        answer = json.dumps(observation_run.observed(model, dtypes))
    except Exception as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
    return subprocess.CompletedProcess(command, 0, answer, "")


def observe_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run models in this process, as tests/onnx/test_reader.py does in one of its own."""
    here = SimpleNamespace(run=_run, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(observation, "subprocess", here)
