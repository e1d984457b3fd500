"""The tool bar of the fabric panel."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QSizePolicy, QToolButton, QWidget

from npuviz.sim.fabric import FabricShape
from npuviz.ui.fabric.frame import NO_COLOR, Shade
from npuviz.ui.kit.parts import button, choice, fit_buttons, line
from npuviz.ui.theme.icons import icon
from npuviz.ui.theme.theme import Theme

_SHADES: tuple[tuple[str, Shade], ...] = (
    ("State", "state"),
    ("Link load", "load"),
    ("Queue fill", "queue"),
)
SPEEDS = (("1 / s", 1000), ("4 / s", 250), ("12 / s", 83), ("60 / s", 16))


class FabricToolBar(QWidget):
    """Controls for what is shown and followed, and for playing cycle by cycle.

    changed         the user changed what is shown
    play_toggled    True: play cycle by cycle, False: stop
    fit_requested   show True: the program, False: the selected element
    place_entered   the user typed the place of an element
    """

    changed = Signal()
    play_toggled = Signal(bool)
    fit_requested = Signal(bool)
    place_entered = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.shade = self._combo("fabric.shade", "What colours the elements (L)")
        for title, value in _SHADES:
            self.shade.addItem(title, value)
        self.route = self._combo("fabric.route", "Routes of a color (C and Shift+C change it)")
        self.links = self._toggle("Links", "fabric.links", "Load of every link, where there is room")
        self.words = self._toggle("Words", "fabric.words", "What is under way now (T)")
        self.follow = self._toggle("Follow", "fabric.follow", "Keep the selected word in sight")
        self.place = QLineEdit(self, placeholderText="c, r")
        self.place.setObjectName("fabric.place")
        self.place.setFixedWidth(52)
        self.place.setToolTip("Go to an element by its numbers")
        self.place.setAccessibleName("Go to an element")
        self.place.returnPressed.connect(lambda: self.place_entered.emit(self.place.text()))
        self.play = button(
            self, "", "Go on cycle by cycle, so that words can be watched (Space)", self._played,
            name="fabric.play", is_on=False,
        )  # fmt: skip
        self.play.setAccessibleName("Play cycle by cycle")
        self.speed = self._combo("fabric.speed", "Cycles a second when it plays")
        for title, interval in SPEEDS:
            self.speed.addItem(title, interval)
        self.speed.setCurrentIndex(1)
        fits = fit_buttons(self, self.fit_requested, "Show the selected element (F)",
                           "Show the program, then the whole fabric (Home)")  # fmt: skip
        shown = (self.play, self.speed, self.shade, self.route, self.links, self.words, self.follow)
        self.setLayout(line(*shown, 1, *fits, self.place, spacing=2))
        self.refresh_icons()

    @property
    def interval_ms(self) -> int:
        """Milliseconds between two cycles that are played."""
        return int(self.speed.currentData())

    def set_shape(self, shape: FabricShape, has_routes: bool, has_queues: bool, has_words: bool) -> None:
        """Offer the controls that fit a fabric: its colors, shades, and words."""
        self.words.setText(f"{shape.word.capitalize()}s")
        self.follow.setToolTip(f"Keep the selected {shape.word} in sight")
        kept = self.route.currentData()
        self.route.blockSignals(True)
        self.route.clear()
        self.route.addItem("No routes", NO_COLOR)
        for color in shape.colors:
            name = f"{color.id} {color.name}" if color.name else str(color.id)
            self.route.addItem(f"Color {name}", color.id)
        self.route.setCurrentIndex(max(self.route.findData(kept), 0))
        self.route.blockSignals(False)
        self.route.setVisible(has_routes and bool(shape.colors))
        for widget in (self.words, self.follow):
            widget.setVisible(has_words)
        queue = self.shade.findData("queue")
        if not has_queues and queue >= 0:
            self.shade.removeItem(queue)
        elif has_queues and queue < 0:
            self.shade.addItem(*_SHADES[2])

    def turn(self, combo: QComboBox, step: int) -> None:
        """Choose the entry `step` places on; after the last comes the first."""
        if combo.count():
            combo.setCurrentIndex((combo.currentIndex() + step) % combo.count())

    def refresh_icons(self) -> None:
        """Redraw icons in the colours of the theme."""
        name = "mdi6.pause" if self.play.isChecked() else "mdi6.play-speed"
        self.play.setIcon(icon(name, self._theme, "text"))

    def _played(self, checked: bool) -> None:
        self.refresh_icons()
        self.play_toggled.emit(checked)

    def _combo(self, name: str, tip: str) -> QComboBox:
        combo = choice(self, tip, name, lambda: self.changed.emit())
        combo.setToolTip(tip)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        combo.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        return combo

    def _toggle(self, text: str, name: str, tip: str) -> QToolButton:
        return button(self, text, tip, lambda: self.changed.emit(), name=name, is_on=True)
