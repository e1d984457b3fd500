"""Measures how long the user waits with several panels in view: opening a network, one step, a zoom.

npuviz bench panels
python -m benchmarks.panels light_resnet50 --profile      # and where the time of the steps goes
"""

import cProfile
import os
import pstats
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from benchmarks.row import Row
from npuviz.workbench.opening import OpenOptions

if TYPE_CHECKING:
    from npuviz.ui.shell.application import Application
    from npuviz.ui.shell.main_window import MainWindow

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SAMPLES = Path(__file__).resolve().parent.parent / "sample_models"
SIZE = (1600, 1000)
STEPS = 40
FRAMES = 30
ZOOM = 1.1
PAUSE_SECONDS = 0.06
"""Pause before each step, since panels delay a refresh within a frame of the last one."""
STEP_FIGURE, STEP_WORST, ZOOM_FIGURE, OPEN_FIGURE = "33", "60", "8", "1.5"

FLASH = OpenOptions("neuroncore", settings={"shape.q": "64x256", "shape.k": "64x256", "shape.v": "256x64"})


@dataclass(frozen=True, slots=True)
class Case:
    """One program in the layout that its machine opens in; steps begin at `cycle`."""

    name: str
    path: Path
    options: OpenOptions
    cycle: int
    is_network: bool = False


CASES = (
    Case("light_resnet50", LIGHT / "light_resnet50.onnx", OpenOptions("systolic"), 200_000, is_network=True),
    Case("light_resnet50, rk3588", LIGHT / "light_resnet50.onnx", OpenOptions("rk3588"), 200_000),
    Case("heat", SAMPLES / "csl" / "heat", OpenOptions("wavelet"), 400),
    Case("flash_attention", SAMPLES / "nki" / "flash_attention.py", FLASH, 4000),
)


@dataclass(slots=True)
class Measured:
    """Times of opening, steps and zooming.

    first, warm  (seconds to the first picture, seconds until all panels are filled) of the first opening in a
       process, and of the next one
    steps, frames  (n, 2) milliseconds: wall time, and processor time of the window's thread
    """

    first: tuple[float, float]
    warm: tuple[float, float]
    steps: np.ndarray
    frames: np.ndarray


def run() -> list[Row]:
    """Measure each case."""
    rows: list[Row] = []
    for case in CASES:
        found = measure(case)
        if case.is_network:
            name = f"{case.name}: open to the first picture"
            rows.append(Row(f"{name}, new process", found.first[0], "s"))
            rows.append(Row(f"{name}, warm", found.warm[0], "s", OPEN_FIGURE))
            rows.append(Row(f"{case.name}: open until all is filled, warm", found.warm[1], "s"))
        rows += _rows(f"{case.name}: a step until all panels show it", found.steps, STEP_FIGURE, STEP_WORST)
        rows += _rows(f"{case.name}: a frame of zooming", found.frames, ZOOM_FIGURE, "")
    return rows


def _rows(name: str, taken: np.ndarray, median: str, worst: str) -> list[Row]:
    wall, thread = (np.percentile(taken[:, column], (50, 95)).tolist() for column in (0, 1))
    return [
        Row(f"{name}, median", wall[0], "ms", median),
        Row(f"{name}, p95", wall[1], "ms", worst),
        Row(f"{name}, processor time of the window, median", thread[0], "ms", ""),
    ]


def measure(case: Case, around: "Callable[[Callable[[], None]], None] | None" = None) -> Measured:
    """Open, step and zoom one case. `around` is called with the work of each step, for a profiler."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from npuviz.ui.shell.application import Application
    from npuviz.workbench.settings import Settings

    application = Application(Settings(None))
    window = application.new_window()
    window.resize(*SIZE)
    window.show()
    _idle(application, window)
    first = _open(application, window, case)
    warm = _open(application, window, case)
    window.model.go_to(case.cycle)
    _settle(application, window)
    steps = _steps(application, window, around)
    frames = _frames(application, window)
    application.close()
    return Measured(first, warm, steps, frames)


def _open(application: "Application", window: "MainWindow", case: Case) -> tuple[float, float]:
    """Open a file. Returns the seconds to the first picture, and until all panels are filled."""
    before, begin = window.model.opened, time.perf_counter()
    window.open(case.path, case.options, is_named=True)
    _wait(application, lambda: window.model.opened is not before)
    _wait(application, lambda: not window.start_page.isVisible())
    window.repaint()
    opening = time.perf_counter() - begin
    _settle(application, window)
    return opening, time.perf_counter() - begin


def _steps(
    application: "Application",
    window: "MainWindow",
    around: "Callable[[Callable[[], None]], None] | None",
) -> np.ndarray:
    taken: list[tuple[float, float]] = []

    def work() -> None:
        window.model.step()
        _settle(application, window)
        application.qt.processEvents()

    for _ in range(STEPS):
        pause = time.perf_counter() + PAUSE_SECONDS
        while time.perf_counter() < pause:
            application.qt.processEvents()
            time.sleep(0.001)
        begin, used = time.perf_counter(), time.thread_time()
        if around is None:
            work()
        else:
            around(work)
        taken.append(((time.perf_counter() - begin) * 1e3, (time.thread_time() - used) * 1e3))
    return np.array(taken)


def _frames(application: "Application", window: "MainWindow") -> np.ndarray:
    """Measure zooming into the timeline by 10 % per frame, each painted at once."""
    from npuviz.ui.timeline.panel import TimelinePanel

    panel = window.docks.panel("timeline")
    assert isinstance(panel, TimelinePanel)
    view = panel.view
    window.docks.show_panel("timeline")
    view.fit()
    _settle(application, window)
    taken: list[tuple[float, float]] = []
    for _ in range(FRAMES):
        begin, used = time.perf_counter(), time.thread_time()
        area = view.tracks_rect()
        shown = view.state.viewport.zoomed(1 / ZOOM, area.center().x(), view.state.end_cycle)
        view.set_viewport(shown)
        view.repaint()
        taken.append(((time.perf_counter() - begin) * 1e3, (time.thread_time() - used) * 1e3))
    return np.array(taken)


def _idle(application: "Application", window: "MainWindow") -> None:
    _wait(application, lambda: not window.model.is_busy)


def _settle(application: "Application", window: "MainWindow") -> None:
    """Wait until no work is under way and every visible panel is filled."""
    _idle(application, window)
    _wait(application, lambda: all(panel.is_settled for panel in window.docks.panels.values()))


def _wait(application: "Application", is_done: Callable[[], bool]) -> None:
    application.qt.processEvents()
    while not is_done():
        application.qt.processEvents()
        time.sleep(0.0005)
    application.qt.processEvents()


def main(name: str, is_profiled: bool) -> None:
    """Print the measurements of a case, and with --profile a profile of its steps."""
    case = next(case for case in CASES if case.name == name)
    profile = cProfile.Profile()
    found = measure(case, (lambda work: profile.runcall(work)) if is_profiled else None)
    for row in _rows("step", found.steps, STEP_FIGURE, STEP_WORST) + _rows("zoom", found.frames, "", ""):
        print(f"{row.name}: {row.value:.1f} {row.unit}")
    print(f"open: first {found.first[0]:.2f} s, warm {found.warm[0]:.2f} s, filled {found.warm[1]:.2f} s")
    if is_profiled:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    main(sys.argv[1], "--profile" in sys.argv)
