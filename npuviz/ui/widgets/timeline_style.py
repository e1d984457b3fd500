"""Colours of a timeline as plain pixel numbers, taken from the theme once and not per slice."""

import numpy as np
from PySide6.QtGui import QColor

from npuviz.ui.theme.theme import Theme
from npuviz.ui.widgets.timeline_index import Categories

HATCH_CODES = {45: 1, 135: 2, 0: 3, 90: 4}
"""Angle of a hatching -> its number in raster_kernels."""

STALL_SHARE = 0.38
COUNTER_SHARES = (0.28, 0.50, 0.90)


def pixel(color: QColor) -> int:
    """Opaque 0xffRRGGBB of a colour."""
    return color.rgb() & 0xFFFFFFFF


def blended(below: QColor, above: QColor, share: float) -> QColor:
    """`share` of the colour above over the colour below."""
    rest = 1 - share
    return QColor.fromRgbF(
        below.redF() * rest + above.redF() * share,
        below.greenF() * rest + above.greenF() * share,
        below.blueF() * rest + above.blueF() * share,
    )


class TimelineStyle:
    """What the kernels need to know of the theme.

    table   (categories, 4) int64 rows: fill, line, hatch, is_work
    text    (categories,) int64: colour of a label on the fill
    """

    def __init__(self, theme: Theme, categories: Categories) -> None:
        canvas = theme.color("canvas")
        count = len(categories.names)
        self.table = np.zeros((count, 4), dtype=np.int64)
        self.text = np.zeros(count, dtype=np.int64)
        self.colors: list[QColor] = []
        for number, (name, role) in enumerate(zip(categories.names, categories.roles, strict=True)):
            base = theme.color(role) if role else theme.operator_color(name)
            is_work = bool(categories.is_work[number])
            fill = base if is_work else blended(canvas, base, STALL_SHARE)
            angle = None if is_work else theme.hatch_angle(role)
            hatch = 0 if angle is None else HATCH_CODES.get(angle, 0)
            self.table[number] = (pixel(fill), pixel(blended(canvas, base, 0.85)), hatch, int(is_work))
            self.text[number] = pixel(theme.text_on(fill) if is_work else theme.color("text"))
            self.colors.append(base)
        self.canvas = pixel(canvas)
        self.group = pixel(theme.color("surface"))
        self.grid = pixel(theme.color("grid"))
        self.accent = pixel(theme.color("accent"))
        counter = theme.color("text-muted")
        self.counter = tuple(pixel(blended(canvas, counter, share)) for share in COUNTER_SHARES)
