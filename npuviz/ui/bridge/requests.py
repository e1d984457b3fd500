"""What panels ask of the window and of each other; nobody answers outside a window."""

from PySide6.QtCore import QObject, Signal


class Requests(QObject):
    """Calls for whoever can answer them.

    told      an answer for the user: a line, further lines, title of an action and what it does (or None)
    compared  an operator is to be compared with others of its type
    path_marked  SEGMENT_DTYPE rows of a path to be marked where time is shown, None: no path
    """

    told = Signal(str, str, str, object)
    compared = Signal(int)
    path_marked = Signal(object)
