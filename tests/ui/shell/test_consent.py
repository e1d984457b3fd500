"""Nothing that is opened runs a program that the user has not named or confirmed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from npuviz.ui.dialogs.trust import Answer
from npuviz.ui.shell.application import Application
from npuviz.ui.shell.main_window import MainWindow
from npuviz.ui.sweep.panel import SweepPanel
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.recent import remember
from npuviz.workbench.settings import Settings
from npuviz.workbench.sweep.plan import SweepRun
from tests.ui.panel_bench import Bench, bench
from tests.workbench.sweep.test_results import results

__all__ = ["bench"]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A CSL folder whose script leaves a mark."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "commands_wse3.sh").write_text(f"touch {tmp_path / 'mark'}\n")
    return folder


@pytest.fixture
def real_window(qtbot: QtBot, application: Application) -> Iterator[MainWindow]:
    """A window on the machines of npuviz."""
    made = application.new_window()
    made.show()
    qtbot.waitUntil(lambda: made.has_looked and not made.model.is_busy, timeout=60_000)
    yield made
    made.close()


class Asked:
    """Answers for the user, and keeps the questions."""

    def __init__(self, answer: Answer) -> None:
        self.answer: Answer = answer
        self.questions: list[tuple[Path, list[str]]] = []

    def __call__(self, path: Path, scripts: Sequence[Path]) -> Answer:
        self.questions.append((path, [script.name for script in scripts]))
        return self.answer


def settle(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: not window.model.is_busy, timeout=60_000)


def test_a_program_runs_only_with_a_yes(qtbot: QtBot, real_window: MainWindow, hostile: Path) -> None:
    mark = hostile.parent / "mark"
    asked = real_window.files.consent.ask = Asked("no")
    real_window.open(hostile)
    settle(qtbot, real_window)
    assert asked.questions == [(hostile, ["commands_wse3.sh"])]
    assert not mark.exists()
    asked.answer = "once"
    real_window.open(hostile)
    settle(qtbot, real_window)
    assert mark.exists()
    asked.answer = "always"
    real_window.open(hostile)
    settle(qtbot, real_window)
    assert len(asked.questions) == 3
    mark.unlink()
    real_window.open(hostile)
    settle(qtbot, real_window)
    assert mark.exists()
    assert len(asked.questions) == 3
    (hostile / "commands_wse3.sh").write_text(f"touch {mark}2\n")
    asked.answer = "no"
    real_window.open(hostile)
    settle(qtbot, real_window)
    assert len(asked.questions) == 4
    assert not Path(f"{mark}2").exists()


def test_recent_files_ask(qtbot: QtBot, real_window: MainWindow, settings: Settings, hostile: Path) -> None:
    remember(settings, hostile, OpenOptions("wavelet"))
    asked = real_window.files.consent.ask = Asked("no")
    real_window.palette_box.dismiss()
    real_window.commands.run("file.open_recent")
    qtbot.keyClick(real_window.palette_box.field, "\r")
    settle(qtbot, real_window)
    assert len(asked.questions) == 1
    assert not (hostile.parent / "mark").exists()


def test_a_row_of_a_sweep_asks(bench: Bench, hostile: Path) -> None:
    """Without anybody to ask, as in this bench, the answer is no."""
    panel = bench.make(SweepPanel)
    table = results()
    runs = tuple(SweepRun(str(hostile), "wavelet") for _ in table.runs)
    object.__setattr__(table, "runs", runs)
    bench.model.show_opened(Opened(Path("x.sweep"), table.name, OpenOptions(), sweep=table))
    panel.open_run(0)
    bench.qtbot.waitUntil(lambda: not bench.model.is_busy)
    assert not (hostile.parent / "mark").exists()
