"""Says in the status bar how many hazards there are."""

from collections.abc import Callable

from PySide6.QtCore import QObject

from npuviz.base.units import format_count
from npuviz.ui.bridge.hazard_watch import HazardWatch
from npuviz.ui.shell.bars.status import ClickLabel
from npuviz.ui.theme.theme import Theme


class HazardDisplay(QObject):
    """Follows a hazard watch.

    show_list  what a click on the label does
    """

    def __init__(
        self,
        watch: HazardWatch,
        label: ClickLabel,
        theme: Theme,
        show_list: Callable[[], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._watch, self._label, self._theme = watch, label, theme
        label.clicked.connect(show_list)
        watch.changed.connect(self._show)
        theme.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        watch, label = self._watch, self._label
        count = len(watch.hazards or ())
        label.setText(_text(watch, count))
        label.setVisible(watch.is_available)
        color = self._theme.color("hazard" if count else "text-muted").name()
        label.setStyleSheet(f"color: {color};")


def _text(watch: HazardWatch, count: int) -> str:
    if watch.hazards is None:
        if watch.is_looking:
            return "looking for hazards\u2026"
        return "hazards 0" if watch.is_automatic else "hazards ?"
    return f"hazards {format_count(count)}"
