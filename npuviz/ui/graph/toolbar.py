"""The line of controls over the graph."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QToolButton, QWidget

_DIRECTIONS: tuple[tuple[str, str], ...] = (("Auto", ""), ("Down", "down"), ("Right", "right"))


class GraphToolBar(QWidget):
    """Direction, what to show, follow, heat, and a word about the state.

    direction_changed, heat_toggled, follow_toggled  the user chose otherwise
    fit_requested  True: everything, False: the selection
    """

    direction_changed = Signal()
    fit_requested = Signal(bool)
    heat_toggled = Signal(bool)
    follow_toggled = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.direction = QComboBox(self)
        self.direction.setAccessibleName("Direction of the graph")
        for title, value in _DIRECTIONS:
            self.direction.addItem(title, value)
        self.direction.setToolTip("Where data flow to; Auto follows the shape of the panel")
        self.direction.currentIndexChanged.connect(lambda: self.direction_changed.emit())
        self.follow = self._button("Follow", "Keep the operator that is being worked on in view")
        self.follow.setCheckable(True)
        self.follow.setChecked(True)
        self.follow.toggled.connect(self.follow_toggled.emit)
        self.heat = self._button("Heat", "Colour by the cycles units spent on an operator")
        self.heat.setCheckable(True)
        self.heat.toggled.connect(self.heat_toggled.emit)
        self.status = QLabel(self)
        self.status.setProperty("role", "muted")
        selected = self._button("Fit", "Show the selection, or everything (F)")
        selected.clicked.connect(lambda: self.fit_requested.emit(False))
        everything = self._button("All", "Show the whole graph (Home)")
        everything.clicked.connect(lambda: self.fit_requested.emit(True))
        bar = QHBoxLayout(self)
        bar.setContentsMargins(4, 2, 4, 2)
        bar.setSpacing(4)
        for widget in (self.direction, selected, everything, self.follow, self.heat):
            bar.addWidget(widget)
        bar.addStretch(1)
        bar.addWidget(self.status)

    def _button(self, text: str, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setAutoRaise(True)
        return button
