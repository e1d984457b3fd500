"""The whole text of one hazard below the table, with a button for each of the lines that it names."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QWidget

from npuviz.program.source import line_of
from npuviz.sim.machine import Hazard
from npuviz.ui.kit.parts import button, column, fill, line, muted_label


class HazardDetail(QWidget):
    """Shows what is wrong, and how to mend it.

    chosen  the instruction of the button that was pressed
    """

    chosen = Signal(int)

    def __init__(self, instruction_text: Callable[[int], str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("hazards.detail")
        self._instruction_text = instruction_text
        self._instructions = [-1, -1]
        self.text = QLabel("", self, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.mend = muted_label(self)
        self.mend.setWordWrap(True)
        self.places = [button(self, "", run=partial(self._choose, place)) for place in range(2)]
        buttons = column(line(*self.places, 1, margins=(0, 0, 0, 0)), parent=self)
        fill(self, line(column(self.text, self.mend, buttons, parent=self), margins=(8, 4, 8, 4)))
        self.show_hazard(None, None)

    def _choose(self, place: int, _is_on: bool = False) -> None:
        self.chosen.emit(self._instructions[place])

    def show_hazard(self, hazard: Hazard | None, listing: object) -> None:
        """Show a hazard of a program, None for none."""
        self.setVisible(hazard is not None)
        if hazard is None:
            return
        self.text.setText(hazard.text)
        self.mend.setText(f"To mend it: {hazard.mend}" if hazard.mend else "")
        self.mend.setVisible(bool(hazard.mend))
        self._instructions = [hazard.instruction, hazard.other]
        for place, instruction in zip(self.places, self._instructions, strict=True):
            what = self._instruction_text(instruction) if instruction >= 0 else ""
            where = line_of(listing, instruction)
            place.setText(f"{where}  {what}" if where else what)
            place.setToolTip(
                "Select the instruction" if instruction == hazard.instruction else "The other one"
            )
            place.setVisible(bool(what))
