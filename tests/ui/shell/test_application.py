"""What windows share."""

import subprocess
import sys

import pytest

from npuviz.ui.shell import application as module
from npuviz.ui.shell.application import Application
from tests.ui.driver import Driver


def test_objects_that_stay_are_set_aside_once_nothing_is_under_way(
    application: Application, toy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy: list[bool] = []
    monkeypatch.setattr(module, "set_aside", lambda: busy.append(toy.window.model.is_busy))
    application._rest.setInterval(0)
    toy.window.model.submit("Waiting", lambda _progress: None, lambda _nothing: None)
    application._rest.start()
    toy.qtbot.waitUntil(lambda: bool(busy))
    assert busy == [False]


def test_nothing_is_set_aside_without_a_window(
    application: Application, toy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(module, "set_aside", lambda: calls.append(None))
    application._rest.start(20)
    toy.window.close()
    toy.qtbot.wait(60)
    assert not calls


def test_the_first_window_needs_no_onnx() -> None:
    # None of them can be imported, whatever is installed here: numba takes scipy where it is.
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['onnx', 'onnxruntime', 'onnxscript', 'scipy', 'pandas']))\n"
        "from npuviz.ui.shell.main_window import MainWindow\n"
        "from npuviz.ui.shell.panel_loader import load_panel_specs\n"
        "specs, errors = load_panel_specs()\n"
        "print(len(specs) > 20, errors)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True ()\n"), done.stderr
