"""A bar with the iterations of the loops around the current line, which the user can change."""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QLayout, QSpinBox, QWidget

from npuviz.program.source import LoopTurn
from npuviz.ui.kit.parts import fill, line, muted_label

MOST_LOOPS = 4
"""Most loops that are shown; of more the innermost ones."""


class LoopBar(QWidget):
    """One box for each loop, outermost first.

    chosen  (variable, iteration from 1) that the user wants to go to
    """

    chosen = Signal(str, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("source.loops")
        self._loops: tuple[LoopTurn, ...] = ()
        self._room = 0
        self.names = [QLabel("", self, textFormat=Qt.TextFormat.PlainText) for _ in range(MOST_LOOPS)]
        self.boxes = [self._box(number) for number in range(MOST_LOOPS)]
        self.values = [muted_label(self) for _ in range(MOST_LOOPS)]
        parts = [part for trio in zip(self.names, self.boxes, self.values, strict=True) for part in trio]
        fill(self, line(*parts, 1, margins=(8, 2, 8, 2), spacing=4))
        layout = self.layout()
        assert layout is not None
        # It may become narrower than its present texts, which are then shortened.
        layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setVisible(False)

    def _box(self, number: int) -> QSpinBox:
        made = QSpinBox(self)
        made.setObjectName(f"source.loop.{number}")
        made.setKeyboardTracking(False)  # so that a number of two digits emits one change
        made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # a wheel that passes changes nothing
        made.valueChanged.connect(lambda turn: self.chosen.emit(self._loops[number].variable, turn))
        return made

    def show_loops(self, loops: Sequence[LoopTurn]) -> None:
        """Show these loops, outermost first; hide the bar without any."""
        self._loops = tuple(loops[-MOST_LOOPS:])
        self.setVisible(bool(self._loops))
        for number, (name, box, value) in enumerate(zip(self.names, self.boxes, self.values, strict=True)):
            is_used = number < len(self._loops)
            for part in (name, box, value):
                part.setVisible(is_used)
            if not is_used:
                continue
            loop = self._loops[number]
            name.setText(loop.variable)
            with QSignalBlocker(box):
                box.setRange(1, max(loop.count, 1))
                box.setValue(loop.turn)
            box.setToolTip(f"Iteration of the loop over {loop.variable}; another number goes there")
            box.setAccessibleName(f"Iteration of {loop.variable}, of {loop.count}")
        self._write_values()

    def _write_values(self) -> None:
        """Write what each variable is, beside its box if all of them have room, else as tips."""
        self._room = self.width()
        shown = list(zip(self._loops, self.values, strict=False))
        for is_whole in (True, False):
            for loop, value in shown:
                value.setText(f"of {loop.count}, is {loop.value}" if is_whole else f"of {loop.count}")
                value.setToolTip(f"{loop.variable} is {loop.value}")
            layout = self.layout()
            assert layout is not None
            layout.invalidate()
            if layout.minimumSize().width() <= self._room:
                break
        self.updateGeometry()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.width() != self._room:
            self._write_values()
