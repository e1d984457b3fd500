"""The title bar of a dock: one quiet line with float and close."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDockWidget, QLabel, QSizePolicy, QToolButton, QWidget

from npuviz.ui.kit.parts import button, fill, line
from npuviz.ui.theme.icons import icon
from npuviz.ui.theme.theme import Theme

HEIGHT = 24


class DockTitle(QWidget):
    """Title, float button, close button. Mouse events reach the dock, so it can be dragged by its title."""

    def __init__(self, dock: QDockWidget, theme: Theme) -> None:
        super().__init__(dock)
        self.setObjectName("dock_title")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(HEIGHT)
        self._theme = theme
        # Docks are asked for sizes thousands of times when a window opens, and each answer of Python took
        # microseconds: Qt answers from these policies. Contents claim no width, and no height when hidden.
        self._contents = QWidget(self)
        self._contents.setFixedHeight(HEIGHT)
        self._contents.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        text = QLabel(dock.windowTitle(), self._contents)
        text.setObjectName("dock_title_text")
        self._float = self._button(f"Float {dock.windowTitle()}", "Float or dock again")
        self._close = self._button(f"Close {dock.windowTitle()}", "Close; View > Panels brings it back")
        self._float.clicked.connect(lambda: dock.setFloating(not dock.isFloating()))
        self._close.clicked.connect(dock.close)
        self._contents.setLayout(line(text, 1, self._float, self._close, margins=(12, 0, 4, 0), spacing=0))
        fill(self, self._contents)
        self.refresh_icons()

    def set_collapsed(self, collapsed: bool) -> None:
        """Take no room, or the usual height again: collapse for a dock whose tab already shows its name."""
        if collapsed != self._contents.isHidden():
            self._contents.setHidden(collapsed)
            self.setFixedHeight(0 if collapsed else HEIGHT)

    def refresh_icons(self) -> None:
        """Draw the icons in the colours of the theme in use."""
        self._float.setIcon(icon("mdi6.dock-window", self._theme, "text-disabled"))
        self._close.setIcon(icon("mdi6.close", self._theme, "text-disabled"))

    def _button(self, name: str, tip: str) -> QToolButton:
        made = button(self._contents, "", tip)
        made.setIconSize(QSize(14, 14))
        made.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        made.setAccessibleName(name)
        return made
