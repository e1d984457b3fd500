"""Measures the first start on a computer, when no kernel is compiled yet.

Each run is a process with an empty folder for compiled kernels, and with the shipped code of a wheel, which
is rebuilt before if the sources are newer (`make kernels`). Other load of the computer affects wall times
more than processor times; compilation in the background is in neither. Python's bytecode files exist, as
after `pip install`: each run is done once before it is measured.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.row import Row
from npuviz.base.errors import NpuvizError
from npuviz.base.kernels import shipping
from npuviz.base.kernels.entries import MODE_VARIABLE
from npuviz.base.kernels.helper import CACHE_VARIABLE, TEMPORARY_VARIABLE
from npuviz.workbench.benchmarks import run_benchmarks, table_text

SAMPLES = Path(__file__).resolve().parent.parent / "sample_models"
CNN = SAMPLES / "tiny_cnn.onnx"
PROGRAMS = {"systolic": CNN, "neuroncore": CNN, "rk3588": CNN, "wavelet": SAMPLES / "csl" / "heat"}
_WINDOW = """
import json, sys, time
from pathlib import Path
from PySide6.QtCore import QEvent, QEventLoop, QObject, QTimer
from npuviz.ui.shell.application import Application
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.settings import Settings

class Painted(QObject):
    count = 0
    def eventFilter(self, watched, event):
        self.count += event.type() == QEvent.Type.UpdateRequest
        return False

application = Application(Settings(None))
window = application.new_window()
window.resize(1600, 1000)
window.show()
painted = Painted()

ticks = QTimer(interval=5)
ticks.start()

def work():
    # Like the window's own loop, this leaves the processor to the machine where nothing happens.
    application.qt.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)

def settle():
    painted.count = 0
    while window.model.is_busy or not painted.count:
        work()
    application.qt.processEvents()
    print(json.dumps([time.time(), time.process_time()]), flush=True)

window.open(Path(sys.argv[1]), OpenOptions(target=sys.argv[2]))
window.installEventFilter(painted)
while window.model.session is None:
    work()
settle()
window.model.run()
settle()
window.close()
"""


def run() -> list[Row]:
    """Measure a run of a sample on every target, without and with a window."""
    if shipping.main([]):
        raise NpuvizError("the code that a wheel brings could not be made")
    rows: list[Row] = []
    for target, path in PROGRAMS.items():
        with tempfile.TemporaryDirectory(prefix="npuviz-first-") as folder:
            _run(path, target, _fresh(folder))
            _window(path, target, _fresh(folder))
        with tempfile.TemporaryDirectory(prefix="npuviz-first-") as folder:
            wall, used = _run(path, target, _fresh(folder))
        rows.append(Row(f"{target}: npuviz run {path.stem}", wall, "s", "6 s"))
        rows.append(Row(f"{target}: processor time of that", used, "s"))
        with tempfile.TemporaryDirectory(prefix="npuviz-first-") as folder:
            (shown, shown_used), (ended, ended_used) = _window(path, target, _fresh(folder))
        rows.append(Row(f"{target}: window at cycle 0, all panels", shown, "s", "4 s"))
        rows.append(Row(f"{target}: processor time of that", shown_used, "s"))
        rows.append(Row(f"{target}: window, run finished", ended, "s", "8 s"))
        rows.append(Row(f"{target}: processor time of that", ended_used, "s"))
    return rows


def _fresh(folder: str) -> dict[str, str]:
    """Return environment variables that put compiled kernels into a folder, as temporary ones."""
    others = (MODE_VARIABLE, "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in others}
    return {**kept, CACHE_VARIABLE: folder, TEMPORARY_VARIABLE: "1", "QT_QPA_PLATFORM": "offscreen"}


def _run(path: Path, target: str, environment: dict[str, str]) -> tuple[float, float]:
    """Measure (wall, processor) seconds of `npuviz run`."""
    command = [sys.executable, "-m", "npuviz.cli.main", "run", str(path), "--target", target]
    begin, used = time.time(), _used()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.time() - begin, _used() - used


def _window(path: Path, target: str, environment: dict[str, str]) -> list[tuple[float, float]]:
    """Measure (wall, processor) seconds until the program is shown, and until its run has finished."""
    begin = time.time()
    found = subprocess.run(
        [sys.executable, "-c", _WINDOW, str(path), target],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("[")]
    return [(at - begin, used) for at, used in lines]


def _used() -> float:
    """Return the processor seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    print(table_text(run_benchmarks("first_start")))
