"""A line that is cut ends in an ellipsis and says the rest as its tooltip."""

from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from npuviz.ui.kit.elided_label import ElidedLabel

TEXT = "input.1  0x0000 to 0x1fff  float32   min 0   mean 0.5   max 1"


def tooltip(label: ElidedLabel) -> str:
    place = QPoint(2, 2)
    QApplication.sendEvent(label, QHelpEvent(QEvent.Type.ToolTip, place, label.mapToGlobal(place)))
    return label.toolTip()


def test_a_cut_line_says_all_of_it_as_its_tooltip(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.setText(TEXT)
    height = label.sizeHint().height()
    width = label.fontMetrics().horizontalAdvance(TEXT)
    label.resize(width + 10, height)
    whole = label.grab().toImage()
    assert not label.is_cut
    assert tooltip(label) == ""
    label.resize(width // 2, height)
    cut = label.grab().toImage()
    assert label.is_cut
    assert tooltip(label) == label.text() == TEXT
    # Both begin with the same letters; the end of the cut one is an ellipsis and not a half letter.
    part = width // 4
    assert cut.copy(0, 0, part, height) == whole.copy(0, 0, part, height)
    assert cut.copy(part, 0, part, height) != whole.copy(part, 0, part, height)


def test_parts_are_shown_whole_or_not_at_all(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.setText(TEXT)
    seen: set[str] = set()
    for width in range(label.fontMetrics().horizontalAdvance(TEXT) + 8, 0, -8):
        label.resize(width, 20)
        seen.add(label.shown)
        assert label.fontMetrics().horizontalAdvance(label.shown) <= width
    parts = TEXT.split("  ")[0]
    rest = {text.removesuffix(" \u2026") for text in seen if len(text) > len(parts) + 2}
    assert rest == {
        "input.1  0x0000 to 0x1fff",
        "input.1  0x0000 to 0x1fff  float32",
        "input.1  0x0000 to 0x1fff  float32   min 0",
        "input.1  0x0000 to 0x1fff  float32   min 0   mean 0.5",
        TEXT,
    }


def test_three_letters_are_worse_than_none(qtbot: QtBot) -> None:
    label = ElidedLabel()
    qtbot.addWidget(label)
    label.setText("29 operators")
    label.resize(label.fontMetrics().horizontalAdvance("29 o") + 2, label.sizeHint().height())
    assert label.shown == ""
    assert tooltip(label) == label.text()
    label.resize(label.fontMetrics().horizontalAdvance("29 operat"), label.sizeHint().height())
    assert label.shown.startswith("29 op")
