"""Write into elements of a fabric that are large enough: place, task, detail, and bars for queues."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QImage, QPainter, QStaticText, QTransform

from npuviz.base.names import fitting
from npuviz.sim.fabric import FabricShape, Glance, Level
from npuviz.ui.fabric.camera import FabricCamera
from npuviz.ui.fabric.frame import CELL_HALF
from npuviz.ui.fabric.style import FabricStyle
from npuviz.ui.kit.colors import translucent
from npuviz.ui.theme.theme import Theme

TEXT_FROM = 44.0
"""Pixels per element from which on texts are written into it."""
TASK_SIDE = 58.0
DETAIL_SIDE = 76.0
BARS_SIDE = 34.0
LINE = 13
MAX_BARS = 12
PADDING = 4
MAX_TEXTS = 4096
PLACE_FONT = 0
FEWEST = 4
"""Fewest letters beside an ellipsis that are worth showing."""


class TextCache:
    """Cache of shaped texts, because the same few occur in many elements and frames."""

    def __init__(self, theme: Theme) -> None:
        self.fonts = (theme.font_ui(10), theme.font_ui(11, bold=True), theme.font_ui(11))
        self._metrics = tuple(QFontMetrics(font) for font in self.fonts)
        self._texts: dict[tuple[int, int, str], QStaticText] = {}

    def text(self, font: int, room: int, text: str) -> QStaticText:
        """Return a text shortened to `room` pixels and shaped; a place is written whole or not at all."""
        key = (font, room, text)
        found = self._texts.get(key)
        if found is None:
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
            measure = self._metrics[font].horizontalAdvance
            fewest = len(text) if font == PLACE_FONT else FEWEST
            fitted = fitting(text, lambda each: measure(each) <= room, fewest)
            found = self._texts[key] = QStaticText(fitted)
            found.setTextFormat(Qt.TextFormat.PlainText)
            found.prepare(QTransform(), self.fonts[font])
        return found


Place = tuple[int, int]
"""(column, row) of an element."""
Written = tuple[Glance, int]
"""What is written into an element, and the state that colours it, -1 if the state does not."""


class CellLook(NamedTuple):
    """Camera, fabric and style of a picture of `size` device pixels; `ratio` device pixels per logical
    one.
    """

    camera: FabricCamera
    shape: FabricShape
    style: FabricStyle
    size: QSize
    ratio: float


class CellLayer:
    """The texts of all elements in one picture, in which only changed elements are written again."""

    def __init__(self, theme: Theme) -> None:
        self._cache = TextCache(theme)
        self._image = QImage()
        self._written: dict[Place, Written] = {}
        self._look: CellLook | None = None

    def picture(self, look: CellLook, glances: Mapping[Place, Glance], is_state: bool) -> QImage:
        """Return the texts of a frame; valid until the next call.

        is_state  elements are coloured by their state, which decides the colour of the text
        """
        if look != self._look:
            self._look, self._written = look, {}
            self._image = QImage(look.size, QImage.Format.Format_ARGB32_Premultiplied)
            self._image.setDevicePixelRatio(look.ratio)
            self._image.fill(0)
        wanted = {place: (glance, glance.state if is_state else -1) for place, glance in glances.items()}
        before = self._written
        news = {place: each for place, each in wanted.items() if before.get(place) != each}
        gone = [place for place in before if place in news or place not in wanted]
        if news or gone:
            painter = QPainter(self._image)
            texts = CellTexts(painter, look, self._cache)
            texts.clear(gone)
            texts.paint(news)
            painter.end()
        self._written = wanted
        return self._image


class CellTexts:
    """Writes into elements; sizes and colours that are the same for all are computed once."""

    def __init__(self, painter: QPainter, look: CellLook, cache: TextCache) -> None:
        self._cache = cache
        self._painter = painter
        self._camera = camera = look.camera
        self._shape = look.shape
        self._style = style = look.style
        self._side = 2 * CELL_HALF * camera.scale
        self._room = self._side - 2 * PADDING
        theme = style.theme
        self._full = theme.color("hazard")
        self._trough = translucent(style.canvas, 120)
        self._inks: dict[int, tuple[QColor, QColor]] = {}

    def clear(self, places: Iterable[Place]) -> None:
        """Clear the texts of elements."""
        self._painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Clear)
        for place in places:
            x, y = self._camera.to_screen(place[0] + 0.5, place[1] + 0.5)
            half = self._camera.scale / 2
            self._painter.fillRect(QRectF(x - half, y - half, 2 * half, 2 * half), Qt.GlobalColor.transparent)
        self._painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)

    def paint(self, written: Mapping[Place, Written]) -> None:
        """Write the texts of elements."""
        cache = self._cache
        # One font after the other, because changing the font is slow.
        boxes = [
            (self._box(place), place, glance, self._ink(state)) for place, (glance, state) in written.items()
        ]
        self._painter.setFont(cache.fonts[0])
        corner = self._shape.program
        for box, place, _glance, (_ink, faint) in boxes:
            self._line(box, 0, 0, f"{place[0] - corner.column}, {place[1] - corner.row}", faint)
        if self._side >= TASK_SIDE:
            self._painter.setFont(cache.fonts[1])
            for box, _place, glance, (ink, _faint) in boxes:
                self._line(box, 1, 1, glance.task, ink)
        if self._side >= DETAIL_SIDE:
            self._painter.setFont(cache.fonts[2])
            for box, _place, glance, (ink, _faint) in boxes:
                self._line(box, 2 if glance.task else 1, 2, glance.detail, ink)
        if self._side >= BARS_SIDE:
            self._paint_bars([(box, glance, ink) for box, _place, glance, (ink, _faint) in boxes])

    def _box(self, place: tuple[int, int]) -> QRectF:
        x, y = self._camera.to_screen(place[0] + 0.5, place[1] + 0.5)
        half = self._side / 2
        return QRectF(x - half + PADDING, y - half + 2, self._room, self._side - 5)

    def _ink(self, state: int) -> tuple[QColor, QColor]:
        """Return the colour of texts on a state's fill, and a fainter one."""
        if state not in self._inks:
            theme = self._style.theme
            ink = theme.text_on(self._style.color_of_state(state) if state >= 0 else theme.color("surface"))
            self._inks[state] = (ink, translucent(ink, 190))
        return self._inks[state]

    def _line(self, box: QRectF, line: int, font: int, text: str, color: QColor) -> None:
        if not text:
            return
        self._painter.setPen(color)
        shaped = self._cache.text(font, int(self._room), text)
        self._painter.drawStaticText(round(box.left()), round(box.top() + line * LINE), shaped)

    def _paint_bars(self, boxes: list[tuple[QRectF, Glance, QColor]]) -> None:
        """Paint a small column for each queue, as high as the queue is full; whole pixels are painted
        faster.
        """
        fill, full, trough = self._painter.fillRect, self._full, self._trough
        high = round(min(max((self._side - 5) * 0.26, 7.0), 22.0))
        for box, glance, ink in boxes:
            levels = glance.levels[:MAX_BARS]
            if not levels:
                continue
            left, bottom = round(box.left()), round(box.bottom())
            width = int(min(max((self._room - len(levels)) / len(levels) - 2, 2.0), 9.0))
            for level in levels:
                fill(left, bottom - high, width, high, trough)
                share = _share(level)
                if share > 0:
                    tall = max(round(high * share), 1)
                    fill(left, bottom - tall, width, tall, full if share >= 1 else ink)
                left += width + 2


def _share(level: Level) -> float:
    return min(level.entries / level.capacity, 1.0) if level.capacity else float(level.entries > 0)
