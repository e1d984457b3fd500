"""How large a window is at first."""

from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

DEFAULT_SIZE = QSize(1440, 900)
FRAME = QSize(16, 48)
"""What a window manager may put around a window."""


def first_size(window: QWidget) -> QSize:
    """The default size, or what of it the screen has room for."""
    screen = window.screen() or QGuiApplication.primaryScreen()
    return DEFAULT_SIZE.boundedTo(screen.availableSize() - FRAME)
