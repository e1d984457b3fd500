"""Signals by which panels ask something of the window or of each other."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal


class Requests(QObject):
    """Requests of panels, as signals; without a window nothing is connected to them.

    told      an answer for the user: a line, further lines, title of an action and what it does (or None)
    compared  an operator is to be compared with others of its type
    comparison_asked  what is open is to be compared with a path, opened with OpenOptions
    path_marked  SEGMENT_DTYPE rows of a path to be marked where time is shown, None: no path
    """

    told = Signal(str, str, str, object)
    compared = Signal(int)
    comparison_asked = Signal(Path, object)
    path_marked = Signal(object)
