"""A timeline frame at every zoom, 64 tracks and 10 million slices, and the map of a large memory."""

import os
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.row import Row

NUM_TRACKS = 64
NUM_SLICES = 10_000_000
WIDTH, HEIGHT = 1920, 1080
FRAMES = 40
WARM_UP = 4
MAP_BYTES = 32 << 20
FIGURE = "under 16 ms"


def run() -> list[Row]:
    """Pan at each zoom, every frame painted anew."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication

    application = QApplication.instance() or QApplication([])
    rows = [*_timeline(), *_memory_map()]
    application.processEvents()
    return rows


def _milliseconds(frame: Callable[[int], None], count: int = FRAMES) -> np.ndarray:
    found: list[float] = []
    for number in range(count + WARM_UP):
        begin = time.perf_counter()
        frame(number)
        found.append((time.perf_counter() - begin) * 1e3)
    return np.array(found[WARM_UP:])


def _timeline() -> list[Row]:
    from PySide6.QtGui import QImage

    from npuviz.ui.theme.theme import Theme
    from npuviz.ui.widgets.timeline_view import TimelineView
    from npuviz.ui.widgets.timeline_viewport import Viewport
    from tests.ui.synthetic import make_reader

    reader = make_reader(NUM_TRACKS, NUM_SLICES)
    view = TimelineView(Theme("dark"))
    view.resize(WIDTH, HEIGHT)
    view.set_reader(reader)
    # All 64 tracks and the rows of their 16 groups shall be on the screen at once.
    view.set_options(replace(view.options, row_height=12))
    view.show()
    end = reader.end_cycle
    view.set_cursor_cycle(end * 7 // 10)
    image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
    rows: list[Row] = []
    zoom = 1
    while end / zoom > WIDTH / 16:
        span = end / zoom
        base = replace(view.state.viewport, start=end * 0.3 if zoom > 1 else 0.0, span=span)

        def frame(number: int, base: Viewport = base, span: float = span) -> None:
            # A pan by 0.3 % a frame: nothing of the picture before can be used.
            view.state.viewport = replace(base, start=base.start + number * span * 0.003)
            view.render(image)

        times = _milliseconds(frame)
        name = f"timeline frame, 64 tracks, 1e7 slices, zoom 1/{zoom}"
        rows.append(Row(f"{name}, p50", float(np.percentile(times, 50)), "ms", FIGURE))
        rows.append(Row(f"{name}, p95", float(np.percentile(times, 95)), "ms", FIGURE))
        zoom *= 4
    view.close()
    return rows


def _memory_map() -> list[Row]:
    from npuviz.ui.widgets.memory_layout import Painted, fit, paint_map, view_of

    size = MAP_BYTES // 1024
    ranges = [Painted(place * size, size - 4096, 0xFF000000 + place, place % 7 == 0) for place in range(1024)]
    layout = fit(view_of(MAP_BYTES, 2), WIDTH, HEIGHT // 2)

    def frame(_number: int) -> None:
        paint_map(layout, ranges, 1, 2, 3)

    times = _milliseconds(frame)
    return [Row("memory map, 32 MiB, 1024 regions, p50", float(np.percentile(times, 50)), "ms", FIGURE)]
