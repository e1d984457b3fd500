"""Figures of real models survive when several processes measure at once."""

import json
import multiprocessing
from pathlib import Path

import pytest

from benchmarks.real_model_files import keep, kept_figures

_EACH = 40


def _measure(name: str) -> None:
    for number in range(_EACH):
        keep(f"{name}, {number}", {"cycles": number})


def test_two_processes_keep_all_of_their_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUVIZ_MODELS", str(tmp_path))
    (tmp_path / "figures.json").write_text(json.dumps({"of before": {"cycles": 1}}))
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_measure, args=(name,)) for name in ("one", "two", "three")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    found = kept_figures()
    assert len(found) == 1 + 3 * _EACH
    assert found["two, 7"] == {"cycles": 7}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["figures.json", "figures.lock"]
