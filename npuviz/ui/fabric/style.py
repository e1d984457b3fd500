"""The colours of a fabric as plain pixel numbers, computed once per theme for the kernels."""

import numpy as np
from PySide6.QtGui import QColor

from npuviz.sim.fabric import FULL, FabricShape
from npuviz.ui.fabric.grid_kernels import FILL, LINE, URGENT, X_STEP, Y_STEP
from npuviz.ui.kit.colors import HATCH_STEPS, blended, pixel
from npuviz.ui.theme.theme import Theme

STYLE_COLUMNS = 5
URGENT_ROLES = {"hazard": 2, "breakpoint": 1, "error": 2}
"""Role -> urgency: a pixel shared by many elements gets the colour of the most urgent one."""
QUIET_ROLES = frozenset({"idle", "off", "finished", "wait-empty"})
WORK_SHARE, WAIT_SHARE = 0.62, 0.6
FAINT_BELOW = 0.12
"""Shares below about this are blended with the colour of idle elements."""


class FabricStyle:
    """The theme's colours in the form that the kernels and the painter use.

    states  (codes, 5) int64, heat (256, 5) int64: rows as `grid_kernels` reads them
    links   (256,) int64: colour of a link by its load
    """

    def __init__(self, theme: Theme, shape: FabricShape) -> None:
        self.theme = theme
        self.canvas = theme.color("canvas")
        self.background = pixel(self.canvas)
        self.states = np.zeros((max(len(shape.states), 1) + 1, STYLE_COLUMNS), np.int64)
        self.colors: list[QColor] = []
        for code, state in enumerate(shape.states):
            base = theme.color(state.role)
            waits = state.role.startswith("wait-") and state.role not in QUIET_ROLES
            is_quiet = state.role in QUIET_ROLES or state.role in URGENT_ROLES
            # Muted, so that the words that travel over them stand out.
            fill = base if is_quiet else blended(self.canvas, base, WAIT_SHARE if waits else WORK_SHARE)
            angle = theme.hatch_angle(state.role) if waits else None
            self.states[code, FILL] = self.states[code, LINE] = pixel(fill)
            if angle is not None:
                self.states[code, LINE] = pixel(blended(fill, base, 0.8))
                self.states[code, X_STEP], self.states[code, Y_STEP] = HATCH_STEPS[angle]
            self.states[code, URGENT] = URGENT_ROLES.get(state.role, 0)
            self.colors.append(fill)
        self.heat = np.zeros((FULL + 1, STYLE_COLUMNS), np.int64)
        for value in range(FULL + 1):
            self.heat[value, FILL] = self.heat[value, LINE] = pixel(self.heat_color(value / FULL))
            # Among many, the largest counts.
            self.heat[value, URGENT] = value
        self.links = self.heat[:, FILL].copy()
        self.links[0] = pixel(theme.color("border"))
        self._words = {color.id: theme.category_color(place) for place, color in enumerate(shape.colors)}

    def heat_color(self, share: float) -> QColor:
        """Return the colour of a share, 0..1: the larger, the further from the background."""
        theme = self.theme
        color = theme.heat_color(share if theme.is_dark else 1 - share)
        # Blended, because small shares would hardly differ: dark violet on black, pale yellow on white.
        quiet = theme.color("idle")
        return quiet if share <= 0 else blended(quiet, color, min(1.0, 0.35 + share / FAINT_BELOW * 0.65))

    def color_of_state(self, code: int) -> QColor:
        """Fill of an element in a state."""
        return self.colors[code] if 0 <= code < len(self.colors) else self.theme.color("idle")

    def color_of_route(self, color: int) -> QColor:
        """Colour of the words and routes of a color of the fabric, -1 for words without one."""
        found = self._words.get(color)
        return QColor(found) if found is not None else self.theme.color("text")

    def pixels_of_routes(self, colors: np.ndarray) -> np.ndarray:
        """Return (n,) int64 pixels of words by their colors."""
        known, place = np.unique(colors, return_inverse=True)
        table = np.array([pixel(self.color_of_route(int(color))) for color in known], np.int64)
        return table[place.reshape(colors.shape)] if len(known) else np.zeros(colors.shape, np.int64)
