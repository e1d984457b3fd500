"""Where Tab leads: only to what can be seen."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow, QWidget


def go_to_next_stop(window: QMainWindow, is_next: bool) -> bool:
    """Give the focus to the next widget that takes Tab and can be seen: panels behind a tab cannot.

    Returns whether there is another one.
    """
    start = window.focusWidget() or window
    reason = Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason
    found = _following(start, is_next)
    while found is not None and found is not start:
        if _is_stop(found) and found.window() is window:
            found.setFocus(reason)
            return True
        found = _following(found, is_next)
    return False


def _following(widget: QWidget, is_next: bool) -> QWidget | None:
    return widget.nextInFocusChain() if is_next else widget.previousInFocusChain()


def _is_stop(widget: QWidget) -> bool:
    takes_tab = bool(widget.focusPolicy().value & Qt.FocusPolicy.TabFocus.value)
    if not takes_tab or widget.focusProxy() is not None:
        return False
    return widget.isEnabled() and widget.isVisible() and not widget.visibleRegion().isEmpty()
