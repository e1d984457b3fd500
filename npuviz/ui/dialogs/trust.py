"""Ask the user whether programs of a folder may run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from npuviz.base.names import elide_middle

Answer = Literal["once", "always", "no"]
MAX_NAME = 80


def ask_to_run(parent: QWidget, path: Path, scripts: Sequence[Path]) -> Answer:
    """Name the scripts that opening `path` starts, and let the user choose; "no" when dismissed."""
    box = QMessageBox(parent)
    box.setObjectName("dialog.trust")
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle("Run programs of this folder?")
    # Plain text, because the names come from files.
    box.setTextFormat(Qt.TextFormat.PlainText)
    names = ", ".join(elide_middle(script.name, MAX_NAME) for script in scripts)
    box.setText(f"Opening {elide_middle(path.name, MAX_NAME)} runs {names}.")
    box.setInformativeText(
        f"{elide_middle(str(path), 2 * MAX_NAME)}\n\nIts programs run on this computer with your rights. "
        "Continue only if you know where they come from."
    )
    once = box.addButton("Run Once", QMessageBox.ButtonRole.AcceptRole)
    always = box.addButton("Trust This Folder", QMessageBox.ButtonRole.AcceptRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    box.exec()
    return "once" if box.clickedButton() is once else "always" if box.clickedButton() is always else "no"
