"""The toolbar: open, run and step in both directions, the position of the machine, and search."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton, QSizePolicy, QToolBar, QToolButton, QWidget

from npuviz.base.units import format_count
from npuviz.ui.kit.steady_text import SteadyButton
from npuviz.ui.theme.icons import icon
from npuviz.ui.theme.theme import Theme

ICON = 18
SEARCH_WIDTH = 220


class RunBar(QToolBar):
    """Buttons in the order of time: those that go back at the left of Run, forward at its right.

    go_to, search  called when the position, or the search field, is clicked
    """

    def __init__(
        self,
        theme: Theme,
        action: Callable[[str], QAction],
        go_to: Callable[[], None],
        search: Callable[[], None],
        parent: QWidget,
    ) -> None:
        super().__init__("Toolbar", parent)
        self.setObjectName("toolbar")
        self._theme = theme
        self.setMovable(False)
        self.setFloatable(False)
        self.setIconSize(QSize(ICON, ICON))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self._pause = action("debug.pause")
        self._run = action("debug.run")
        for name in ("file.open", "file.run_on"):
            self._add(action(name))
        self.addSeparator()
        for name in ("debug.restart", "debug.run_back", "debug.step_back"):
            self._add(action(name))
        self._run_button = self._add(self._run)
        self._shown = self._run
        for name in ("debug.step", "debug.run_to_end"):
            self._add(action(name))
        self.addSeparator()
        self.position = SteadyButton(self, flat=True)
        self.position.setObjectName("toolbar.position")
        self.position.setFont(theme.font_mono(13))
        self.position.setToolTip("Cycle, last known cycle, time. Click to go elsewhere (Ctrl+G)")
        self.position.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.position.clicked.connect(go_to)
        self.addWidget(self.position)
        space = QWidget(self)
        space.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(space)
        self.search = QPushButton("Search  (Ctrl+P)", self)
        self.search.setObjectName("toolbar.search")
        self.search.setMinimumWidth(SEARCH_WIDTH)
        self.search.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.search.setToolTip("Find a unit, track, operator or tensor (Ctrl+P); all commands: Ctrl+Shift+P")
        self.search.clicked.connect(search)
        self.addWidget(self.search)
        self.show_position(None, None, "")
        self.refresh_icons()

    def show_position(self, cycle: int | None, end: int | None, time: str) -> None:
        """Show the machine's cycle, the last known cycle and the time; hide the position if `cycle` is
        None.
        """
        self.position.setVisible(cycle is not None)
        if cycle is None:
            self.position.setText("")
            return
        known = format_count(end) if end is not None else "?"
        self.position.setText(f"{format_count(cycle)} / {known}   {time}".rstrip())
        self.position.setAccessibleName(f"Cycle {cycle} of {known}, {time}")

    def show_running(self, running: bool) -> None:
        """Turn the run button into a pause button and back."""
        shown, hidden = (self._pause, self._run) if running else (self._run, self._pause)
        if shown is self._shown:
            return
        self._shown = shown
        # Qt draws the arrow of a menu on a button with two actions.
        self._run_button.removeAction(hidden)
        self._run_button.setDefaultAction(shown)

    def refresh_icons(self) -> None:
        """Draw the icons in the colours of the theme in use."""
        self.search.setIcon(icon("mdi6.magnify", self._theme, "text-muted"))

    def _add(self, action: QAction) -> QToolButton:
        button = QToolButton(self, autoRaise=True)
        button.setDefaultAction(action)
        button.setObjectName(f"toolbar.{action.objectName()}")
        button.setAccessibleName(action.text())
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.addWidget(button)
        return button
