"""Where Tab leads: only to what can be seen, from the top of a panel to its bottom."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

ROW = 14
"""Widgets whose middles are no further apart than this stand in one row."""


def go_to_next_stop(window: QMainWindow, is_next: bool) -> bool:
    """Give the focus to the next widget that takes Tab and can be seen: panels behind a tab cannot.

    Returns whether there is another one.
    """
    start = window.focusWidget() or window
    stops = _stops(window)
    if start in stops:
        found = stops[(stops.index(start) + (1 if is_next else -1)) % len(stops)]
    else:
        # What takes the focus but not by Tab leads to its neighbour in Qt's order.
        chain = _chain(start) if is_next else _chain(start)[::-1]
        found = next((widget for widget in chain if widget in stops), start)
    if found is start:
        return False
    found.setFocus(Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason)
    return True


def _stops(window: QMainWindow) -> list[QWidget]:
    """All stops: panels in Qt's order, and in each of them from top to bottom and from left to right."""
    groups: dict[QWidget, list[QWidget]] = {}
    for widget in _chain(window):
        if widget.window() is window and _is_stop(widget):
            groups.setdefault(_dock_of(widget) or window, []).append(widget)
    return [stop for group in groups.values() for stop in _read(window, group)]


def _chain(start: QWidget) -> list[QWidget]:
    """Qt's order behind a widget, until it comes round."""
    found: list[QWidget] = []
    widget = start.nextInFocusChain()
    while widget is not None and widget is not start:
        found.append(widget)
        widget = widget.nextInFocusChain()
    return found


def _read(window: QWidget, group: Sequence[QWidget]) -> list[QWidget]:
    """Widgets as one reads a page."""
    places = {
        widget: widget.mapTo(window, QPoint(widget.width() // 2, widget.height() // 2)) for widget in group
    }
    found: list[list[QWidget]] = []
    for widget in sorted(group, key=lambda each: places[each].y()):
        if found and places[widget].y() - places[found[-1][0]].y() <= ROW:
            found[-1].append(widget)
        else:
            found.append([widget])
    return [widget for row in found for widget in sorted(row, key=lambda each: places[each].x())]


def _dock_of(widget: QWidget) -> QWidget | None:
    parent: QWidget | None = widget
    while parent is not None and not isinstance(parent, QDockWidget):
        parent = parent.parentWidget()
    return parent


def _is_stop(widget: QWidget) -> bool:
    takes_tab = bool(widget.focusPolicy().value & Qt.FocusPolicy.TabFocus.value)
    if not takes_tab or widget.focusProxy() is not None:
        return False
    return widget.isEnabled() and widget.isVisible() and not widget.visibleRegion().isEmpty()
