"""Tags in names that a file gives are shown as letters, in labels and tooltips."""

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent, QTextDocument
from PySide6.QtWidgets import QApplication, QLabel, QToolTip

from npuviz.ui.kit.elided_label import ElidedLabel
from npuviz.ui.kit.plain_text import Markup, plain_tip
from tests.ui.driver import Driver

EVIL = "<b>bold</b><img src='x'>"


def shown(tip: str) -> str:
    """What a reader of a tooltip sees."""
    if "<" not in tip:
        return tip  # Qt takes nothing for HTML that has no tag
    assert tip.startswith("<qt>")
    document = QTextDocument()
    document.setHtml(tip)
    return document.toPlainText()


@pytest.mark.parametrize(
    "text", ["plain", "a < b & c", EVIL, f"two\n{EVIL}\n&lt;", "<qt>x</qt>", "<!-- x -->y"]
)
def test_a_tip_shows_every_letter(qapp: object, text: str) -> None:
    assert shown(plain_tip(text)) == text


def test_what_npuviz_marks_up_stays(qapp: object) -> None:
    assert plain_tip(Markup("<b>x</b>")) == "<b>x</b>"


def test_a_cut_label_says_all_of_its_text(qtbot: object, qapp: object) -> None:
    label = ElidedLabel()
    label.setText(EVIL * 20)
    label.resize(50, 20)
    event = QHelpEvent(QEvent.Type.ToolTip, QPoint(1, 1), QPoint(1, 1))
    QApplication.sendEvent(label, event)
    assert shown(label.toolTip()) == EVIL * 20
    QToolTip.hideText()
    label.deleteLater()


def test_labels_that_show_what_a_file_says_take_no_tags(toy: Driver) -> None:
    names = {
        "status.cycle",
        "status.stop",
        "status.speed",
        "status.events",
        "progress.text",
        "empty_state.text",
    }
    labels = [label for label in toy.window.findChildren(QLabel) if label.objectName() in names]
    assert {label.objectName() for label in labels} == names
    assert {label.textFormat() for label in labels} == {Qt.TextFormat.PlainText}
