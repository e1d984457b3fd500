"""Colours by role, fonts and sizes of the window, following the system's light or dark setting."""

import tomllib
import zlib
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication

from npuviz.workbench.resources import resource_path

Mode = Literal["system", "dark", "light", "contrast-dark", "contrast-light"]

_OPPOSITES: dict[str, Mode] = {
    "dark": "light", "light": "dark", "contrast-dark": "contrast-light", "contrast-light": "contrast-dark",
}  # fmt: skip

GRID = 4
"""All distances are multiples of this many pixels."""
ROW_HEIGHT = 22
SIZE_NOTE = 11
SIZE_BODY = 12
SIZE_TITLE = 16

HATCH_ANGLES: dict[str, int] = {
    "wait-dependency": 45,
    "wait-queue": 135,
    "wait-bandwidth": 0,
    "wait-conflict": 90,
}
"""Angle of the hatching that says a stall cause without colour; `wait-empty` is plain."""

_OPERATOR_FAMILIES: dict[str, int] = {
    # Frequent operators get palette places of their own, so that they never collide.
    "Conv": 0, "ConvTranspose": 0, "QLinearConv": 0,
    "Gemm": 1, "MatMul": 1, "MatMulInteger": 1, "QLinearMatMul": 1,
    "Relu": 2, "Clip": 2, "LeakyRelu": 2, "Gelu": 2, "Sigmoid": 2, "Tanh": 2, "Erf": 2,
    "Add": 3, "Sub": 3, "Mul": 3, "Div": 3, "Sum": 3,
    "MaxPool": 4, "AveragePool": 4, "GlobalAveragePool": 4,
    "Softmax": 5,
    "LayerNormalization": 6, "BatchNormalization": 6, "SkipLayerNormalization": 6,
    "Concat": 7, "Split": 7, "Slice": 7, "Gather": 7,
    "Reshape": 8, "Transpose": 8, "Flatten": 8, "Squeeze": 8, "Unsqueeze": 8,
    "Attention": 9,
}  # fmt: skip


class Theme(QObject):
    """Tokens of the current theme. Widgets ask for roles, never for literal colours."""

    changed = Signal()

    def __init__(self, mode: Mode = "system", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._mode: Mode = mode
        self._colors: dict[str, QColor] = {}
        self._operators: list[QColor] = []
        self._heat: list[QColor] = []
        self._name = ""
        self._families = ("", "")
        self._fonts: dict[tuple[object, ...], QFont] = {}
        self._system_font = QGuiApplication.font()
        self._load()
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._apply_if_different)

    @property
    def mode(self) -> Mode:
        """The user's choice: "system" follows the system's setting, any other is the name of a theme."""
        return self._mode

    @property
    def name(self) -> str:
        """Name of the theme in use, which is a file in resources/themes."""
        return self._name

    @property
    def is_dark(self) -> bool:
        """Whether the background is darker than the text."""
        return self._name.endswith("dark")

    @property
    def opposite(self) -> Mode:
        """Light for a dark theme and dark for a light one, with as much contrast."""
        return _OPPOSITES[self._name]

    def set_mode(self, mode: Mode) -> None:
        """Choose a theme; emit `changed` if another one is in use now."""
        self._mode = mode
        self._apply_if_different()

    def color(self, role: str) -> QColor:
        """Return the colour of a role, a key of [window], [data] or [marks]; of muted text if it is
        unknown.
        """
        found = self._colors.get(role)
        return QColor(found if found is not None else self._colors["text-muted"])

    def hatch_angle(self, role: str) -> int | None:
        """Return the angle in degrees of a stall role's hatching, None for roles that are drawn plain."""
        return HATCH_ANGLES.get(role)

    def operator_color(self, op_type: str) -> QColor:
        """Return the colour of an operator type, the same in every panel, every run and on every machine."""
        place = _OPERATOR_FAMILIES.get(op_type)
        if place is None:
            reserved = max(_OPERATOR_FAMILIES.values()) + 1
            free = max(1, len(self._operators) - reserved)
            place = reserved + zlib.crc32(op_type.encode()) % free
        return QColor(self._operators[place % len(self._operators)])

    def category_color(self, number: int) -> QColor:
        """Return the colour of the n-th category, for things without a fixed colour; colours repeat."""
        return QColor(self._operators[number % len(self._operators)])

    def heat_color(self, fraction: float) -> QColor:
        """Return the colour of a quantity on a continuous scale, 0..1 (values outside are clamped)."""
        position = min(1.0, max(0.0, fraction)) * (len(self._heat) - 1)
        low = min(int(position), len(self._heat) - 2)
        part = position - low
        a, b = self._heat[low], self._heat[low + 1]
        return QColor.fromRgbF(
            a.redF() + (b.redF() - a.redF()) * part,
            a.greenF() + (b.greenF() - a.greenF()) * part,
            a.blueF() + (b.blueF() - a.blueF()) * part,
        )

    def text_on(self, background: QColor) -> QColor:
        """Return a text colour that is readable on a filled shape: near black or near white."""
        luminance = 0.299 * background.redF() + 0.587 * background.greenF() + 0.114 * background.blueF()
        return QColor("#10131a" if luminance > 0.5 else "#f5f7fb")

    def set_families(self, ui: str, mono: str) -> None:
        """Choose font families, "" for those of the system; emit `changed` if they differ from before."""
        if (ui, mono) != self._families:
            self._families = (ui, mono)
            self.changed.emit()

    def font_ui(self, size: int = SIZE_BODY, bold: bool = False) -> QFont:
        """Return the font of the user interface, the chosen family or the system's, at a size in pixels."""
        weight = QFont.Weight.DemiBold if bold else QFont.Weight.Normal
        return self._font(size, weight)

    def font_mono(self, size: int = SIZE_BODY) -> QFont:
        """Return a font of fixed width, for cycles, addresses and bytes, at a size in pixels."""
        return self._font(size, None)

    def _font(self, size: int, weight: QFont.Weight | None) -> QFont:
        """Return the font of the user interface in a weight; None: the font of fixed width."""
        # Copies of one font share what Qt has found out about it: a new one is looked up at every text.
        key = self._families, size, weight
        system = QGuiApplication.font()
        if system != self._system_font:
            self._system_font = system
            self._fonts.clear()
        found = self._fonts.get(key)
        if found is None:
            is_mono = weight is None
            fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont) if is_mono else system
            found = self._fonts[key] = QFont(fixed)
            family = self._families[1 if is_mono else 0]
            if family:
                found.setFamily(family)
            found.setPixelSize(size)
            if weight is not None:
                found.setWeight(weight)
        return QFont(found)

    @property
    def row_height(self) -> int:
        """Pixels of a row of a list or table."""
        return ROW_HEIGHT

    def _wanted(self) -> str:
        if self._mode != "system":
            return self._mode
        scheme = QGuiApplication.styleHints().colorScheme()
        return "light" if scheme == Qt.ColorScheme.Light else "dark"

    def _apply_if_different(self) -> None:
        if self._wanted() != self._name:
            self._load()
            self.changed.emit()

    def _load(self) -> None:
        self._name = self._wanted()
        with resource_path(f"themes/{self._name}.toml").open("rb") as file:
            tokens = tomllib.load(file)
        self._colors = {
            role: QColor(text)
            for section in ("window", "data", "marks")
            for role, text in tokens[section].items()
        }
        self._operators = [QColor(text) for text in tokens["operators"]["palette"]]
        self._heat = [QColor(text) for text in tokens["heat"]["stops"]]
