"""Measures the timeline of a kernel by line and by loop: 100,046 instructions, 34,020 turns of three loops.

npuviz bench loop_tracks       (half a minute of the processor for tracing the kernel)
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.row import Row

if TYPE_CHECKING:
    from npuviz.trace.reader import TraceReader
    from npuviz.ui.timeline.view import TimelineView

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def steps(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for block in range(20):
        tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        for row in range(50):
            sums = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=sums, value=0.0)
            for step in range(33):
                nisa.tensor_tensor(dst=sums, data1=sums, data2=tile, op=nl.add)
                nisa.activation(dst=tile, op=nl.copy, data=sums)
                nisa.tensor_scalar(dst=sums, data=sums, op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(dst=out, src=tile)
    return out
"""
WIDTH, HEIGHT = 1920, 1080
FRAMES = 30
ZOOMS = (1, 16, 256, 4096)


def run() -> list[Row]:
    """Measure how long the tracks take to make, and frames with them at several zooms."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication

    from npuviz.workbench.opening import OpenOptions, open_file

    application = QApplication.instance() or QApplication([])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.py"
        path.write_text(KERNEL)
        opened = open_file(path, OpenOptions(settings={"shape.a": "128x64"}))
        try:
            assert opened.session is not None
            assert opened.reader is not None
            opened.session.run()
            rows = _rows(opened.reader, opened.session.program.listing)
        finally:
            opened.close()
    application.processEvents()
    return rows


def _rows(reader: "TraceReader", listing: Any) -> list[Row]:
    from npuviz.trace.grouped import GroupedSource
    from npuviz.trace.reader import TraceReader
    from npuviz.ui.timeline.grouped import MAX_LANES
    from npuviz.workbench.tracks.by_line import line_grouping
    from npuviz.workbench.tracks.by_loop import LoopGrouping, loop_grouping

    rows = [Row("instructions", len(listing), ""), *_frames("units only", reader, frozenset())]
    makers: dict[str, Callable[[object], Any]] = {"by line": line_grouping, "by loop": loop_grouping}
    for name, make in makers.items():
        begin = time.thread_time()
        grouping = make(listing)
        found = time.thread_time()
        source = GroupedSource(reader.source, grouping)
        source.update()
        rows.append(
            Row(f"{name}: read the program, processor time", (found - begin) * 1e3, "ms", "under 500")
        )
        rows.append(
            Row(
                f"{name}: make the tracks, processor time",
                (time.thread_time() - found) * 1e3,
                "ms",
                "under 300",
            )
        )
        rows.append(Row(f"{name}: tracks", len(source.schema.tracks) - source.num_recorded, ""))
        folded = frozenset[str]()
        if isinstance(grouping, LoopGrouping):
            folded = grouping.crowded(MAX_LANES, [track.name for track in source.schema.tracks])
        rows += _frames(name, TraceReader(source), folded)
    return rows


def _frames(name: str, reader: "TraceReader", folded: frozenset[str]) -> list[Row]:
    """Measure frames of pans at several zooms, with the groups that the panel folds."""
    from npuviz.ui.theme.theme import Theme
    from npuviz.ui.timeline.rows import leading_tracks
    from npuviz.ui.timeline.view import TimelineView

    view = TimelineView(Theme("dark"))
    view.resize(WIDTH, HEIGHT)
    view.set_reader(reader)
    made = frozenset(track.id for track in reader.schema.tracks if track.name.startswith(("Lines", "Loops")))
    view.set_options(
        replace(view.options, leading=leading_tracks(reader.schema.tracks, {}) | made, folded=folded)
    )
    view.show()
    rows = [
        Row(f"{name}: frame, 1/{zoom}, processor time", _frame(view, zoom), "ms", "under 16")
        for zoom in ZOOMS
    ]
    view.close()
    return rows


def _frame(view: "TimelineView", zoom: int) -> float:
    """Return the median of the processor's milliseconds for a frame."""
    end = view.state.end_cycle
    base = replace(view.state.viewport, start=0.0 if zoom == 1 else end * 0.3, span=end / zoom)
    times: list[float] = []
    for number in range(FRAMES):
        begin = time.thread_time()
        view.set_viewport(replace(base, start=base.start + number * base.span * 0.003))
        view.grab()
        times.append((time.thread_time() - begin) * 1e3)
    return float(np.median(times[5:]))
