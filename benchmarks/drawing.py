"""Measures a timeline frame at several zooms, with 64 tracks and 10 million slices, and the map of a large
memory."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.row import Row

if TYPE_CHECKING:
    from npuviz.ui.kit.viewport import Viewport
    from npuviz.ui.timeline.view import TimelineView

NUM_TRACKS = 64
NUM_SLICES = 10_000_000
WIDTH, HEIGHT = 1920, 1080
FRAMES = 40
WARM_UP = 6
SEED = 1
ZOOMS = (1, 4, 16, 64, 256, 1024, 4096)
DENSE_ROW, LABEL_ROW = 12, 22
"""Row heights: at 12 pixels all 64 tracks and their 16 groups are visible at once, at 22 there is text."""
PAN = 0.003
"""Share of the window that a pan moves per frame, so that no part of the last picture can be reused
unchanged."""
MAP_BYTES = 32 << 20
FIGURE = "under 16"


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of each frame: wall time, and processor time of this thread.

    Wall time also counts other processes on a busy computer.
    """

    wall: np.ndarray
    thread: np.ndarray

    def rows(self, name: str) -> list[Row]:
        """Return median and 95th percentile; the target figure applies to the median of wall time."""
        wall, thread = (np.percentile(values, (50, 95)).tolist() for values in (self.wall, self.thread))
        return [
            Row(f"{name}: p50", wall[0], "ms", FIGURE),
            Row(f"{name}: p95", wall[1], "ms", ""),
            Row(f"{name}: processor time, p50", thread[0], "ms", FIGURE),
        ]


def run() -> list[Row]:
    """Measure pans at each zoom, and zooming; every frame is painted completely."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication

    application = QApplication.instance() or QApplication([])
    rows = [*_timeline(), *_memory_map()]
    application.processEvents()
    return rows


def _measured(frame: Callable[[int], None]) -> Times:
    wall: list[float] = []
    thread: list[float] = []
    for number in range(FRAMES + WARM_UP):
        begin, used = time.perf_counter(), time.thread_time()
        frame(number)
        thread.append((time.thread_time() - used) * 1e3)
        wall.append((time.perf_counter() - begin) * 1e3)
    return Times(np.array(wall[WARM_UP:]), np.array(thread[WARM_UP:]))


def _timeline() -> list[Row]:
    from npuviz.ui.theme.theme import Theme
    from npuviz.ui.timeline.view import TimelineView
    from tests.ui.synthetic import make_reader

    view = TimelineView(Theme("dark"))
    view.resize(WIDTH, HEIGHT)
    view.set_reader(make_reader(NUM_TRACKS, NUM_SLICES, seed=SEED))
    view.show()
    end = view.state.end_cycle
    view.set_cursor_cycle(end * 7 // 10)
    view.set_options(replace(view.options, row_height=DENSE_ROW))
    spans = [(f"1/{zoom}" if zoom > 1 else "everything", end / zoom) for zoom in ZOOMS]
    spans.append(("a cycle a pixel", float(view.tracks_rect().width())))
    rows: list[Row] = []
    for name, span in spans:
        rows += _panning(view, span).rows(f"timeline, 64 tracks, 1e7 slices, {name}")
    rows += _zooming(view).rows("timeline, 64 tracks, 1e7 slices, zooming in by 10 % a frame")
    folded = frozenset(row.name for row in view.state.layout.rows if row.kind == "group")
    view.set_options(replace(view.options, row_height=LABEL_ROW, collapsed=folded))
    for zoom in (1, 16, 64):
        rows += _panning(view, end / zoom).rows(f"timeline, {len(folded)} folded groups of 4, 1/{zoom}")
    view.set_options(replace(view.options, collapsed=frozenset()))
    for name, pixels in (("a cycle a pixel", 1), ("8 pixels a cycle", 8)):
        times = _panning(view, view.tracks_rect().width() / pixels)
        rows += times.rows(f"timeline, {_visible(view)} tracks with labels, {name}")
    view.close()
    return rows


def _visible(view: "TimelineView") -> int:
    rows = view.state.layout.between(view.state.scroll, view.state.scroll + view.tracks_rect().height())
    return sum(row.track >= 0 for row in rows)


def _panning(view: "TimelineView", span: float) -> Times:
    """Measure frames of a pan to the right, at one zoom."""
    whole = span >= view.state.end_cycle
    base = replace(view.state.viewport, start=0.0 if whole else view.state.end_cycle * 0.3, span=span)
    return _painting(view, lambda number: replace(base, start=base.start + number * span * PAN))


def _zooming(view: "TimelineView") -> Times:
    """Measure frames of zooming in on one cycle, from the whole run on; each frame has another scale."""
    end = view.state.end_cycle
    base = replace(view.state.viewport, start=0.0, span=float(end))
    middle = end * 0.4

    def at(number: int) -> "Viewport":
        span = end * 0.9**number
        return replace(base, start=middle * (1 - 0.9**number), span=span)

    return _painting(view, at)


def _painting(view: "TimelineView", viewport: "Callable[[int], Viewport]") -> Times:
    from PySide6.QtGui import QImage

    image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)

    def frame(number: int) -> None:
        view.state.viewport = viewport(number)
        view.render(image)

    return _measured(frame)


def _memory_map() -> list[Row]:
    from npuviz.ui.memory.layout import Painted, fit, paint_map, view_of

    size = MAP_BYTES // 1024
    ranges = [Painted(place * size, size - 4096, 0xFF000000 + place, place % 7 == 0) for place in range(1024)]
    layout = fit(view_of(MAP_BYTES, 2), WIDTH, HEIGHT // 2)

    def frame(_number: int) -> None:
        paint_map(layout, ranges, 1, 2, 3)

    return _measured(frame).rows("memory map, 32 MiB, 1024 regions")
