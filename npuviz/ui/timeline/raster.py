"""Paint the rows of a timeline into an image: slices, utilisation, counters and labels."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PySide6.QtGui import QFont, QImage

from npuviz.trace.reader import TraceReader
from npuviz.ui.kit import raster_kernels as kernels
from npuviz.ui.kit.colors import image_of
from npuviz.ui.kit.viewport import Viewport
from npuviz.ui.timeline import track_kernels
from npuviz.ui.timeline.index import TimelineIndex
from npuviz.ui.timeline.labels import LabelMasks
from npuviz.ui.timeline.rows import Row
from npuviz.ui.timeline.state import NOTHING_MARKED, Marked
from npuviz.ui.timeline.style import TimelineStyle

MIN_LABEL_PIXELS = 30
MAX_LABELS_PER_ROW = 512
ROW_GAP = 2
DENSE_SLICES = 2
"""With more slices per pixel than this, rows are painted from sums over a fixed grid of cycles."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture to paint.

    rows       rows to paint
    width, height, scroll  logical pixels; scroll is the pixel of the layout at the top of the image
    ratio      device pixels per logical pixel
    end_cycle  end of what is recorded: counters stop there
    node       graph node whose slices are underlined, -1 for none
    marked     instructions whose slices are underlined, too
    """

    viewport: Viewport
    rows: Sequence[Row]
    width: int
    height: int
    scroll: int
    ratio: float
    end_cycle: int
    node: int = -1
    marked: Marked = NOTHING_MARKED


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of device pixels: column x begins at first + x * step cycles; phase places hatchings."""

    first: float
    step: float
    count: int
    phase: int

    @property
    def end(self) -> float:
        """First cycle right of the last column."""
        return self.first + self.step * self.count


class _Band(NamedTuple):
    """Top and height of a row's slices in device pixels, with `gap` free pixels above and below."""

    top: int
    height: int
    gap: int


NameOf = Callable[[int], tuple[str, str]]
"""Returns short and long text of an instruction."""


class TimelineRaster:
    """Paints frames; owns the image, the labels and other data kept between frames.

    name_of  returns the texts of an instruction for labels; None: work is labelled by its kind
    """

    def __init__(
        self,
        reader: TraceReader,
        index: TimelineIndex,
        style: TimelineStyle,
        font: QFont,
        name_of: NameOf | None = None,
    ) -> None:
        self._reader = reader
        self._name_of = name_of
        self._names: dict[int, tuple[str, str]] = {}
        self.index = index
        self._style = style
        self._font = font
        self._pixels = np.zeros((0, 0), dtype=np.uint32)
        self._plan = np.zeros((track_kernels.PLAN_ROWS, 0), dtype=np.int32)
        self._edges = np.zeros((0, track_kernels.EDGE_COLUMNS), dtype=np.int64)
        self._found = np.zeros((MAX_LABELS_PER_ROW, track_kernels.LABEL_COLUMNS), dtype=np.int64)
        self._amounts = np.zeros(len(index.categories.names), dtype=np.float64)
        self._labels: LabelMasks | None = None
        self._labels_ratio = 0.0
        self._period = 8
        self._marked: dict[int, tuple[int, np.ndarray]] = {}
        self._marked_by: tuple[int, Marked] = (-1, NOTHING_MARKED)
        self.num_recorded = len(reader.schema.tracks)
        self._texts: dict[tuple[int, int, bool], tuple[str, str]] = {}
        self._frames = frozenset(kind.id for kind in reader.schema.kinds if kind.frames)
        self._ownerless = {track.id for track in reader.schema.tracks if track.unit < 0}
        self._maxima = {track.id: track.maximum for track in reader.schema.tracks}
        self._scales: dict[int, tuple[int, int]] = {}
        self.wants_more = False

    def paint(self, frame: Frame) -> QImage:
        """Paint a frame; the image is valid until the next call."""
        width = max(round(frame.width * frame.ratio), 1)
        height = max(round(frame.height * frame.ratio), 1)
        if self._pixels.shape != (height, width):
            self._pixels = np.zeros((height, width), dtype=np.uint32)
            self._plan = np.zeros((track_kernels.PLAN_ROWS, width), dtype=np.int32)
            self._edges = np.zeros((width, track_kernels.EDGE_COLUMNS), dtype=np.int64)
        if self._labels is None or self._labels_ratio != frame.ratio:
            self._labels = LabelMasks(self._font, frame.ratio)
            self._labels_ratio = frame.ratio
        self._labels.begin_frame()
        self._period = 8 if frame.ratio < 1.5 else 16
        step = frame.viewport.cycles_per_pixel / frame.ratio
        columns = _Columns(frame.viewport.start, step, width, int(frame.viewport.start / step))
        for row in frame.rows:
            self._paint_row(frame, row, columns)
        below = round((frame.rows[-1].bottom - frame.scroll) * frame.ratio) if frame.rows else 0
        kernels.fill_rows(self._pixels, below, height, self._style.canvas)
        self.wants_more = self._labels.is_short_of_time
        return image_of(self._pixels, frame.ratio)

    def paint_overview(self, width: int, height: int, ratio: float, end_cycle: int) -> QImage:
        """Paint a small picture of the whole run: the mean utilisation of all interval tracks."""
        columns = max(round(width * ratio), 1)
        rows = max(round(height * ratio), 1)
        pixels = np.full((rows, columns), self._style.group, dtype=np.uint32)
        recorded = self._reader.schema.tracks[: self.num_recorded]
        members = tuple(track.id for track in recorded if track.kind == "interval")
        row = Row("group", "", "", -1, 0, 0, height, members, True)
        if end_cycle > 0:
            step = end_cycle / columns
            self._paint_group(pixels, row, _Columns(0.0, step, columns, 0), _Band(2, rows - 3, 0))
        return image_of(pixels, ratio).copy()

    def _paint_row(self, frame: Frame, row: Row, columns: _Columns) -> None:
        ratio = frame.ratio
        top = round((row.top - frame.scroll) * ratio)
        bottom = round((row.bottom - frame.scroll) * ratio)
        gap = round(ROW_GAP * ratio)
        band = _Band(top + gap, bottom - top - 2 * gap, gap)
        if row.kind == "group":
            kernels.fill_rows(self._pixels, top, bottom, self._style.group)
            if row.is_collapsed:
                self._paint_group(self._pixels, row, columns, band)
        elif row.kind == "counter":
            kernels.fill_rows(self._pixels, top, bottom, self._style.canvas)
            self._paint_counter(frame, row, columns, band)
            kernels.fill_rows(self._pixels, bottom - 1, bottom, self._style.grid)
        else:
            self._paint_slices(frame, row, columns, band)

    def _paint_slices(self, frame: Frame, row: Row, columns: _Columns, band: _Band) -> None:
        index = self.index.track(row.track)
        style, (top, height, gap) = self._style, band
        if height <= 0:
            kernels.fill_rows(self._pixels, top - gap, top + height + gap, style.canvas)
            return
        if index.count_between(columns.first, columns.end) > DENSE_SLICES * columns.count:
            self._paint_dense((row.track,), columns, band, style.canvas, style.grid)
        else:
            least = MIN_LABEL_PIXELS * frame.ratio
            used = track_kernels.paint_slices(
                self._pixels, *band, index.start, index.end, index.keys, index.view.starts,
                style.table, columns.first, columns.step, columns.phase, self._period, least, self._plan,
                self._amounts, self._edges, self._found, style.canvas, style.grid,
            )  # fmt: skip
            if used:
                self._paint_labels(frame, row.track, self._found[:used], band)
        if frame.node >= 0 or frame.marked:
            self._paint_marked(frame, row.track, columns, band)

    def _paint_dense(
        self, tracks: tuple[int, ...], columns: _Columns, band: _Band, background: int, line: int
    ) -> None:
        """Paint a row with many slices per pixel, from exact sums over cells of 2^n cycles, 1 to 2 pixels
        wide.
        """
        size = 1 << max(math.ceil(math.log2(columns.step)), 0)
        low, high = math.floor(columns.first / size), math.ceil(columns.end / size)
        cells = self.index.cells(tracks, size, low, high)
        track_kernels.paint_cells(
            self._pixels, *band, cells.amounts, cells.categories, cells.begin, columns.first,
            columns.step, float(size), 1.0 / size / len(tracks), self._style.table, columns.phase,
            self._period, self._plan, background, line,
        )  # fmt: skip

    def _paint_group(self, pixels: np.ndarray, row: Row, columns: _Columns, band: _Band) -> None:
        """Paint the mean utilisation of all tracks in a folded group."""
        background = self._style.group
        band = band._replace(gap=0)
        tracks = tuple(member for member in row.members if self.index.is_interval(member))
        if not tracks:
            return
        # Most tracks of a fabric are empty.
        indices = [index for track in tracks if len((index := self.index.track(track)).start)]
        if pixels is self._pixels:
            num_slices = sum(index.count_between(columns.first, columns.end) for index in indices)
            if num_slices > DENSE_SLICES * columns.count * len(tracks):
                self._paint_dense(tracks, columns, band, background, background)
                return
        count = len(self._style.table)
        sums = np.zeros((columns.count + 1, count), dtype=np.float64)
        for index in indices:
            edges = index.columns(columns.first, columns.step, columns.count)
            sums[:, index.present] += edges.sums[:, : len(index.present)]
        amounts = np.empty((2, columns.count), dtype=np.float64)
        categories = np.empty((2, columns.count), dtype=np.int16)
        present = np.arange(count, dtype=np.int16)
        track_kernels.summarise(sums, present, self.index.categories.is_work, amounts, categories)
        plan = np.zeros((track_kernels.PLAN_ROWS, columns.count), dtype=np.int32)
        share = 1.0 / columns.step / max(len(tracks), 1)
        track_kernels.paint_cells(
            pixels, *band, amounts, categories, 0, 0.0, 1.0, 1.0, share, self._style.table,
            columns.phase, self._period, plan, background, background,
        )  # fmt: skip

    def _paint_counter(self, frame: Frame, row: Row, columns: _Columns, band: _Band) -> None:
        top, height, _gap = band
        first = max(columns.first, 0.0)
        skipped = int((first - columns.first) / columns.step)
        last = min(columns.first + columns.step * columns.count, float(frame.end_cycle))
        points = min(int((last - first) / columns.step + 0.5), columns.count - skipped)
        if points <= 0 or height <= 0:
            return
        window = (first, first + points * columns.step)
        _cycles, low, high, held = self._reader.counter(row.track, window, points)
        values = np.full((3, columns.count), np.nan)
        for place, found in enumerate((low, high, held)):
            values[place, skipped : skipped + points] = found
        maximum = float(max(self.scale_of(row.track, frame.end_cycle), int(high.max(initial=0)), 1))
        fill, between, line = self._style.counter
        kernels.paint_counter(
            self._pixels, top, height, values[0], values[1], values[2], maximum, fill, between, line,
            max(round(frame.ratio), 1),
        )  # fmt: skip

    def scale_of(self, track: int, end_cycle: int) -> int:
        """Return the value at the top of a counter's row: its limit, or its largest value if that is far
        below.
        """
        known = self._scales.get(track)
        if known is None or known[0] != end_cycle:
            _cycles, _low, high, _last = self._reader.counter(track, (0, max(end_cycle, 1)), 64)
            known = self._scales[track] = (end_cycle, int(high.max(initial=0)))
        seen, limit = known[1], self._maxima.get(track, 0)
        return limit if 0 < limit <= 4 * seen else max(seen, 1)

    def _paint_labels(self, frame: Frame, track: int, found: np.ndarray, band: _Band) -> None:
        """Draw names on slices; `found` is the `labels` table of track_kernels.plan_slices."""
        labels, (top, height, _gap) = self._labels, band
        if labels is None or height < labels.label_height * 0.8:
            return
        index, is_ownerless = self.index.track(track), track in self._ownerless
        slices = found[:, 0]
        nodes, instructions = index.view.details(slices)
        categories = index.present[index.local[index.keys[slices]]]
        colors = self._style.text[categories]
        padding = round(4 * frame.ratio)
        y = top + (height - labels.label_height) // 2
        places: list[tuple[int, int, int, int, int]] = []
        for kind, node, instruction, left, right, color in zip(
            index.view.kind[slices].tolist(), nodes.tolist(), instructions.tolist(), found[:, 1].tolist(),
            found[:, 2].tolist(), colors.tolist(), strict=True,
        ):  # fmt: skip
            short, long = self._named(kind, instruction) or self._text(kind, node, is_ownerless)
            mask = labels.mask(short, long, right - left - 2 * padding)
            if mask is None or not mask.ink:
                continue
            if not self._style.table[kind, kernels.IS_WORK]:
                # Text on hatching cannot be read: the hatching ends at the text.
                end = min(left + 2 * padding + mask.ink, right)
                self._pixels[max(top, 0) : top + height, left + 1 : end] = self._style.table[
                    kind, kernels.FILL
                ]
            places.append((mask.offset, mask.width, left + padding, y, color))
        if places:
            table = np.array(places, dtype=np.int64)
            kernels.blit_labels(self._pixels, labels.buffer, table, labels.label_height)

    def _named(self, kind: int, instruction: int) -> tuple[str, str] | None:
        """Return short and long text of work from `name_of`; None without `name_of`, and for stalls."""
        if self._name_of is None or instruction < 0 or not self.index.categories.is_work[kind]:
            return None
        found = self._names.get(instruction)
        if found is None:
            found = self._names[instruction] = self._name_of(instruction)
        return found

    def _text(self, kind: int, node: int, is_ownerless: bool) -> tuple[str, str]:
        """Return short and long text of a slice by kind and operator; on a track without unit, by
        operator.
        """
        found = self._texts.get((kind, node, is_ownerless))
        if found is None:
            names = self._reader.schema.node_names
            short = self.index.categories.names[kind]
            is_work = self.index.categories.is_work[kind]
            name = names[node] if is_work and 0 <= node < len(names) else ""
            long = f"{short}  {name}" if name else short
            if kind in self._frames:
                found = (name, f"{short} {name}")
            else:
                found = (name, name) if name and is_ownerless else (short, long)
            self._texts[(kind, node, is_ownerless)] = found
        return found

    def _paint_marked(self, frame: Frame, track: int, columns: _Columns, band: _Band) -> None:
        """Underline the slices of the selected graph node and of the selected instructions."""
        index, (top, height, _gap) = self.index.track(track), band
        marked_by = frame.node, frame.marked
        if marked_by != self._marked_by:
            self._marked.clear()
            self._marked_by = marked_by
        count, chosen = self._marked.get(track, (0, np.zeros(0, dtype=np.int64)))
        if count > len(index.start):
            count, chosen = 0, chosen[:0]
        if count < len(index.start):
            fresh = np.arange(count, len(index.start), dtype=np.int64)
            nodes, instructions = index.view.details(fresh)
            is_chosen = (nodes == frame.node) & (nodes >= 0)
            if frame.marked:
                is_chosen |= np.isin(instructions, frame.marked.instructions)
            chosen = np.concatenate([chosen, fresh[is_chosen]])
            self._marked[track] = (len(index.start), chosen)
        thickness = max(height // 8, 2)
        kernels.paint_marks(
            self._pixels, top + height - thickness, thickness, index.start, index.end, chosen,
            columns.first, columns.step, self._style.accent,
        )  # fmt: skip
