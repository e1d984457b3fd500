"""Choose the first size of a window."""

from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

DEFAULT_SIZE = QSize(1440, 900)
FRAME = QSize(16, 48)
"""Pixels reserved for the frame that a window manager adds."""


def first_size(window: QWidget) -> QSize:
    """Return the default size, reduced to fit the screen."""
    screen = window.screen() or QGuiApplication.primaryScreen()
    return DEFAULT_SIZE.boundedTo(screen.availableSize() - FRAME)
