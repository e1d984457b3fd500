"""Lines under the toolbar that are there only while they have something to say."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow, QToolBar

from npuviz.ui.shell.bars.error import ErrorBar
from npuviz.ui.shell.bars.note import NoteBanner


def add_bar(window: QMainWindow, title: str, name: str, content: ErrorBar | NoteBanner) -> None:
    """Give a message a line of its own below the bars that are there."""
    window.addToolBarBreak(Qt.ToolBarArea.TopToolBarArea)
    bar = QToolBar(title, window)
    bar.setObjectName(name)
    bar.setMovable(False)
    bar.addWidget(content)
    bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
    content.shown.connect(bar.show)
    content.closed.connect(bar.hide)
    bar.hide()
    window.addToolBar(Qt.ToolBarArea.TopToolBarArea, bar)
