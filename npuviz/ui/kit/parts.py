"""Build the parts of panels: rows and columns of widgets, buttons, filters, menus."""

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
"""A widget or layout; one with its stretch factor; or a stretch factor of empty room."""


def line(*parts: Part, margins: tuple[int, int, int, int] = (8, 4, 8, 4), spacing: int = 8) -> QHBoxLayout:
    """Make a layout of parts beside each other."""
    return _filled(QHBoxLayout(), parts, margins, spacing)


def fill(
    widget: QWidget, *parts: Part, margins: tuple[int, int, int, int] = (0, 0, 0, 0), spacing: int = 0
) -> None:
    """Put parts below each other into a widget."""
    _filled(QVBoxLayout(widget), parts, margins, spacing)


def column(*parts: Part, parent: QWidget | None = None) -> QWidget:
    """Make a widget that holds parts below each other."""
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
    """Make a splitter, in which the user can change how much room each widget gets."""
    made = QSplitter(orientation)
    for place, (widget, share) in enumerate(parts):
        made.addWidget(widget)
        made.setStretchFactor(place, share)
    return made


def restore_sizes(parts: QSplitter, sizes: object) -> None:
    """Restore saved sizes of a splitter; ignore anything that is not one integer for each part."""
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
    """Make a button of a tool bar, described by its tip.

    run      called when it is pressed; of a toggle: called with its state when that changes
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
    """Make the buttons Fit and All, with tips, which emit the signal `asked` with False and with True."""
    return [
        button(parent, "Fit", selected, lambda: asked.emit(False)),
        button(parent, "All", everything, lambda: asked.emit(True)),
    ]


def paint_icons(buttons: Iterable[QToolButton], theme: Theme) -> None:
    """Draw the icons of buttons in the colours of the theme."""
    for each in buttons:
        each.setIcon(icon(str(each.property("icon_name")), theme, "text-muted"))


def text_button(parent: QWidget, text: str, run: Callable[[], object]) -> QPushButton:
    """Make a flat button with a text on it."""
    made = QPushButton(text, parent, flat=True)
    made.clicked.connect(lambda: run())
    return made


def choice(parent: QWidget | None, title: str, name: str = "", changed: Any = None) -> QComboBox:
    """Make a box in which one of several texts is chosen."""
    made = QComboBox(parent)
    made.setObjectName(name)
    made.setAccessibleName(title)
    if changed is not None:
        made.currentIndexChanged.connect(changed)
    return made


FILTERS = "filters"
"""Name of the Qt property that marks lines made by `filter_line`."""


def filter_line(
    parent: QWidget | None,
    text: str,
    changed: Callable[[str], object],
    *,
    title: str = "",
    name: str = "",
    width: int = 180,
) -> QLineEdit:
    """Make a line whose text filters what is shown; in a panel Ctrl+F focuses it (`Panel.keyPressEvent`)."""
    made = QLineEdit(parent, placeholderText=text, clearButtonEnabled=True)
    made.setProperty(FILTERS, True)
    made.setObjectName(name)
    made.setAccessibleName(title or text)
    made.setMaximumWidth(width)
    made.textChanged.connect(changed)
    return made


def muted_label(parent: QWidget | None = None, name: str = "", text: str = "") -> QLabel:
    """Make a line of text in the muted colour."""
    made = QLabel(text, parent, textFormat=Qt.TextFormat.PlainText)
    made.setObjectName(name)
    made.setProperty("role", "muted")
    return made


def summary_line(name: str) -> ElidedLabel:
    """Make a line in the muted colour that is shortened to its place, with all of it as its tooltip."""
    made = ElidedLabel()
    made.setObjectName(name)
    made.setProperty("role", "muted")
    return made


def add_keys(
    parent: QWidget, keys: Iterable[tuple[Any, Callable[[], object]]], *, with_children: bool = True
) -> None:
    """Bind keys to functions while a widget, or (`with_children`) one of its children, has the focus."""
    scope = Qt.ShortcutContext
    for key, run in keys:
        shortcut = QShortcut(QKeySequence(key), parent)
        # Set separately: PySide6 accepts a `context` argument of the constructor but ignores it.
        shortcut.setContext(scope.WidgetWithChildrenShortcut if with_children else scope.WidgetShortcut)
        shortcut.activated.connect(run)


def pop_up(menu: QMenu, point: QPoint, source: QWidget | None = None) -> None:
    """Show a menu at a point of `source`, or of the screen; it is deleted when it closes."""
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(source.mapToGlobal(point) if source is not None else point)
