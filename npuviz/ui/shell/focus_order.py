"""Move the focus by Tab: only to visible widgets, from the top of a panel to its bottom."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

ROW = 14
"""Pixels: widgets whose centres differ by at most this in height count as one row."""


def go_to_next_stop(window: QMainWindow, is_next: bool) -> bool:
    """Focus the next (or previous) visible widget of the window that takes the focus by Tab.

    Return whether there is one other than the present.
    """
    start = window.focusWidget() or window
    order = _order(window, start)
    if start in order:
        found = order[(order.index(start) + (1 if is_next else -1)) % len(order)]
    else:
        found = (order[0] if is_next else order[-1]) if order else start
    if found is start:
        return False
    found.setFocus(Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason)
    return True


def _order(window: QMainWindow, start: QWidget) -> list[QWidget]:
    """Return all widgets that take Tab, and `start`: the bars, then each panel, from top to bottom.

    Qt's focus chain is not used: PySide makes the wrapper of each widget in it a child of the one before, so
    that deleting the first deletes the others too, even menus.
    """
    groups: dict[QWidget, list[QWidget]] = {}
    for widget in window.findChildren(QWidget):
        if widget.window() is window and (widget is start or _is_stop(widget)):
            groups.setdefault(_dock_of(widget) or window, []).append(widget)
    bars = groups.pop(window, [])
    docks = _read(window, list(groups))
    return [*_read(window, bars), *(stop for dock in docks for stop in _read(window, groups[dock]))]


def _read(window: QWidget, group: Sequence[QWidget]) -> list[QWidget]:
    """Sort widgets in reading order: by rows from the top, each from left to right."""
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
