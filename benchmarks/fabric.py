"""Measures a frame of the fabric panel with 750 x 994 elements, all of which change their state in each
frame."""

import os
import time
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.row import Row

if TYPE_CHECKING:
    from npuviz.ui.fabric.panel import FabricPanel
    from tests.toy.fabric import ToyFabric

COLUMNS, ROWS = 750, 994
WIDTH, HEIGHT = 1920, 1080
FRAMES = 40
WARM_UP = 5
WORDS_PER_CYCLE = 8
FIGURE = "under 16"
SCALES = (0.0, 3.0, 6.0, 16.0, 48.0, 96.0)
"""Pixels per element; 0: the whole fabric is visible."""


def run() -> list[Row]:
    """Advance the machine by a cycle and repaint the panel, at several zooms; only painting is measured."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from pathlib import Path

    from PySide6.QtWidgets import QApplication

    from npuviz.debug.session import Session
    from npuviz.ui.bridge.hazard_watch import HazardWatch
    from npuviz.ui.bridge.session_model import SessionModel
    from npuviz.ui.fabric.panel import FabricPanel
    from npuviz.ui.fabric.raster import warm_up
    from npuviz.ui.kit.panel import PanelContext
    from npuviz.ui.theme.theme import Theme
    from npuviz.workbench.commands import CommandRegistry
    from npuviz.workbench.opening import Opened, OpenOptions
    from npuviz.workbench.selection import SelectionModel
    from npuviz.workbench.settings import Settings
    from tests.toy.fabric import make_fabric

    warm_up()
    application = QApplication.instance() or QApplication([])
    model = SessionModel()
    hazards = HazardWatch(model)
    panel = FabricPanel(
        PanelContext(model, SelectionModel(), Theme("dark"), CommandRegistry(), Settings(), hazards)
    )
    panel.resize(WIDTH, HEIGHT)
    machine = make_fabric(COLUMNS, ROWS, WORDS_PER_CYCLE, blocks=64)
    model.show_opened(Opened(Path("f.toy"), "f", OpenOptions(), session=Session(machine)))
    panel.on_session_changed()
    panel.show()
    while not panel.view.isVisible():
        application.processEvents()
    rows: list[Row] = []
    for shade in ("state", "load", "queue"):
        panel.bar.shade.setCurrentIndex(panel.bar.shade.findData(shade))
        for scale in SCALES:
            rows += _measured(panel, machine, shade, scale)
    panel.dispose()
    panel.close()
    hazards.shut_down()
    model.shut_down()
    application.processEvents()
    return rows


def _measured(panel: "FabricPanel", machine: "ToyFabric", shade: str, scale: float) -> list[Row]:
    """Measure the milliseconds of a frame: reading the machine, the picture, the legend."""
    from PySide6.QtGui import QImage

    from npuviz.sim.stop import NO_STOPS
    from npuviz.ui.fabric.camera import FabricCamera, fitted

    view, shape = panel.view, machine.fabric
    size = view.canvas.width(), view.canvas.height()
    view.camera = FabricCamera(scale, 300, 400) if scale else fitted(shape.whole, *size)
    image = QImage(view.size(), QImage.Format.Format_RGB32)
    wall: list[float] = []
    thread: list[float] = []
    changed = 1.0
    before = machine.element_states(shape.whole)
    for _ in range(FRAMES + WARM_UP):
        machine.advance(machine.cycle + 1, NO_STOPS, None)
        after = machine.element_states(shape.whole)
        changed, before = min(changed, float((after != before).mean())), after
        view.refresh()
        begin, used = time.perf_counter(), time.thread_time()
        view.render(image)
        thread.append((time.thread_time() - used) * 1e3)
        wall.append((time.perf_counter() - begin) * 1e3)
    if changed < 1:
        raise AssertionError(f"only {changed:.0%} of the elements changed")
    median, late = np.percentile(np.array(wall[WARM_UP:]), (50, 95)).tolist()
    area = view.camera.visible(shape, *size)
    name = f"fabric by {shade}, {area.columns} x {area.rows} elements in sight"
    return [
        Row(f"{name}: p50", median, "ms", FIGURE),
        Row(f"{name}: p95", late, "ms", ""),
        Row(f"{name}: processor time, p50", float(np.median(thread[WARM_UP:])), "ms", FIGURE),
    ]
