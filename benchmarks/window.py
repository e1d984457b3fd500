"""The window: time until it is shown, and time of one step with everything refreshed."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.row import Row

STEPS = 40
STARTS = 3
PAUSE_SECONDS = 0.06
SAMPLE = Path(__file__).resolve().parent.parent / "sample_models" / "tiny_cnn.onnx"
_START = """
import sys, time
from npuviz.ui.shell.application import Application
from npuviz.workbench.settings import Settings
application = Application(Settings(None))
window = application.new_window()
window.show()
application.qt.processEvents()
print(time.time())
window.close()
"""


def run() -> list[Row]:
    """Start the window in separate processes, then step a sample model in one."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    starts = [_start_seconds(environment) for _ in range(STARTS)]
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    median, worst = _step_milliseconds()
    return [
        Row("npuviz to a usable window, warm cache", min(starts), "s", "under 2 s"),
        Row("one step, all panels refreshed (median)", median, "ms", "under 33 ms"),
        Row("one step, all panels refreshed (worst)", worst, "ms", ""),
    ]


def _start_seconds(environment: dict[str, str]) -> float:
    begin = time.time()
    found = subprocess.run(
        [sys.executable, "-c", _START], env=environment, capture_output=True, text=True, check=True
    )
    return float(found.stdout.split()[0]) - begin


def _step_milliseconds() -> tuple[float, float]:
    """Measure milliseconds from a step's beginning until all changes are painted: (median, worst)."""
    from PySide6.QtCore import QEvent, QObject

    from npuviz.ui.shell.application import Application
    from npuviz.workbench.settings import Settings

    class Painted(QObject):
        """Counts how often the window has painted all its changed parts; Qt requests that once they are
        known."""

        count = 0

        def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
            self.count += event.type() == QEvent.Type.UpdateRequest
            return False

    application = Application(Settings(None))
    window = application.new_window()
    window.resize(1600, 1000)
    window.show()
    window.open(SAMPLE)

    def idle() -> None:
        while window.model.is_busy:
            application.qt.processEvents()
        application.qt.processEvents()

    painted = Painted()
    window.installEventFilter(painted)
    idle()
    window.model.go_to(1000)
    idle()
    taken: list[float] = []
    for _ in range(STEPS):
        # Panels put off what comes within a frame of their last refresh: begin after that.
        pause = time.perf_counter() + PAUSE_SECONDS
        while time.perf_counter() < pause:
            application.qt.processEvents()
            time.sleep(0.001)
        painted.count = 0
        begin = time.perf_counter()
        window.model.step()
        idle()
        while not painted.count:
            application.qt.processEvents()
        taken.append((time.perf_counter() - begin) * 1e3)
    window.close()
    application.qt.processEvents()
    return statistics.median(taken), max(taken)
