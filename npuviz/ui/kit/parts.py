"""What panels are put together from: lines and columns of widgets, buttons, filters, menus."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QBoxLayout,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QSplitter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from npuviz.ui.kit.elided_label import ElidedLabel
from npuviz.ui.theme.icons import icon
from npuviz.ui.theme.theme import Theme

Box = TypeVar("Box", bound=QBoxLayout)
Part = QWidget | QLayout | int | tuple[QWidget | QLayout, int]
"""A widget or layout, one with the share of the room it takes, or such a share that stays free."""


def line(*parts: Part, margins: tuple[int, int, int, int] = (8, 4, 8, 4), spacing: int = 8) -> QHBoxLayout:
    """Parts beside each other."""
    return _filled(QHBoxLayout(), parts, margins, spacing)


def fill(
    widget: QWidget, *parts: Part, margins: tuple[int, int, int, int] = (0, 0, 0, 0), spacing: int = 0
) -> None:
    """Put parts below each other into a widget."""
    _filled(QVBoxLayout(widget), parts, margins, spacing)


def column(*parts: Part, parent: QWidget | None = None) -> QWidget:
    """A widget that holds parts below each other."""
    made = QWidget(parent)
    fill(made, *parts)
    return made


def _filled(box: Box, parts: Iterable[Part], margins: tuple[int, int, int, int], spacing: int) -> Box:
    box.setContentsMargins(*margins)
    box.setSpacing(spacing)
    for part in parts:
        content, share = part if isinstance(part, tuple) else (part, 0)
        if isinstance(content, int):
            box.addStretch(content)
        elif isinstance(content, QWidget):
            box.addWidget(content, share)
        else:
            box.addLayout(content, share)
    return box


def splitter(orientation: Qt.Orientation, *parts: tuple[QWidget, int]) -> QSplitter:
    """Widgets whose shares of the room the user can change."""
    made = QSplitter(orientation)
    for place, (widget, share) in enumerate(parts):
        made.addWidget(widget)
        made.setStretchFactor(place, share)
    return made


def restore_sizes(parts: QSplitter, sizes: object) -> None:
    """Give a splitter the sizes it once had; anything else is ignored."""
    if isinstance(sizes, list) and len(sizes) == parts.count() and all(isinstance(s, int) for s in sizes):
        parts.setSizes(sizes)


def button(
    parent: QWidget | None,
    text: str,
    tip: str = "",
    run: Callable[..., object] | None = None,
    *,
    name: str = "",
    is_on: bool | None = None,
    icon_name: str = "",
    is_flat: bool = True,
) -> QToolButton:
    """A button of a tool bar, described by its tip.

    run      called when it is pressed, of a toggle with its state when that changes
    is_on    state of a toggle, None for a plain button
    """
    made = QToolButton(parent, autoRaise=is_flat)
    made.setText(text)
    made.setObjectName(name)
    made.setToolTip(tip)
    made.setAccessibleName(tip)
    made.setProperty("icon_name", icon_name)
    if is_on is not None:
        made.setCheckable(True)
        made.setChecked(is_on)
    if run is not None:
        (made.clicked if is_on is None else made.toggled).connect(run)
    return made


def fit_buttons(parent: QWidget, asked: Any, selected: str, everything: str) -> list[QToolButton]:
    """Fit and All, with their tips: they emit `asked`, a signal, with False and True."""
    return [
        button(parent, "Fit", selected, lambda: asked.emit(False)),
        button(parent, "All", everything, lambda: asked.emit(True)),
    ]


def paint_icons(buttons: Iterable[QToolButton], theme: Theme) -> None:
    """Draw the icons of buttons in the colours of the theme."""
    for each in buttons:
        each.setIcon(icon(str(each.property("icon_name")), theme, "text-muted"))


def text_button(parent: QWidget, text: str, run: Callable[[], object]) -> QPushButton:
    """A flat button with a word on it."""
    made = QPushButton(text, parent, flat=True)
    made.clicked.connect(lambda: run())
    return made


def choice(parent: QWidget | None, title: str, name: str = "", changed: Any = None) -> QComboBox:
    """A box to choose one of several texts."""
    made = QComboBox(parent)
    made.setObjectName(name)
    made.setAccessibleName(title)
    if changed is not None:
        made.currentIndexChanged.connect(changed)
    return made


FILTERS = "filters"
"""Property of lines whose text chooses what is shown."""


def filter_line(
    parent: QWidget | None,
    text: str,
    changed: Callable[[str], object],
    *,
    title: str = "",
    name: str = "",
    width: int = 180,
) -> QLineEdit:
    """A line whose text chooses what is shown; in a panel Ctrl+F leads to it, see `Panel.keyPressEvent`."""
    made = QLineEdit(parent, placeholderText=text, clearButtonEnabled=True)
    made.setProperty(FILTERS, True)
    made.setObjectName(name)
    made.setAccessibleName(title or text)
    made.setMaximumWidth(width)
    made.textChanged.connect(changed)
    return made


def muted_label(parent: QWidget | None = None, name: str = "", text: str = "") -> QLabel:
    """A quiet line of text."""
    made = QLabel(text, parent, textFormat=Qt.TextFormat.PlainText)
    made.setObjectName(name)
    made.setProperty("role", "muted")
    return made


def summary_line(name: str) -> ElidedLabel:
    """A quiet line that ends in an ellipsis where its place ends, and then has all of it as its tooltip."""
    made = ElidedLabel()
    made.setObjectName(name)
    made.setProperty("role", "muted")
    return made


def add_keys(
    parent: QWidget, keys: Iterable[tuple[Any, Callable[[], object]]], *, with_children: bool = True
) -> None:
    """Let keys do something while a widget, or one of its children too, has the focus."""
    scope = Qt.ShortcutContext
    for key, run in keys:
        shortcut = QShortcut(QKeySequence(key), parent)
        # Said apart: PySide6 takes a `context` argument of the constructor and leaves the scope a window.
        shortcut.setContext(scope.WidgetWithChildrenShortcut if with_children else scope.WidgetShortcut)
        shortcut.activated.connect(run)


def pop_up(menu: QMenu, point: QPoint, source: QWidget | None = None) -> None:
    """Show a menu, which goes when it was used; at a point of `source`, or of the screen."""
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(source.mapToGlobal(point) if source is not None else point)
