"""The tool bar of the graph panel."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from npuviz.ui.kit.parts import button, choice, fit_buttons, line, summary_line

_DIRECTIONS: tuple[tuple[str, str], ...] = (("Auto", ""), ("Down", "down"), ("Right", "right"))


class GraphToolBar(QWidget):
    """Controls for direction, fit, follow, heat and folding, and a status text.

    direction_changed, heat_toggled, fold_toggled, follow_toggled  the user changed that control
    fit_requested  show True: everything, False: the selection
    """

    direction_changed = Signal()
    fit_requested = Signal(bool)
    heat_toggled = Signal(bool)
    fold_toggled = Signal(bool)
    follow_toggled = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.direction = choice(self, "Direction of the graph")
        for title, value in _DIRECTIONS:
            self.direction.addItem(title, value)
        self.direction.setToolTip(
            "Where data flow to; Auto follows the shape of the panel, and lays a long graph in bands"
        )
        self.direction.currentIndexChanged.connect(lambda: self.direction_changed.emit())
        self.follow = button(
            self, "Follow", "Keep the operator that is being worked on in view",
            self.follow_toggled.emit, is_on=True,
        )  # fmt: skip
        tip = "Colour by the cycles units spent on an operator"
        self.heat = button(self, "Heat", tip, self.heat_toggled.emit, is_on=False)
        tip = "Draw groups of operators as one box each"
        self.fold = button(self, "Fold", tip, self.fold_toggled.emit, name="graph.fold", is_on=False)
        # If there is little room, the number of operators is shortened, not the choices.
        self.direction.setMinimumWidth(self.direction.sizeHint().width())
        self.status = summary_line("graph.status")
        self.status.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        fits = fit_buttons(self, self.fit_requested, "Show the selection, or everything (F)",
                           "Show the whole graph (Home)")  # fmt: skip
        shown = (self.direction, *fits, self.follow, self.heat, self.fold)
        self.setLayout(line(*shown, (self.status, 1), margins=(4, 2, 4, 2), spacing=4))
