"""The colours of a timeline as plain pixel numbers, computed once per theme for the kernels."""

import numpy as np
from PySide6.QtGui import QColor

from npuviz.ui.kit.colors import HATCH_STEPS, STALL_SHARE, blended, pixel
from npuviz.ui.kit.raster_kernels import STYLE_COLUMNS
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.index import Categories

COUNTER_SHARES = (0.28, 0.50, 0.90)


class TimelineStyle:
    """The theme's colours in the form that the kernels use.

    table   (categories, STYLE_COLUMNS) int64, see raster_kernels
    text    (categories,) int64: colour of a label on the fill
    """

    def __init__(self, theme: Theme, categories: Categories) -> None:
        canvas = theme.color("canvas")
        count = len(categories.names)
        self.table = np.zeros((count, STYLE_COLUMNS), dtype=np.int64)
        self.text = np.zeros(count, dtype=np.int64)
        self.colors: list[QColor] = []
        for number, (name, role) in enumerate(zip(categories.names, categories.roles, strict=True)):
            base = theme.color(role) if role else theme.operator_color(name)
            is_work = bool(categories.is_work[number])
            fill = base if is_work else blended(canvas, base, STALL_SHARE)
            angle = None if is_work else theme.hatch_angle(role)
            line = fill if angle is None else blended(canvas, base, 0.85)
            x_step, y_step = HATCH_STEPS.get(angle, (0, 0)) if angle is not None else (0, 0)
            self.table[number] = (pixel(fill), pixel(line), x_step, y_step, int(is_work))
            self.text[number] = pixel(theme.text_on(fill) if is_work else theme.color("text"))
            self.colors.append(base)
        self.canvas = pixel(canvas)
        self.group = pixel(theme.color("surface"))
        self.grid = pixel(theme.color("grid"))
        self.accent = pixel(theme.color("accent"))
        counter = theme.color("text-muted")
        self.counter = tuple(pixel(blended(canvas, counter, share)) for share in COUNTER_SHARES)
