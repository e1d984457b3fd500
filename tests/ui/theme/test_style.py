"""The look of the application follows its theme, and one that it has already is not set again."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QLabel

from npuviz.ui.theme.style import apply_theme, palette_of, style_sheet
from npuviz.ui.theme.theme import Theme


class _Styled(QObject):
    """Counts how often a widget is given its style."""

    count = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.StyleChange
        return super().eventFilter(watched, event)


def test_a_look_is_set_once_and_each_time_it_differs(qapp: QApplication) -> None:
    label, seen = QLabel("text"), _Styled()
    label.ensurePolished()
    label.installEventFilter(seen)
    dark, light = Theme("dark"), Theme("light")
    apply_theme(qapp, light)
    for theme in (dark, light, dark):
        before = seen.count
        apply_theme(qapp, theme)
        changed = seen.count
        apply_theme(qapp, theme)
        assert seen.count == changed > before
        assert qapp.styleSheet() == style_sheet(theme)
        assert qapp.palette().window() == palette_of(theme).window()
    qapp.setStyleSheet("")
    apply_theme(qapp, dark)
    assert qapp.styleSheet() == style_sheet(dark)
