"""What a choice costs, and how long it took the last time."""

from dataclasses import replace
from pathlib import Path

import pytest

from npuviz.base.errors import Cancelled
from npuviz.base.progress import CallbackProgress, NoProgress
from npuviz.workbench.measuring import measure
from npuviz.workbench.opening import OpenOptions, open_file
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.sessions.last_times import last_seconds, remember_time
from npuviz.workbench.settings import Settings
from tests.workbench.toy_registry import install_toy, toy_file


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    install_toy(monkeypatch)


def test_figures_are_those_of_the_run(tmp_path: Path) -> None:
    path = toy_file(tmp_path)
    found = measure(path, OpenOptions(), NoProgress())
    session = open_file(path).session
    assert session is not None
    session.run()
    assert (found.cycles, found.is_whole, found.problem) == (session.cycle, True, "")
    assert found.instructions == len(session.program.listing)


def test_a_run_that_takes_too_long_gives_a_lower_bound(tmp_path: Path) -> None:
    found = measure(toy_file(tmp_path, '{"blocks": 4000}'), OpenOptions(), NoProgress(), 0.02)
    assert not found.is_whole
    assert found.cycles_text.startswith("more than ")
    assert found.problem == ""


def test_a_refused_setting_and_a_fault_are_told(tmp_path: Path) -> None:
    found = measure(toy_file(tmp_path), OpenOptions(settings={"blocks": "none"}), NoProgress())
    assert (found.cycles, found.cycles_text) == (-1, "unknown")
    assert "blocks" in found.problem
    faulty = measure(toy_file(tmp_path, '{"fault_at": 2}'), OpenOptions(), NoProgress())
    assert faulty.problem.startswith("fault")
    assert not faulty.is_whole


def test_cancelling_is_no_result(tmp_path: Path) -> None:
    progress = CallbackProgress(lambda fraction, text: None)
    progress.cancel()
    with pytest.raises(Cancelled):
        measure(toy_file(tmp_path), OpenOptions(), progress)


def test_programs_of_a_folder_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = measure(sample_models_path() / "csl" / "heat", OpenOptions(), NoProgress())
    assert found.problem.startswith("unknown: compiling it takes running ")


def test_the_last_time_is_known_by_path_and_options(tmp_path: Path) -> None:
    settings, path = Settings(None), toy_file(tmp_path)
    assert last_seconds(settings, path, OpenOptions()) is None
    opened = replace(open_file(path), seconds={"load": 1.5, "compile": 0.25})
    remember_time(settings, opened)
    assert last_seconds(settings, path, OpenOptions()) == 1.75
    assert last_seconds(settings, path, OpenOptions(target="toy")) == 1.75
    assert last_seconds(settings, path, OpenOptions(preset="large")) is None
    settings.set("last_times", {"x": "y"})
    assert last_seconds(settings, path, OpenOptions()) is None
